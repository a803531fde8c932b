"""Resizing, padding, unfolding, sampling; distances."""

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, numbers
from ops.util import check

SIZES = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_nearest(n, mode):
    x = numbers(2, 3, *[4, 5, 3][:n])
    for k in [{"scale_factor": 1.7}, {"size": [7, 3, 4][:n]}]:
        check_grads(lambda x, k=k: F.interpolate(x, mode=mode, **k), x)
    if n == 2:
        check(
            lambda x: F.interpolate(x, scale_factor=2, mode=mode),
            torch.arange(16, dtype=torch.uint8).reshape(1, 1, 4, 4),
        )


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("mode", SIZES)
def test_smooth(mode, align):
    x = numbers(2, 3, *[4, 5, 3][: SIZES[mode]])
    n = SIZES[mode]
    for k in [{"scale_factor": 1.7}, {"size": [7, 3, 4][:n]}, {"size": [1] * n}]:
        check_grads(lambda x, k=k: F.interpolate(x, mode=mode, align_corners=align, **k), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased(mode):
    for size in [(3, 4), (12, 3)]:
        check_grads(lambda x, s=size: F.interpolate(x, s, mode=mode, antialias=True), numbers(1, 2, 8, 9))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_dtypes(dtype):
    x = numbers(1, 2, 4, 4, dtype=dtype)
    check_grads(lambda x: F.interpolate(x, scale_factor=2), x)
    check_grads(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)
    check_grads(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [(-1, 2), (2, 1, 0, 3), (1, 1, 2, 0, 1, 2)], ids=str)
def test_padding(padding, mode):
    n = len(padding) // 2
    check_grads(lambda x: F.pad(x, padding, mode=mode), numbers(2, 3, *[4, 5, 6][:n]))


@pytest.mark.parametrize("k", [{}, {"dilation": 2, "padding": (2, 1), "stride": (1, 2)}], ids=str)
def test_unfold_and_fold(k):
    check_grads(lambda x: F.unfold(x, (3, 2), **k), numbers(2, 3, 6, 7))
    columns = F.unfold(numbers(2, 3, 6, 7), (3, 2), **k)
    check_grads(lambda x: F.fold(x, (6, 7), (3, 2), **k), columns)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding, align):
    grid = numbers(2, 3, 4, 2, seed=1)
    check_grads(lambda x, g: F.grid_sample(x, g, mode, padding, align), numbers(2, 3, 5, 6), grid)
    # Three dimensions compile slowly, and differ from two only in their number.
    if (mode, padding, align) in [("bilinear", "border", False), ("nearest", "reflection", True)]:
        volume = numbers(2, 3, 2, 2, 3, seed=1)
        check_grads(lambda x, g: F.grid_sample(x, g, mode, padding, align), numbers(2, 2, 3, 4, 5), volume)


def test_shuffles_and_grids():
    check_grads(lambda x: F.unfold(x, (3, 2)), numbers(3, 6, 7))
    check_grads(lambda x: F.pixel_shuffle(x, 2), numbers(2, 8, 3, 3))
    check_grads(lambda x: F.pixel_unshuffle(x, 2), numbers(2, 2, 6, 4))
    check_grads(lambda x: F.channel_shuffle(x, 2), numbers(2, 4, 3, 3))
    check_grads(lambda t: F.affine_grid(t, (2, 3, 4, 5), align_corners=False), numbers(2, 2, 3))
    check_grads(lambda x: F.local_response_norm(x, 3), numbers(2, 5, 4))


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_distances(p):
    check_grads(lambda a, b: torch.cdist(a, b, p), numbers(2, 4, 5), numbers(2, 3, 5, seed=1))
    check_grads(lambda a: F.pdist(a, p), numbers(5, 3))


def test_large_and_equal_rows():
    check(lambda a, b: torch.cdist(a, b), numbers(40, 8), numbers(30, 8, seed=1))
    check_grads(lambda a: torch.cdist(a, a), numbers(3, 4))
    check_grads(lambda a, b: F.pairwise_distance(a, b, 1.5), numbers(4, 5), numbers(4, 5, seed=1))
    check_grads(F.cosine_similarity, numbers(4, 5), numbers(4, 5, seed=1))


def test_weight_norm():
    def run(x):
        torch.manual_seed(0)
        layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3)).to(x.device)
        return layer(x)

    check_grads(run, numbers(2, 4))
