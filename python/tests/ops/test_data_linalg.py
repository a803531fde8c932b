"""Decompositions, solvers and Fourier transforms: what CPU torch gives, up to the signs that are free."""

import pytest
import torch
from ops.data_util import check_grads
from ops.util import check

SHAPES = [(2, 3, 3), (5, 3), (3, 5), (2, 0, 3)]


def matrix(dtype, *shape):
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype)


def positive(dtype, *shape):
    a = matrix(dtype, *shape)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


def orthonormal(q):
    unit = torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
    torch.testing.assert_close(q.mH @ q, unit, atol=1e-5, rtol=1e-4)


def test_pivots_of_complex_matrices():
    """LAPACK takes the sum of both parts' sizes for the size of a complex number."""
    for seed in range(4):
        a = torch.randn(6, 4, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128)
        check(lambda a: torch.linalg.lu_factor_ex(a), a)


@pytest.mark.parametrize(("dtype", "shape"), [*((torch.float32, s) for s in SHAPES), (torch.complex64, (5, 3))])
def test_factors(dtype, shape):
    a = matrix(dtype, *shape)
    for mode in ("reduced", "complete", "r"):
        check(lambda a, mode=mode: torch.linalg.qr(a, mode), a)
    check(torch.linalg.lu_factor_ex, a)
    check(torch.linalg.lu, a)
    check(torch.linalg.svdvals, a)
    for full in (False, True):
        u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to("tpu"), full_matrices=full))
        k = min(shape[-2:])
        again = u[..., :k] @ (s.to(dtype).unsqueeze(-1) * vh[..., :k, :])
        torch.testing.assert_close(again, a, atol=1e-5, rtol=1e-4)
        orthonormal(u)
        orthonormal(vh.mH)


@pytest.mark.parametrize(
    ("dtype", "shape"), [(torch.float32, (2, 3, 3)), (torch.complex64, (3, 3)), (torch.float32, (0, 0))]
)
def test_square(dtype, shape):
    p, b = positive(dtype, *shape), matrix(dtype, *shape)[..., :2]
    for upper in (False, True):
        check(lambda a, upper=upper: torch.linalg.cholesky(a, upper=upper), p)
        check(lambda a, b, upper=upper: torch.cholesky_solve(b, torch.linalg.cholesky(a, upper=upper), upper), p, b)
        check(lambda a, b, upper=upper: torch.linalg.solve_triangular(a, b, upper=upper), p, b)
    check(lambda a: torch.cholesky_inverse(torch.linalg.cholesky(a)), p)
    check(torch.linalg.inv, p)
    check(torch.linalg.det, p)
    check(torch.linalg.slogdet, p)
    check(torch.linalg.solve, p, b)
    check(lambda a, b: torch.linalg.solve(a, b.mT, left=False), p, b)
    check(torch.linalg.eigvalsh, p)
    check(torch.linalg.matrix_exp, matrix(dtype, *shape) / 2)
    values, vectors = (x.cpu() for x in torch.linalg.eigh(p.to("tpu")))
    torch.testing.assert_close(p @ vectors, vectors * values.unsqueeze(-2).to(dtype), atol=1e-4, rtol=1e-4)
    orthonormal(vectors)


def test_of_deficient_rank():
    a = torch.ones(5, 3)
    u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to("tpu")))
    torch.testing.assert_close(s, torch.linalg.svdvals(a))
    orthonormal(u)
    orthonormal(vh)


def test_refuses_singular_matrices():
    for f in (torch.linalg.inv, torch.linalg.cholesky, lambda a: torch.linalg.solve(a, a)):
        with pytest.raises(torch.linalg.LinAlgError):
            f(torch.zeros(2, 2, device="tpu"))
    bad = torch.tensor([[1.0, 2, 0], [2, 1, 0], [0, 0, 3]])
    assert torch.linalg.cholesky_ex(bad.to("tpu")).info.item() == 2


def test_gradients():
    a, b = positive(torch.float64, 3, 3), matrix(torch.float64, 3, 2)
    check_grads(torch.linalg.inv, a)
    check_grads(torch.linalg.det, a)
    check_grads(lambda a: torch.linalg.det(a.T), a + torch.arange(9.0).reshape(3, 3))
    check_grads(lambda a: torch.linalg.slogdet(a).logabsdet, a)
    check_grads(torch.linalg.cholesky, a)
    check_grads(torch.linalg.solve, a, b)
    check_grads(lambda a: torch.linalg.qr(a).R, a)
    check_grads(torch.linalg.svdvals, a)
    check_grads(torch.linalg.eigvalsh, a)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier(norm):
    for dtype in (torch.float32, torch.float64) if norm == "backward" else (torch.float32,):
        x = matrix(dtype, 3, 6, 5)
        check(lambda a: torch.fft.ihfft(a, norm=norm), x)
        check(lambda a: torch.fft.hfft(torch.fft.ihfft(a, norm=norm), n=5, norm=norm), x)
        check(lambda a: torch.fft.fft(a, norm=norm), x)
        check(lambda a: torch.fft.ifft(a, dim=1, norm=norm), x)
        check(lambda a: torch.fft.rfft(a, norm=norm), x)
        check(lambda a: torch.fft.rfft2(a, norm=norm), x)
        check(lambda a: torch.fft.irfft(torch.fft.rfft(a, norm=norm), n=5, norm=norm), x)
        check(lambda a: torch.fft.irfftn(torch.fft.rfftn(a, norm=norm), s=(3, 6, 5), norm=norm), x)
        check(lambda a: torch.fft.fftn(a, norm=norm), x.to(torch.complex64))
    check_grads(lambda a: torch.fft.irfft(torch.fft.rfft(a, norm=norm) * 2, norm=norm), matrix(torch.float32, 2, 8))


# A matrix of its own, factors, a prime without any, a large prime (Bluestein) and twice one.
@pytest.mark.parametrize("n", [1, 2, 7, 64, 66, 1000, 97, 521, 1042])
def test_fourier_of_doubles_of_any_length(n):
    x = torch.randn(3, n, dtype=torch.float64)
    check(torch.fft.rfft, x)
    check(torch.fft.fft, x + 1j * x.flip(-1))
    check(torch.fft.ifft, x + 1j * x.flip(-1))
    check(lambda a: torch.fft.irfft(a, n=n), torch.fft.rfft(x))


def test_fourier_of_doubles_is_as_precise_as_the_cpus():
    x = torch.randn(4096, dtype=torch.float64)
    there_and_back = torch.fft.irfft(torch.fft.rfft(x.to("tpu"))).cpu()
    torch.testing.assert_close(there_and_back, x, rtol=0, atol=1e-13)
    far = torch.fft.fft(x.to("tpu")).cpu() - torch.fft.fft(x)
    assert far.abs().max() < 1e-11
