"""Convolutions of one to three dimensions, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, numbers

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
CASES = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"dilation": 2},
    {"stride": 2, "padding": 2, "dilation": 2},
    {"groups": 2},
    {"groups": 2, "stride": 3, "padding": 1},
]
OUTPUT_PADDED = [{"stride": 3, "output_padding": 2}, {"dilation": 3, "output_padding": 2}]
# In two dimensions every kind, in others what mixes most of them.
MIXED = [CASES[4], CASES[6]]


@pytest.mark.parametrize("n, case", [*((2, c) for c in CASES), *((n, c) for n in (1, 3) for c in MIXED)], ids=str)
def test_convolution(n, case):
    size = [8, 7, 6][:n]
    x, w = numbers(2, 4, *size), numbers(6, 4 // case.get("groups", 1), *[3, 2, 3][:n], seed=1)
    check_grads(lambda x, w, b: CONV[n](x, w, b, **case), x, w, numbers(6, seed=2))


@pytest.mark.parametrize(
    "n, case",
    [*((2, c) for c in CASES + OUTPUT_PADDED), *((n, c) for n in (1, 3) for c in MIXED[1:] + OUTPUT_PADDED)],
    ids=str,
)
def test_transposed(n, case):
    size = [4, 5, 3][:n]
    x, w = numbers(2, 4, *size), numbers(4, 6 // case.get("groups", 1), *[3, 2, 3][:n], seed=1)
    bias = numbers(6, seed=2)
    check_grads(lambda x, w, b: TRANSPOSED[n](x, w, b, **case), x, w, bias)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtypes(dtype):
    x, w = numbers(2, 3, 6, 6, dtype=dtype), numbers(4, 3, 3, 3, dtype=dtype, seed=1)
    check_grads(lambda x, w: F.conv2d(x, w, padding=1), x, w)


def test_depthwise_unbatched_and_same():
    check_grads(lambda x, w: F.conv2d(x, w, groups=4, padding="same"), numbers(2, 4, 5, 5), numbers(4, 1, 3, 3))
    check_grads(lambda x, w: F.conv2d(x, w, groups=2), numbers(4, 5, 5), numbers(8, 2, 3, 3))
    check_grads(lambda x, w: F.conv1d(x, w, padding="same", dilation=2), numbers(1, 2, 9), numbers(2, 2, 4))


def test_sizes_that_the_stride_does_not_reach():
    check_grads(lambda x, w: F.conv2d(x, w, stride=(3, 2)), numbers(1, 2, 9, 8), numbers(2, 2, 2, 3))
    check_grads(lambda x, w: F.conv2d(x, w, stride=2), numbers(1, 2, 8, 8), numbers(2, 2, 1, 1))


def test_empty_batch():
    check_grads(lambda x, w, b: F.conv2d(x, w, b), numbers(0, 2, 5, 5), numbers(3, 2, 3, 3), numbers(3))


def test_other_layouts_of_the_arguments():
    x, w = numbers(2, 3, 6, 5), numbers(4, 3, 3, 3)
    check_grads(lambda x, w: F.conv2d(x.transpose(2, 3), w.flip(2)), x, w)


def test_modules_train():
    def run(x):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.ConvTranspose2d(4, 2, 3)).to(
            "cpu"
        )
        return net.to(x.device)(x)

    check_grads(run, numbers(2, 3, 6, 6))
