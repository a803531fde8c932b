"""Reductions, scans, sorts and searches: values, indices, dtypes and errors are those of CPU torch."""
# ruff: noqa: B023 (the functions are called at once, within the same turn of the loop)

import math

import pytest
import torch
from ops.data_util import check_raises
from ops.util import check

NAN, INF = math.nan, math.inf
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def values(dtype, *shape):
    """Distinct numbers, so that no index is a matter of taste."""
    n = math.prod(shape)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    if dtype == torch.bool:
        return (order % 3 == 0).reshape(shape)
    x = order - (0 if dtype == torch.uint8 else n // 2)
    return (x.to(dtype) / 4 if dtype.is_floating_point else x.to(dtype)).reshape(shape)


REDUCTIONS = [
    "sum",
    "mean",
    "nansum",
    "prod",
    "amax",
    "amin",
    "any",
    "all",
    "count_nonzero",
    "argmax",
    "argmin",
    "logsumexp",
    "std",
    "var",
]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_along_dimensions(name):
    f = getattr(torch, name)
    for dtype in DTYPES:
        if name in ("mean", "std", "var", "nansum", "logsumexp") and not dtype.is_floating_point:
            continue
        if name in ("argmax", "argmin", "prod") and dtype == torch.bool:
            continue
        x = values(dtype, 2, 3, 4)
        check(lambda a: f(a, dim=-1), x.transpose(0, 2))
        if dtype != torch.float32:
            continue
        if name != "logsumexp":
            check(f, x)
        if name != "count_nonzero":
            check(lambda a: f(a, dim=0, keepdim=True), x)
        if name not in ("argmax", "argmin", "prod"):
            check(lambda a: f(a, dim=(0, 2)), x)
    check(lambda a: f(a, dim=-1), torch.tensor(3.0))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_of_nothing_and_of_no_numbers(name):
    f = getattr(torch, name)
    if name not in ("amax", "amin", "argmax", "argmin"):
        check(lambda a: f(a, dim=1), torch.empty(2, 0))
    x = torch.tensor([[1.0, NAN, 3.0], [INF, 2.0, -INF], [-INF, -INF, -INF], [NAN, 4.0, NAN]])
    if name != "count_nonzero":
        check(lambda a: f(a, dim=1), x)


def test_sums_of_many():
    x = torch.rand(1_000_003, generator=torch.Generator().manual_seed(0))
    check(torch.sum, x)
    check(torch.mean, x)
    check(torch.var, x)
    check(lambda a: torch.linalg.vector_norm(a), x[:10_000])
    check(lambda a: a.sum(dim=0), x[:600_000].reshape(200_000, 3))
    check(lambda a: a.sum(), x[:65_536].to(torch.bfloat16))


def test_dtype_of_sums():
    x = values(torch.int32, 3, 4)
    for f in (torch.sum, torch.prod, torch.cumsum, torch.cumprod):
        along = {"dim": 1} if f in (torch.cumsum, torch.cumprod) else {}
        check(lambda a: f(a, **along), x)
        check(lambda a: f(a, dtype=torch.float64, **along), x)
    check(lambda a: a.sum(dtype=torch.float32), values(torch.bfloat16, 40))
    check(lambda a: a.mean(dtype=torch.float32), values(torch.int64, 7))
    check(torch.sum, torch.full((3,), 2**62, dtype=torch.int64))


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian", "kthvalue", "mode", "cummax", "cummin"])
def test_values_with_indices(name):
    f = getattr(torch, name)
    arguments = (2,) if name == "kthvalue" else ()
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8):
        x = values(dtype, 3, 4, 5)
        check(lambda a: f(a, *arguments, dim=1), x)
        if dtype == torch.float32:
            if name not in ("cummax", "cummin"):
                check(lambda a: f(a, *arguments, dim=-1, keepdim=True), x.transpose(0, 2))
            if name in ("max", "min", "median", "nanmedian"):
                check(f, x)
    x = torch.tensor([[1.0, NAN, 3.0, NAN], [4.0, 2.0, 9.0, -INF], [NAN, 1.0, -2.0, 0.0]])
    if name not in ("mode", "kthvalue"):
        check(lambda a: f(a, dim=1), x)
    if name != "kthvalue":
        check(lambda a: f(a, dim=0), torch.tensor(2.0))


