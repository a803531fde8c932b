"""Eigenvalues without symmetry, least squares, LDL, polar factors, roots; how results lie in memory; byte floats."""

import pytest
import torch
from ops.nn_util import numbers
from ops.util import check

TYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def matrices(*shape, dtype, seed=0):
    real = numbers(*shape, dtype=torch.float64, seed=seed)
    if dtype.is_complex:
        return torch.complex(real, numbers(*shape, dtype=torch.float64, seed=seed + 50)).to(dtype)
    return real.to(dtype)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (6, 6), (3, 5, 5), (0, 0), (2, 0, 0)], ids=str)
def test_eigenvectors_solve_the_matrix(dtype, shape):
    a = matrices(*shape, dtype=dtype)
    values, vectors = (t.cpu() for t in torch.linalg.eig(a.to("tpu")))
    torch.testing.assert_close(a.to(values.dtype) @ vectors, vectors * values.unsqueeze(-2), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(vectors.abs().square().sum(-2), torch.ones_like(values.real))
    theirs = torch.linalg.eigvals(a)
    assert values.numel() == 0 or (values.unsqueeze(-1) - theirs.unsqueeze(-2)).abs().amin(-1).max() < 1e-4
    torch.testing.assert_close(torch.linalg.eigvals(a.to("tpu")).cpu(), values)


def test_eigenvalues_of_hard_matrices():
    # A cycle, which plain shifts turn in circles; a block that has one eigenvector; nothing at all.
    cycle = torch.roll(torch.eye(5), 1, 0)
    jordan = torch.tensor([[2.0, 1.0], [0.0, 2.0]])
    for a in (cycle, jordan, torch.zeros(3, 3), torch.diag(torch.arange(4.0))):
        values, vectors = (t.cpu() for t in torch.linalg.eig(a.to("tpu")))
        torch.testing.assert_close((a + 0j) @ vectors, vectors * values, rtol=1e-5, atol=1e-5)
    assert torch.linalg.eigvals(torch.diag(torch.arange(4.0)).to("tpu")).cpu().imag.eq(0).all()


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((4, 3), (4, 2)),
        ((3, 4), (3, 2)),
        ((3, 3), (3, 1)),
        ((4, 3), (4,)),
        ((2, 4, 3), (2, 4)),
        ((2, 1, 4, 3), (1, 3, 4, 2)),
        ((0, 3), (0, 2)),
        ((3, 0), (3, 2)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_least_squares(driver, a, b, dtype):
    check(
        lambda a, b: tuple(torch.linalg.lstsq(a, b, driver=driver)),
        matrices(*a, dtype=dtype),
        matrices(*b, dtype=dtype, seed=1),
    )


def test_least_squares_of_a_matrix_without_full_rank():
    a = matrices(5, 3, dtype=torch.float64)
    a[:, 2] = a[:, 0]
    b = matrices(5, 2, dtype=torch.float64, seed=1)
    for driver in ("gelsy", "gelsd", "gelss"):
        check(lambda a, b, d=driver: tuple(torch.linalg.lstsq(a, b, driver=d))[:3], a, b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl(dtype, hermitian):
    a = matrices(3, 6, 6, dtype=dtype)
    check(lambda a: tuple(torch.linalg.ldl_factor_ex(a, hermitian=hermitian)), a)
    check(lambda a: tuple(torch.linalg.ldl_factor_ex(a, hermitian=hermitian)), torch.zeros_like(a))

    def solved(a, b):
        factors, pivots, _ = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
        return torch.linalg.ldl_solve(factors, pivots, b, hermitian=hermitian)

    check(solved, a, matrices(3, 6, 2, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_polar_factors_and_roots(dtype):
    a = matrices(2, 5, 3, dtype=dtype)
    check(lambda a: tuple(torch.linalg.polar(a)), a)
    check(torch.linalg.matrix_sqrth, a.mH @ a)


def test_results_lie_as_on_the_cpu():
    check(lambda a: tuple(torch.geqrf(a)), matrices(2, 5, 2, dtype=torch.float64))
    check(lambda x: torch.fft.rfftn(x), numbers(5, 6, 7))
    check(lambda x: torch.fft.rfftn(x.permute(2, 0, 1), dim=(0, 1)), numbers(5, 6, 7))
    check(lambda x: torch.unique(x, dim=1), torch.randint(0, 2, (4, 5, 3)))
    check(lambda x: torch.unique_consecutive(x, dim=-1), torch.randint(0, 2, (4, 5, 3)))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e8m0fnu])
def test_conversions_to_byte_floats(dtype):
    numbers = [0.0, -0.0, 448.0, 465.0, 1e6, -1e6, float("inf"), -float("inf"), 1e-9, -1e-9, 57344.0, 3.3, float("nan")]
    for source in (torch.float32, torch.bfloat16, torch.float64):
        check(lambda x: x.to(dtype).float(), torch.tensor(numbers, dtype=source))
