"""Bessel and Airy functions, orthogonal polynomials, incomplete gamma functions."""

import pytest
import torch
from util import check

S = torch.special
FLOATS = (torch.float32, torch.float64)
POINTS = (0.0, -0.0, 1e-6, 0.3, 1.0, 1.9999, 2.0, 2.08, 2.1, 4.9, 5.0, 5.1, 8.0, 9.0, 25.0, 103.0, 104.0)
ENDS = (float("inf"), float("-inf"), float("nan"))
UNARY = (
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "airy_ai",
)
KINDS = (
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, dtype):
    both = torch.tensor([*POINTS, *(-p for p in POINTS if p < 30), *ENDS[:3]], dtype=dtype)
    if name.startswith(("bessel", "airy")):
        # Far out a single loses the phase before the function is reached; infinity has none.
        both = both[(both.abs() < 10) | both.isnan()]
    check(getattr(S, name), both)
    check(getattr(S, name), torch.arange(5))
    check(getattr(S, name), torch.empty(0, 3, dtype=dtype))


@pytest.mark.parametrize("name", KINDS)
def test_polynomials(name):
    x = torch.tensor([-1.0, -0.75, 0.0, 0.1, 0.5, 0.9, 1.0, 1.25, 2.0, float("nan")], dtype=torch.float64)[:, None]
    n = torch.tensor([-2.0, -0.5, 0.0, 1.0, 2.0, 3.7, 5.0, 6.0, 7.0, 8.0, 9.0, 15.0], dtype=torch.float64)
    function = getattr(S, name)
    check(function, x, n)
    check(lambda x: function(x, 4), x.float())
    check(lambda n: function(0.5, n), n.float())
    check(function, torch.arange(4), torch.arange(4))
    check(function, torch.tensor(0.25), torch.tensor(9))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", (torch.igamma, torch.igammac))
def test_incomplete_gamma(function, dtype):
    numbers = (0.0, 1e-3, 0.4, 0.5, 0.9, 1.0, 1.05, 1.2, 3.0, 15.0, 21.0, 24.0, 150.0, 201.0, 230.0, 1000.0)
    a = torch.tensor([*numbers, -1.0, *ENDS], dtype=dtype)
    check(function, a[:, None], a)


def test_incomplete_gamma_gradient():
    def gradient(a, x):
        return torch.autograd.grad(torch.igamma(a, x).sum(), x)

    check(gradient, torch.rand(6) * 5 + 0.1, (torch.rand(6) * 5 + 0.1).requires_grad_())
