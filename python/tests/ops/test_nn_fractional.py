"""Fractional pooling, resizing of bytes."""

import pytest
import torch
import torch.nn.functional as F
from util import check


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64), ids=str)
def test_fractional_max_pool(dtype):
    def run(x, u, pool, kernel, size):
        x = x.clone().requires_grad_()
        result, indices = pool(x, kernel, output_size=size, return_indices=True, _random_samples=u)
        return result, indices, torch.autograd.grad(result, x, torch.ones_like(result))

    for n, pool in ((2, F.fractional_max_pool2d), (3, F.fractional_max_pool3d)):
        x = torch.randn(2, 3, *(9, 8, 7)[:n]).to(dtype)
        u = torch.rand(2, 3, n).to(dtype)
        size = (2, 3, 4)[:n]
        check(lambda x, u, p=pool, k=(3, 2, 2)[:n], s=size: run(x, u, p, k, s), x, u)
        check(lambda x, u, p=pool: run(x, u, p, 2, 1), x, u)


@pytest.mark.parametrize("mode", ("bilinear", "bicubic"))
@pytest.mark.parametrize("antialias", (False, True))
@pytest.mark.parametrize("align", (False, True))
def test_bytes_are_resized_as_on_the_cpu(mode, antialias, align):
    for channels, size in ((3, (7, 13)), (1, (40, 9)), (6, (15, 30))):
        x = torch.randint(0, 256, (2, channels, 15, 20), dtype=torch.uint8)
        check(lambda x, s=size: F.interpolate(x, s, mode=mode, antialias=antialias, align_corners=align), x)


def test_soft_margin_loss_overflows_in_half_precision():
    x, t = torch.tensor([-12.0, 3.0]).half(), torch.tensor([1.0, -1.0]).half()
    check(F.soft_margin_loss, x, t)
    check(F.soft_margin_loss, x.float(), t.float())
