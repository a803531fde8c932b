"""Indexing, gather, scatter and masks equal CPU torch, in values and in refusals."""

import pytest
import torch
from ops.data_util import DTYPES, MOVED, check_grads, check_raises, values
from ops.util import check

ROWS = torch.tensor([2, 0, -1])
COLUMNS = torch.tensor([[1], [3]])


@pytest.mark.parametrize("dtype", MOVED)
def test_index(dtype):
    x = values(dtype, 3, 4, 5)
    mask = values(torch.bool, 3, 4)
    check(lambda a, i: a[i], x, ROWS)
    check(lambda a, i: a[i.int()], x, ROWS)
    check(lambda a, i, j: a[i, j], x, ROWS, COLUMNS)
    check(lambda a, i, j: a[i, :, j], x, ROWS, COLUMNS)
    check(lambda a, i: a[:, i, 1:3], x, ROWS)
    check(lambda a, i: a[None, :, i], x, ROWS)
    check(lambda a, m: a[m], x, mask)
    check(lambda a, m: a[1:, m[0], ::2], x, mask)
    check(lambda a, i: a[i[:0]], x, ROWS)
    check(lambda a, i: a.transpose(0, 2)[:, i], x, ROWS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_assign(dtype):
    x = values(dtype, 3, 4, 5)
    mask = values(torch.bool, 3, 4)

    def put(place, value):
        def run(a, *more):
            a = a.clone()
            a[place(*more)] = value(a)
            return a

        return run

    check(put(lambda i: i, lambda a: a[0].clone()), x, ROWS)
    check(put(lambda i, j: (i, j), lambda a: a[0, 0].clone()), x, ROWS, COLUMNS)
    check(put(lambda i: (slice(None), i), lambda a: 1), x, ROWS)
    check(put(lambda m: m, lambda a: 1), x, mask)
    check(put(lambda m: m, lambda a: a[0, 0].clone()), x, mask)
    check(lambda a, i: a.index_put((i.abs() % 2,), a[:3], accumulate=True), x, ROWS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slices_along_a_dimension(dtype):
    x, index = values(dtype, 3, 4), torch.tensor([2, 0, 2])
    source = values(dtype, 3, 3)
    check(lambda a, i: a.index_select(1, i), x, index)
    check(lambda a, i: a.index_select(0, i.int()), x, index)
    check(lambda a, i, s: a.index_add(1, i, s), x, index, source)
    check(lambda a, i, s: a.index_copy(1, i[:2], s[:, :2]), x, index, source)
    check(lambda a, i: a.index_fill(-1, i, 1), x, index)
    if dtype != torch.bool:
        check(lambda a, i, s: a.index_add(1, i, s, alpha=2), x, index, source)
        for how in ("prod", "mean", "amax", "amin"):
            for include in (True, False) if dtype == torch.float32 else (True,):
                check(
                    lambda a, i, s, how=how, include=include: a.index_reduce(1, i, s, how, include_self=include),
                    x,
                    index,
                    source,
                )
    check(lambda a, i: a.index_select(0, i[0]), x, index * 0)
    check(lambda a, i: a.index_select(0, i), torch.tensor(3).to(dtype), index[:1] * 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter(dtype):
    x, source = values(dtype, 3, 4), values(dtype, 3, 5)
    index = torch.tensor([[2, 0, 1], [1, 1, 0]])
    check(lambda a, i: a.gather(0, i), x, index)
    check(lambda a, i: a.gather(-1, i), x, index)
    check(lambda a, i: a.T.gather(1, i), x, index)
    check(lambda a, i: a.gather(0, i[:0]), x, index)
    check(lambda a, i: torch.take_along_dim(a, i, 1), x[:2], index)
    check(lambda a, i: a.scatter(1, i, 1), x, index)
    check(lambda a, i, s: a.scatter(1, i[:, :2], s), x, index, source)
    check(lambda a, i, s: a.scatter_add(0, i, s), x, index, source)
    check(lambda a, i, s: a.clone().scatter_add_(1, i, s), x, index, source)
    if dtype != torch.bool:
        for how in ("sum", "prod", "mean", "amax", "amin"):
            for include in (True, False) if dtype == torch.float32 else (True,):
                check(
                    lambda a, i, s, how=how, include=include: a.scatter_reduce(1, i, s, how, include_self=include),
                    x,
                    index,
                    source,
                )
    check(lambda a, i: a.gather(0, i), torch.tensor(3).to(dtype), torch.tensor([0]))
    check(lambda a, i: a.take(i), x, torch.tensor([[0, -1], [5, 11]]))
    check(lambda a, i, s: a.put(i, s), x, torch.tensor([0, -1]), source[0, :2])


@pytest.mark.parametrize("dtype", MOVED)
def test_masks(dtype):
    x, mask = values(dtype, 3, 4), values(torch.bool, 3, 4)
    check(lambda a, m: a.masked_fill(m, 1), x, mask)
    check(lambda a, m: a.masked_fill(m[0], a[0, 1]), x, mask)
    check(lambda a, m: a.clone().masked_fill_(m, 0), x, mask)
    check(lambda a, m: a.masked_scatter(m, a.flip(0)), x, mask)
    check(lambda a, m: a.masked_select(m), x, mask)
    check(lambda a, m: a.masked_select(m[:, :1]), x, mask)


def test_nan_wins_in_reductions():
    x = torch.tensor([1.0, float("nan"), 3.0])
    source = torch.tensor([float("nan"), 2.0, 5.0])
    for how in ("amax", "amin"):
        check(lambda a, i, s, how=how: a.scatter_reduce(0, i, s, how), x, torch.tensor([0, 1, 2]), source)


def test_gradients():
    x, source = values(torch.float32, 3, 4), values(torch.float32, 3, 4) / 3
    rows, index = torch.tensor([2, 0, 2]), torch.tensor([[2, 0, 1, 1], [1, 1, 0, 2], [0, 0, 0, 0]])
    mask = values(torch.bool, 3, 4)
    check_grads(lambda a, i: a[i] * 2, x, rows)
    check_grads(lambda a, i: a[:, i] * a[0, 0], x, rows)
    check_grads(lambda a, i: a.gather(0, i) * 2, x, index)
    check_grads(lambda a, i, s: a.scatter(1, i[:, :1], s[:, :1]) * 2, x, index, source)
    check_grads(lambda a, i, s: a.scatter_add(0, i, s) * 2, x, index, source)
    check_grads(lambda a, i: a.index_select(1, i) * 2, x, rows)
    check_grads(lambda a, i, s: a.index_add(0, i, s) * 2, x, rows, source)
    check_grads(lambda a, i, s: a.index_copy(0, i[:2], s[:2]) * 2, x, rows, source)
    check_grads(lambda a, m: a.masked_fill(m, 0.5) * 2, x, mask)
    check_grads(lambda a, m: a.masked_select(m) * 2, x, mask)
    check_grads(lambda a, m, s: a.masked_scatter(m, s) * 2, x, mask, source)
    check_grads(lambda a, i, s: a.index_put((i[:2],), s[:2], accumulate=True) * 2, x, rows, source)
    check_grads(lambda a, i: a.take(i) * 2, x, index)


def test_refuses_what_is_out_of_range():
    x, far, negative = values(torch.float32, 3, 4), torch.tensor([0, 5]), torch.tensor([0, -7])
    wide = torch.tensor([[0, 9, 0, 0]])
    check_raises(lambda a, i: a[i], x, far)
    check_raises(lambda a, i: a[i], x, negative)
    check_raises(lambda a, i: a[:, i], x, far)
    check_raises(lambda a, i: a.clone().index_put_((i,), a[:2]), x, far)
    check_raises(lambda a, i: a.index_select(0, i), x, far)
    check_raises(lambda a, i: a.index_select(1, i), x, far)
    check_raises(lambda a, i: a.index_add(0, i, a[:2]), x, far)
    check_raises(lambda a, i: a.index_copy(0, i, a[:2]), x, far)
    check_raises(lambda a, i: a.index_fill(0, i, 1), x, far)
    check_raises(lambda a, i: a.gather(0, i), x, wide)
    check_raises(lambda a, i: a.scatter(0, i, 1.0), x, wide)
    check_raises(lambda a, i: a.scatter_add(0, i, a), x, wide)
    check_raises(lambda a, i: a.take(i), x, torch.tensor([12]))
    check_raises(lambda a, m: a.masked_scatter(m, a[0]), x, x >= 0)
