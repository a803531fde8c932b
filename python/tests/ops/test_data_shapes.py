"""cat, stack, flip, roll, pad, triangles, diagonals and gradients of views equal those of CPU torch."""

import pytest
import torch
from ops.data_util import MOVED, check_grads, values
from ops.util import check


@pytest.mark.parametrize("dtype", MOVED)
def test_join(dtype):
    a, b = values(dtype, 2, 3, 4), values(dtype, 2, 5, 4)
    check(lambda a, b: torch.cat([a, b, a], 1), a, b)
    check(lambda a, b: torch.cat([a.transpose(0, 1), b.transpose(0, 1)], -3), a, b)
    check(lambda a: torch.stack([a, a], -1), a)
    check(lambda a: torch.stack([a, a]), a)
    check(lambda a: torch.cat([torch.zeros(0, device=a.device), a]), values(torch.float32, 2, 3))
    check(lambda a, b: torch.cat([a, b], 1), values(torch.int64, 2, 3), values(torch.float32, 2, 1))
    check(lambda a: torch.cat([a[:, :0], a[:, :0]], 1), a)


@pytest.mark.parametrize("size", [3, 40])
def test_one_row_of_windows_stands_for_all_rows(size):
    # So torch's decomposition of istft calls it.
    grad = values(torch.float32, 1, 4, size)
    length = 3 * 2 + size
    check(lambda g: torch.ops.aten.unfold_backward(g, (3, length), 1, size, 2), grad)


@pytest.mark.parametrize("dtype", MOVED)
def test_move(dtype):
    x = values(dtype, 3, 4, 5)
    check(lambda a: a.flip(0, -1), x)
    check(lambda a: a.flip([]), x)
    check(lambda a: a.roll(2), x)
    check(lambda a: a.roll((1, -2, 7), (0, 1, -1)), x)
    check(lambda a: a.repeat(2, 1, 3), x)
    check(lambda a: a.repeat(2, 0, 1, 1), x)
    for k in (-1, 2, 3):
        check(lambda a, k=k: torch.rot90(a, k, (1, 2)), x)
    check(lambda a: a.flip(0), torch.tensor(3).to(dtype))
    check(lambda a: a.roll(1, 0), values(dtype, 0, 3))
    check(lambda a: torch.tile(a, (2, 2)), x)


@pytest.mark.parametrize("dtype", MOVED)
def test_pad(dtype):
    x = values(dtype, 3, 4)
    for pad in [(1, 2), (1, 0, 0, 2), (-1, -1), (-1, 2, 3, -2), (0, 0)]:
        check(lambda a, pad=pad: torch.nn.functional.pad(a, pad), x)
        check(lambda a, pad=pad: torch.nn.functional.pad(a, pad, value=1), x)
    check(lambda a: torch.block_diag(a, a[0], a[0, 0]), x)


@pytest.mark.parametrize("dtype", MOVED)
def test_triangles_and_diagonals(dtype):
    x = values(dtype, 2, 3, 5)
    for k in (-7, -1, 2):
        check(lambda a, k=k: a.tril(k), x)
        check(lambda a, k=k: a.triu(k), x)
        check(lambda a, k=k: a.transpose(1, 2).clone().tril_(k), x)
    for k in (-1, 2):
        check(lambda a, k=k: torch.diag_embed(a, k), x[0])
        check(lambda a, k=k: torch.diag_embed(a, k, 0, -2), x[0])
        check(lambda a, k=k: torch.diagonal_copy(a, k, 1, 2), x)
        check(lambda a, k=k: a.diagonal(k, 0, 1), x)
    if dtype != torch.bool:
        check(lambda a: torch.trace(a[0]), x)


def test_replace_views():
    x = values(torch.float32, 4, 5)
    check(lambda a: torch.select_scatter(a, a[0] + 1, 0, -1), x)
    check(lambda a: torch.slice_scatter(a, a[:, :2] - 1, 1, 1, 5, 2), x)
    check(lambda a: torch.diagonal_scatter(a, a[0, :3] * 2, -1), x)
    check(lambda a: torch.as_strided_scatter(a, a[:2, :2].clone(), (2, 2), (1, 2), 3), x)


def test_gradients_of_views():
    x = values(torch.float32, 4, 6)
    views = [
        lambda a: a[1],
        lambda a: a[:, -1],
        lambda a: a[1:3, ::2],
        lambda a: a[:, 1:6:3],
        lambda a: a[2:2],
        lambda a: a.diagonal(1),
        lambda a: a.diagonal(-2),
        lambda a: a.unfold(1, 3, 1),
        lambda a: a.unfold(1, 2, 3),
        lambda a: a.expand(2, 4, 6),
        lambda a: a.narrow(1, 2, 3),
        lambda a: a.split(2, 1)[1],
        lambda a: a.as_strided((2, 2), (3, 2), 1),
    ]
    for view in views:
        check_grads(lambda a, view=view: view(a) * 2, x)
    ops = [
        lambda a: torch.cat([a, a * 2], 1),
        lambda a: torch.stack([a, a * a]),
        lambda a: a.roll(1, 0) * a,
        lambda a: a.flip(1) * a,
        lambda a: a.repeat(2, 3),
        lambda a: a.tril() * a,
        lambda a: torch.nn.functional.pad(a, (1, 2, -1, 0)),
        lambda a: torch.diag_embed(a, 1),
        lambda a: torch.trace(a) * 2,
    ]
    for op in ops:
        check_grads(op, x)


def test_cross():
    a, b = values(torch.float32, 4, 3), values(torch.float32, 1, 3) / 2
    check_grads(torch.linalg.cross, a, b)
    check(lambda a: torch.linalg.cross(a.T, a.T.flip(0), dim=0), a)
