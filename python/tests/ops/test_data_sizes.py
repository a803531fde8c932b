"""Results as large as the data say: nonzero, masked_select, unique, bincount, repeat_interleave."""

import pytest
import torch
from ops.data_util import DTYPES, MOVED, check_raises, values
from ops.util import check


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero(dtype):
    x = values(dtype, 3, 4) * values(torch.bool, 3, 4).to(dtype)
    check(torch.nonzero, x)
    check(torch.argwhere, x.T)
    check(lambda a: torch.nonzero(a, as_tuple=True), x)
    check(lambda a: torch.nonzero_static(a, size=3), x)
    check(lambda a: torch.nonzero_static(a, size=20, fill_value=-2), x)
    check(torch.nonzero, torch.zeros(3, dtype=dtype))
    check(torch.nonzero, torch.ones((), dtype=dtype))
    check(torch.nonzero, torch.zeros(0, 2, dtype=dtype))
    check(lambda a: torch.where(a), x)


def rows(results):
    """Row by row: along a dimension other than the first, CPU torch gives a transposed view."""
    results = [results] if isinstance(results, torch.Tensor) else results
    return [r.contiguous() for r in results]


@pytest.mark.parametrize("dtype", MOVED)
def test_unique(dtype):
    x = torch.tensor([3, 1, 1, 2, 0, 3, 3, 1]).to(dtype)
    check(torch.unique, x)
    check(lambda a: torch.unique_consecutive(a, return_inverse=True), x)
    both = {"return_inverse": True, "return_counts": True}
    check(lambda a: torch.unique(a.reshape(2, 4), **both), x)
    check(lambda a: torch.unique_consecutive(a, **both), x)
    check(lambda a: torch.unique(a.reshape(4, 2), dim=0, **both), x)
    check(lambda a: rows(torch.unique(a.reshape(2, 4), dim=-1, **both)), x)
    check(lambda a: rows(torch.unique_consecutive(a.reshape(2, 4), dim=1, **both)), x)
    check(lambda a: torch.unique(a, return_counts=True), x[:0])


def test_unique_of_special_numbers():
    x = torch.tensor([float("nan"), 1.0, float("nan"), -0.0, 0.0, 1e-40, -float("inf")])
    check(lambda a: torch.unique(a, return_inverse=True, return_counts=True), x)
    check(lambda a: torch.unique_consecutive(a, return_counts=True), x)


def test_counts():
    x = torch.tensor([1, 5, 1, 0, 3])
    check(torch.bincount, x)
    check(lambda a: torch.bincount(a.int(), minlength=9), x)
    for dtype in (torch.float32, torch.float64, torch.int64):
        check(torch.bincount, x, values(dtype, 5))
    check(lambda a: torch.bincount(a, minlength=3), x[:0])
    check_raises(torch.bincount, x - 1)


def test_repeat_interleave():
    x, repeats = values(torch.float32, 3, 4), torch.tensor([2, 0, 3])
    check(torch.repeat_interleave, repeats)
    check(lambda a, r: torch.repeat_interleave(a, r, 0), x, repeats)
    check(lambda a, r: torch.repeat_interleave(a, r, 0, output_size=5), x, repeats)
    check(lambda a: torch.repeat_interleave(a, 2, 1), x)
    check(torch.repeat_interleave, repeats * 0)
    check_raises(torch.repeat_interleave, repeats - 1)


def test_one_hot():
    x = torch.tensor([[0, 2], [1, 0]])
    check(torch.nn.functional.one_hot, x)
    check(lambda a: torch.nn.functional.one_hot(a, 5), x)
    check(lambda a: torch.nn.functional.one_hot(a, 5), x[:0])
    check(torch.nn.functional.one_hot, torch.tensor(3))