def test_first_of_equal_ones():
    x = torch.tensor([[3, 1, 3, 1], [0, 0, 0, 0]])
    for f in (torch.max, torch.min, torch.argmax, torch.argmin):
        check(lambda a: f(a, dim=1), x)
        check(lambda a: f(a, dim=1), x.bool() if f in (torch.max, torch.min) else x.float())
    check(lambda a: torch.mode(a, dim=1), x)
    check(lambda a: torch.cummax(a, dim=1), x)


def test_both_ends():
    x = values(torch.float32, 3, 4)
    check(torch.aminmax, x)
    check(lambda a: torch.aminmax(a, dim=1), x)
    check(lambda a: torch.aminmax(a, dim=0, keepdim=True), x)
    check(torch.max, x, x.flip(0))


def test_of_empty_raises():
    for f in (torch.max, torch.amax, torch.argmax):
        check_raises(f, torch.empty(0))


def test_spread():
    x = values(torch.float32, 3, 4, 5)
    for correction in (0, 1, 2, 0.5):
        for f in (torch.var, torch.std):
            check(lambda a, c=correction: f(a, dim=1, correction=c), x)
            check(lambda a, c=correction: f(a, dim=(0, -1), correction=c, keepdim=True), x)
        for f in (torch.var_mean, torch.std_mean):
            check(lambda a, c=correction: f(a, dim=2, correction=c), x)
    check(torch.var_mean, x + 1e4)
    check(lambda a: torch.var(a, dim=0), torch.ones(1, 3))
    check(torch.std, x.to(torch.bfloat16))
    check(torch.var, torch.tensor([1 + 2j, 3 - 1j, 0.5j]))


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF, -1])
def test_norms(p):
    x = values(torch.float32, 3, 4) + 0.1
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        check(lambda a: torch.linalg.vector_norm(a, p), x.to(dtype))
    check(lambda a: torch.linalg.vector_norm(a, p, dim=1, keepdim=True), x)
    check(lambda a: torch.norm(a, p, dim=0), x)
    check(lambda a: torch.linalg.vector_norm(a, p, dtype=torch.float64), x)
    check(lambda a: torch.linalg.vector_norm(a, p, dim=0), torch.tensor(-2.0))
    check(lambda a, b: torch.dist(a, b, p), x, x[:1] * 2)
    if p > 0 and p < INF:
        check(lambda a: torch.renorm(a, p, 0, 1.5), x)
    check(lambda a: torch.linalg.vector_norm(a, p), torch.tensor([3 + 4j, 1j]))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_logarithms_of_complex_sums(dtype):
    a, b = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0), dtype=dtype)
    check(lambda a: a.logcumsumexp(1), a)
    check(torch.logaddexp, a, b)
    # Not farther apart: CPU torch gives NaN where a power is subnormal.
    check(torch.logaddexp, a * 4, b * 4)
    infinite = torch.tensor([complex(-torch.inf, 1), complex(-torch.inf, 0), 1 + 2j], dtype=dtype)
    check(torch.logaddexp, infinite, infinite.flip(0))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp"])
