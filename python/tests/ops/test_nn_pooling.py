"""Pooling, fixed and adaptive, and unpooling."""

import math

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, numbers
from ops.util import check

MAX_CASES = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3},
]
AVG_CASES = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True, "count_include_pad": False},
]


@pytest.mark.parametrize("n, case", [*((2, c) for c in MAX_CASES), *((n, c) for n in (1, 3) for c in MAX_CASES[1:3])])
def test_max_pool(n, case):
    pool = getattr(F, f"max_pool{n}d")
    x = numbers(2, 3, *[8, 7, 6][:n])
    check_grads(lambda x: pool(x, return_indices=True, **case), x)
    check(lambda x: pool(x, **case), x[0])


@pytest.mark.parametrize("n, case", [*((2, c) for c in AVG_CASES), *((n, c) for n in (1, 3) for c in AVG_CASES[2:4])])
def test_avg_pool(n, case):
    pool = getattr(F, f"avg_pool{n}d")
    x = numbers(2, 3, *[8, 7, 6][:n])
    check_grads(lambda x: pool(x, **case), x)
    check(lambda x: pool(x, **case), x[0])


def test_divisor():
    check_grads(lambda x: F.avg_pool2d(x, 2, divisor_override=3), numbers(1, 2, 6, 6))


@pytest.mark.parametrize("n, output", [(1, 3), (2, 1), (2, 3), (2, 8), (3, 5)])
@pytest.mark.parametrize("kind", ["avg", "max"])
def test_adaptive(kind, n, output):
    pool = getattr(F, f"adaptive_{kind}_pool{n}d")
    x = numbers(2, 2, *[8, 7, 6][:n])
    check_grads(lambda x: pool(x, output), x)
    check(lambda x: pool(x, output), x[0])
    if kind == "max":
        check(lambda x: pool(x, output, return_indices=True)[1], x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtypes(dtype):
    x = numbers(1, 2, 6, 6, dtype=dtype)
    check_grads(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    check_grads(lambda x: F.avg_pool2d(x, 3, 2, 1), x)
    check_grads(lambda x: F.adaptive_avg_pool2d(x, 4), x)


def test_ties_nan_and_infinity():
    x = torch.tensor([[1.0, 1.0, 0.0, math.nan], [1.0, 0.5, -math.inf, -math.inf], [-math.inf] * 4, [-math.inf] * 4])
    check_grads(lambda x: F.max_pool2d(x, 2, return_indices=True), x[None])
    check(lambda x: F.max_pool2d(x, 3, 1, 1, return_indices=True), x[None])
    check(lambda x: F.avg_pool2d(x, 2), x[None])
    check(lambda x: F.max_pool2d(x, 2), torch.arange(16).reshape(1, 4, 4))


def test_empty_batch():
    check_grads(lambda x: F.avg_pool2d(x, 2), numbers(0, 2, 4, 4))
    check_grads(lambda x: F.adaptive_avg_pool2d(x, 2), numbers(0, 2, 4, 4))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpool(n):
    pool, unpool = getattr(F, f"max_pool{n}d"), getattr(F, f"max_unpool{n}d")
    check_grads(lambda x: unpool(*pool(x, 2, return_indices=True), 2), numbers(2, 3, *[8, 6, 4][:n]))


def test_other_layout():
    check_grads(lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 2), numbers(2, 6, 6, 3))
    check(lambda x: F.max_pool2d(x, 2), numbers(2, 3, 6, 6).contiguous(memory_format=torch.channels_last))
