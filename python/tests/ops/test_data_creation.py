"""fill, full, arange, linspace, logspace, eye, triangle indices, complex: values and dtypes are those of CPU torch."""

import pytest
import torch
from ops.data_util import DTYPES, values
from ops.util import check


@pytest.mark.parametrize("dtype", DTYPES)
def test_fill(dtype):
    x = values(dtype, 2, 3)
    check(lambda a: a.fill_(1), x)
    check(lambda a: a.zero_(), x)
    check(lambda a: torch.full_like(a, 3), x)
    check(lambda a: torch.ones_like(a), x)
    check(lambda a: a.new_zeros(0, 2), x)
    check(lambda a: a.t().fill_(0), x)
    check(lambda a: a.fill_(a[0, 1]), x)
    check(lambda a: torch.full((), 2, dtype=dtype, device=a.device), x)


@pytest.mark.parametrize(
    "bounds", [(5,), (2, 9), (0, 10, 3), (5, -5, -2), (0.0, 1.0, 0.1), (-1.0, 1.0, 0.25), (0,), (1.5, 9, 2)]
)
def test_arange(bounds):
    like = torch.zeros(1)
    check(lambda a: torch.arange(*bounds, device=a.device), like)
    for dtype in (torch.float64, torch.bfloat16, torch.int32) if len(bounds) == 3 else ():
        check(lambda a, dtype=dtype: torch.arange(*bounds, dtype=dtype, device=a.device), like)


@pytest.mark.parametrize("steps", [0, 1, 7])
def test_equal_steps(steps):
    like = torch.zeros(1)
    for dtype in (torch.float32, torch.float64, torch.int64, torch.complex64):
        check(lambda a, dtype=dtype: torch.linspace(-3, 10, steps, dtype=dtype, device=a.device), like)
    for dtype in (torch.float32, torch.float64):
        check(lambda a, dtype=dtype: torch.logspace(-2, 2, steps, dtype=dtype, device=a.device), like)
        check(lambda a, dtype=dtype: torch.logspace(0, 5, steps, base=2.0, dtype=dtype, device=a.device), like)
    ends = torch.tensor(1.5), torch.tensor(-4.0)
    check(lambda a, b: torch.linspace(a, b, steps, device=a.device), *ends)
    check(lambda a, b: torch.linspace(a, 3, steps, device=a.device), *ends)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (0, 3)])
def test_eye_and_triangles(shape):
    like = torch.zeros(1)
    for dtype in (torch.float32, torch.int64, torch.bool):
        check(lambda a, dtype=dtype: torch.eye(*shape, dtype=dtype, device=a.device), like)
    for offset in (-1, 0, 3):
        check(lambda a, offset=offset: torch.tril_indices(*shape, offset, device=a.device), like)
        check(lambda a, offset=offset: torch.triu_indices(*shape, offset, device=a.device), like)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_complex(dtype):
    re, im = values(dtype, 3, 4), -values(dtype, 4)
    check(torch.complex, re, im.expand(3, 4))
    check(torch.polar, re, im.expand(3, 4) / 3)
    check(lambda a: torch.view_as_real(torch.complex(a, a)), re)
    check(lambda a: torch.view_as_complex(a.reshape(2, 3, 2)), re)


def test_copies_convert():
    x = torch.tensor([0.0, 1.9, -1.9, 300.0, float("nan")])
    for dtype in (torch.float64, torch.bfloat16, torch.bool, torch.complex64):
        check(lambda a, dtype=dtype: a.to(dtype), x)
        check(lambda a, dtype=dtype: torch.zeros(2, 5, dtype=dtype, device=a.device).copy_(a), x)
    for dtype in (torch.int64, torch.int32, torch.uint8, torch.int8):
        check(lambda a, dtype=dtype: a.to(dtype), x[:3].abs())