def test_running(name):
    f = getattr(torch, name)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        if name == "logcumsumexp" and dtype == torch.int64:
            continue
        for n in (1, 2, 13) if dtype == torch.float32 else (8,):
            x = values(dtype, 2, n, 3)
            check(lambda a: f(a, dim=1), x)
        check(lambda a: f(a, dim=-1), x.transpose(0, 2))
    check(lambda a: f(a, dim=0), torch.tensor(2.0))
    check(lambda a: f(a, dim=1), torch.empty(2, 0, 3))
    check(lambda a: f(a, dim=0), torch.tensor([1.0, INF, 2.0, NAN, 1.0]))
    check(lambda a: f(a, dim=0), torch.tensor([-INF, -INF, 2.0]))
    check(lambda a: f(a.clone().requires_grad_(), dim=0).detach(), torch.rand(1000))
    check(lambda a: torch.diff(a), torch.tensor([1.0, 4.0, 9.0]))


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending):
    for dtype in [*DTYPES, torch.float16, torch.int8]:
        x = values(dtype, 4, 5)
        check(lambda a: torch.sort(a, dim=0, descending=descending, stable=True), x)
    check(lambda a: torch.argsort(a, dim=-1, descending=descending, stable=True), x.t())
    x = torch.tensor([3.0, NAN, -INF, INF, -0.0, 0.0, NAN, 1.0])
    check(lambda a: torch.sort(a, descending=descending, stable=True), x)
    check(lambda a: torch.sort(a, descending=descending), torch.tensor(1.0))
    check(lambda a: torch.sort(a, descending=descending), torch.empty(0, 3))
    check(torch.msort, values(torch.float32, 5, 2))


def test_topk():
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = values(dtype, 3, 7)
        check(lambda a: torch.topk(a, 3), x)
        check(lambda a: torch.topk(a, 2, dim=0, largest=False), x)
    check(lambda a: torch.topk(a, 0), torch.tensor([1.0, 2.0]))
    check(lambda a: torch.topk(a, 2), torch.tensor([1.0, NAN, 3.0]))
    check(lambda a: torch.topk(a, 1), torch.tensor(5.0))
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="selected index k out of range"):
            torch.topk(torch.ones(2, device=device), 3)


def test_search():
    edges = torch.tensor([1.0, 3.0, 5.0, 7.0])
    x = torch.tensor([[0.0, 1.0, 4.0], [7.0, 9.0, NAN]])
    for right in (False, True):
        check(lambda e, a, r=right: torch.searchsorted(e, a, right=r), edges, x)
        check(lambda a, e, r=right: torch.bucketize(a, e, right=r, out_int32=True), x, edges)
        check(lambda e, r=right: torch.searchsorted(e, 3.0, right=r), edges)
        rows = values(torch.int64, 3, 8).sort(dim=1).values
        check(lambda e, a, r=right: torch.searchsorted(e, a, right=r), rows, values(torch.int64, 3, 5))
        many = torch.arange(5000.0)
        check(
            lambda e, a, r=right: torch.searchsorted(e, a, right=r),
            many,
            torch.tensor([-1.0, 0.0, 2500.5, 4999.0, 9e9]),
        )
    shuffled = values(torch.float32, 9)
    order = shuffled.argsort()
    check(lambda e, a, s: torch.searchsorted(e, a, sorter=s), shuffled, x, order)
    check(lambda e, a: torch.searchsorted(e, a, side="right"), edges, x)


def test_histc_and_trace():
    x = torch.tensor([0.1, 0.5, 0.5, 0.9, 2.0, -3.0])
    check(lambda a: torch.histc(a, bins=4, min=0, max=1), x)
    check(lambda a: torch.histc(a, bins=5), x)
    check(lambda a: torch.histc(a, bins=3), torch.ones(4))
    check(torch.trace, values(torch.float32, 3, 5))
    check(torch.trace, values(torch.int32, 3, 3))


@pytest.mark.parametrize(
    "f",
    [
        lambda a: a.sum(1),
        lambda a: a.mean(),
        lambda a: a.prod(0),
        lambda a: a.amax(1),
        lambda a: a.max(0).values,
        lambda a: a.std(1),
        lambda a: a.norm(),
        lambda a: torch.linalg.vector_norm(a, 3, dim=1),
        lambda a: a.logsumexp(0),
        lambda a: a.cumsum(1),
        lambda a: a.cumprod(1),
        lambda a: a.cummax(0).values,
        lambda a: a.sort(1).values[:, 1:],
        lambda a: a.topk(2).values,
        lambda a: a.median(1).values,
        lambda a: a.logcumsumexp(0),
    ],
)
def test_gradients(f):
    def gradient(a):
        a = a.clone().requires_grad_()
        result = f(a)
        return torch.autograd.grad(result, a, torch.ones_like(result))

    check(gradient, values(torch.float32, 3, 4) / 3 + 0.05)
