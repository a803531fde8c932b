"""segment_reduce, histograms, hash_tensor."""

import pytest
import torch
from util import check

NAN = float("nan")


@pytest.mark.parametrize("reduce", ("max", "min", "mean", "sum", "prod"))
@pytest.mark.parametrize("initial", (None, 2))
@pytest.mark.parametrize("sign", (1.0, -1.0))
def test_segments_with_gradient(reduce, initial, sign):
    data = torch.tensor([1.0, 3.0, 3.0, NAN, 0.0, 2.0, 3.0, 3.0])

    def run(data, **kw):
        data = data.clone().requires_grad_()
        result = torch.segment_reduce(data, reduce, initial=initial, **kw)
        return result, torch.autograd.grad(result, data, torch.full_like(result, sign))

    check(lambda d, n: run(d, lengths=n), data, torch.tensor([3, 0, 1, 2, 2]))
    check(lambda d, n: run(d, offsets=n), data, torch.tensor([0, 3, 3, 4, 6, 8], dtype=torch.int32))
    check(lambda d, n: run(d, lengths=n, axis=1), torch.randn(2, 4, 3), torch.tensor([[1, 3], [4, 0]]))


def test_segments_that_do_not_fit():
    data = torch.arange(6.0).to("tpu")
    with pytest.raises(RuntimeError, match="sum to data"):
        torch.segment_reduce(data, "sum", lengths=torch.tensor([3, 1]).to("tpu")).cpu()
    with pytest.raises(RuntimeError, match="negative"):
        torch.segment_reduce(data, "sum", lengths=torch.tensor([-1, 7]).to("tpu")).cpu()
    check(lambda d, n: torch.segment_reduce(d, "sum", lengths=n, unsafe=True), data.cpu(), torch.tensor([3, 1]))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("density", (False, True))
def test_histogram(dtype, density):
    x = torch.tensor([0.5, 1.0, 1.0, 2.0, 3.5, 4.0, -1.0, NAN], dtype=dtype)
    weight = torch.arange(8, dtype=dtype)
    edges = torch.tensor([0.5, 1.0, 2.5, 4.0], dtype=dtype)
    check(lambda x: torch.histogram(x[:7], 5, density=density), x)
    check(lambda x, w: torch.histogram(x, 4, range=(0.0, 4.0), weight=w, density=density), x, weight)
    check(lambda x, e, w: torch.histogram(x, e, weight=w, density=density), x, edges, weight)
    check(lambda x: torch.histogram(x, 3), torch.empty(0, dtype=dtype))
    check(lambda x: torch.histogram(x, 2), torch.ones(2, dtype=dtype))


def test_histogramdd():
    x = torch.rand(40, 2)
    check(lambda x: torch.histogramdd(x, [3, 4]), x)
    check(lambda x: torch.histogramdd(x, [3, 4], range=[0.0, 1.0, 0.2, 0.7], density=True), x)
    edges = (torch.tensor([0.0, 0.5, 1.0]), torch.tensor([0.1, 0.2, 0.9]))
    check(lambda x, a, b: torch.histogramdd(x, [a, b]), x, *edges)
    with pytest.raises(RuntimeError, match="is not finite"):
        torch.histogram(torch.tensor([1.0, NAN]).to("tpu"), 3)[0].cpu()


@pytest.mark.parametrize(
    "dtype", (torch.float32, torch.float64, torch.float16, torch.int8, torch.int64, torch.bool), ids=str
)
def test_hash_tensor(dtype):
    x = (torch.randn(3, 4) * 5).to(dtype)
    check(torch.hash_tensor, x)
    check(lambda x: torch.hash_tensor(x, dim=1, keepdim=True), x)
    check(torch.hash_tensor, x[0, 0])
