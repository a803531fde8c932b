"""Matrix products and linear layers."""

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, numbers
from ops.util import check

DTYPES = [*FLOATS, torch.int64, torch.int32, torch.complex64]


def operand(*shape, dtype, seed=0):
    if dtype.is_complex:
        return torch.complex(numbers(*shape, seed=seed), numbers(*shape, seed=seed + 50))
    if not dtype.is_floating_point:
        return (numbers(*shape, seed=seed) * 5).to(dtype)
    return numbers(*shape, dtype=dtype, seed=seed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products(dtype):
    a, b = operand(3, 4, dtype=dtype), operand(4, 5, dtype=dtype, seed=1)
    check(torch.mm, a, b)
    check(torch.bmm, operand(2, 3, 4, dtype=dtype), operand(2, 4, 5, dtype=dtype, seed=1))
    check(torch.mv, a, operand(4, dtype=dtype, seed=1))
    check(torch.dot, operand(4, dtype=dtype), operand(4, dtype=dtype, seed=1))
    check(torch.vdot, operand(4, dtype=dtype), operand(4, dtype=dtype, seed=1))
    check(torch.matmul, operand(2, 1, 3, 4, dtype=dtype), operand(3, 4, 2, dtype=dtype, seed=1))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("beta, alpha", [(2, 3), (0, 1)])
def test_added_products(dtype, beta, alpha):
    k = {"beta": beta, "alpha": alpha}
    a, b = operand(3, 4, dtype=dtype), operand(4, 5, dtype=dtype, seed=1)
    for own in [operand(3, 5, dtype=dtype, seed=2), operand(5, dtype=dtype, seed=2)]:
        check(lambda s, a, b: torch.addmm(s, a, b, **k), own, a, b)
    x, y = operand(2, 3, 4, dtype=dtype), operand(2, 4, 5, dtype=dtype, seed=1)
    check(lambda s, a, b: torch.baddbmm(s, a, b, **k), operand(2, 3, 5, dtype=dtype, seed=2), x, y)
    check(lambda s, a, b: torch.addbmm(s, a, b, **k), operand(3, 5, dtype=dtype, seed=2), x, y)
    # More than are multiplied at once.
    many = [operand(70, *v.shape[1:], dtype=dtype, seed=3) for v in (x, y)]
    check(lambda s, a, b: torch.addbmm(s, a, b, **k), operand(3, 5, dtype=dtype, seed=2), *many)
    check(
        lambda s, a, b: torch.addmv(s, a, b, **k), operand(3, dtype=dtype, seed=2), a, operand(4, dtype=dtype, seed=1)
    )
    check(
        lambda s, a, b: torch.addr(s, a, b, **k),
        operand(3, 5, dtype=dtype, seed=2),
        operand(3, dtype=dtype),
        operand(5, dtype=dtype, seed=1),
    )


def test_what_is_multiplied_by_zero_does_not_count():
    nan = torch.full((2, 2), float("nan"))
    check(lambda s, a: torch.addmm(s, a, a, beta=0), nan, numbers(2, 2))
    check(lambda s, a: torch.addmm(s, a, a, beta=0.0, alpha=0.5), nan, numbers(2, 2))


def test_in_place_and_out():
    check(lambda a, b: torch.mm(a.t(), b.t()), numbers(4, 3), numbers(5, 4))
    check(lambda s, a, b: s.clone().addmm_(a, b, beta=0.5), numbers(3, 5), numbers(3, 4), numbers(4, 5))
    check(lambda a, b: torch.mm(a, b, out=torch.empty(3, 5, device=a.device)), numbers(3, 4), numbers(4, 5))


@pytest.mark.parametrize("m, k, n", [(0, 3, 2), (2, 0, 3), (1, 1, 1)])
def test_empty_products(m, k, n):
    check(torch.mm, numbers(m, k), numbers(k, n))
    check(torch.addmm, numbers(n), numbers(m, k), numbers(k, n))
    check(torch.bmm, numbers(2, m, k), numbers(2, k, n))
    check(F.linear, numbers(m, k), numbers(n, k), numbers(n))


def test_single_precision_is_kept():
    a, b = numbers(64, 512, seed=3), numbers(512, 64, seed=4)
    exact = a.double() @ b.double()
    error = (a.to("tpu") @ b.to("tpu")).cpu().double() - exact
    # One bfloat16 pass would be wrong by 0.3.
    assert error.abs().max() < 2e-4


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_linear(dtype):
    x, w, b = numbers(2, 3, 4, dtype=dtype), numbers(5, 4, dtype=dtype, seed=1), numbers(5, dtype=dtype, seed=2)
    check_grads(F.linear, x, w, b)
    check_grads(F.linear, x, w)
    check_grads(F.linear, x[0, 0], w, b)
    check_grads(F.linear, x[0], w[0])
    check_grads(lambda x, w: F.linear(x.transpose(0, 1), w), x, w)


def test_bilinear_and_its_second_gradient():
    check_grads(F.bilinear, numbers(3, 4), numbers(3, 5), numbers(2, 4, 5), numbers(2))

    def second(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (g,) = torch.autograd.grad(F.linear(x, w).pow(2).sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), w)[0]

    check(second, numbers(3, 4), numbers(2, 4))


def test_activation_in_the_product():
    s, a, b = numbers(5), numbers(3, 4), numbers(4, 5)
    check(torch._addmm_activation, s, a, b)
    check(lambda s, a, b: torch._addmm_activation(s, a, b, use_gelu=True), s, a, b)


def test_int8_products_are_summed_as_int32():
    a, b = (numbers(32, 16) * 50).to(torch.int8), (numbers(16, 32) * 50).to(torch.int8)
    check(torch._int_mm, a, b)


@pytest.mark.parametrize("right", [lambda b: b, torch.conj], ids=["plain", "conj"])
@pytest.mark.parametrize("left", [lambda a: a, torch.conj, torch._neg_view], ids=["plain", "conj", "neg"])
def test_lazily_conjugated_factors(left, right):
    a, b = operand(3, 4, dtype=torch.complex64), operand(4, 3, dtype=torch.complex64, seed=1)
    check(lambda a, b: left(a) @ right(b), a, b)
    check(lambda a, b: torch.dot(left(a)[0], right(b)[:, 0]), a, b)
    check(lambda a, b: torch.vdot(left(a)[0], right(b)[:, 0]), a, b)
    check(lambda a, b: torch.linalg.multi_dot([left(a), right(b), left(a)]), a, b)


def test_product_into_a_conjugated_view():
    def product(a, b):
        out = torch.zeros(3, 3, dtype=a.dtype, device=a.device)
        torch.mm(a, b, out=out.conj())
        return out

    check(product, operand(3, 4, dtype=torch.complex64), operand(4, 3, dtype=torch.complex64, seed=1))
