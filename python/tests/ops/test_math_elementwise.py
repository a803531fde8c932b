"""Elementwise math: values, dtypes and errors are those of CPU torch."""

import math

import pytest
import torch
from ops.util import check

FLOATS = [torch.float32, torch.float64, torch.bfloat16]
INTS = [torch.int64, torch.int32, torch.uint8]
NAN, INF = math.nan, math.inf


def values(dtype, *, positive=False):
    """Numbers on both sides of zero, zeros of both signs, and (of floats) what is no number."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False, False])
    if not dtype.is_floating_point:
        base = [1, 2, 3, 7, 100, 13] if positive or dtype == torch.uint8 else [0, 1, -1, 5, -7, 100]
        return torch.tensor(base, dtype=dtype)
    base = [0.25, 0.5, 1.0, 2.5, 7.0, 30.0] if positive else [0.0, -0.0, 0.3, -0.7, 2.5, -11.0]
    return torch.tensor([*base, NAN, INF, -INF], dtype=dtype)


UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logit",
    "nan_to_num",
    "neg",
    "positive",
    "rad2deg",
    "reciprocal",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "special.entr",
    "special.erfcx",
    "special.i0",
    "special.i0e",
    "special.i1",
    "special.i1e",
    "special.log_ndtr",
    "special.ndtri",
    "special.ndtr",
]


def function(name):
    owner = torch
    for part in name.split("."):
        owner = getattr(owner, part)
    return owner


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    f = function(name)
    for dtype in FLOATS[:2] if name in ("special.erfcx", "special.log_ndtr", "special.ndtri") else FLOATS:
        check(f, torch.cat([values(dtype), values(dtype, positive=True)[:6]]).reshape(3, 5).t())


@pytest.mark.parametrize("f", [torch.tan, torch.isnan, torch.lgamma, torch.special.i0e])
def test_unary_of_half_one_and_none(f):
    check(f, values(torch.float16))
    check(f, torch.tensor(0.5))
    check(f, torch.empty(0, 3))


@pytest.mark.parametrize(
    "name",
    ["abs", "neg", "sign", "square", "sqrt", "exp", "sin", "sigmoid", "reciprocal", "floor", "round", "isnan", "erf"],
)
def test_unary_of_integers(name):
    for dtype in INTS:
        check(function(name), values(dtype, positive=name == "sqrt"))


@pytest.mark.parametrize(
    "name", ["abs_", "neg_", "exp_", "sqrt_", "sigmoid_", "tanh_", "reciprocal_", "floor_", "clamp_min_", "round_"]
)
def test_in_place(name):
    arguments = (0.1,) if name == "clamp_min_" else ()
    check(lambda x: getattr(x.clone(), name)(*arguments), torch.tensor([[0.3, 2.0], [4.5, 0.1]]))
    check(lambda x: getattr(x.clone().t()[1], name)(*arguments), torch.tensor([[0.3, 2.0], [4.5, 0.1]]))


BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "true_divide",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "copysign",
    "nextafter",
    "logaddexp",
    "logaddexp2",
    "xlogy",
    "special.xlog1py",
    "heaviside",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "float_power",
    "ldexp",
]


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    f = function(name)
    for dtype in FLOATS:
        x = values(dtype)
        check(f, x[:, None], torch.cat([x, values(dtype, positive=True)[:6]]))


@pytest.mark.parametrize("f", [torch.add, torch.remainder, torch.maximum, torch.hypot, torch.le])
def test_binary_of_half_views_one_and_none(f):
    x = values(torch.float16)
    check(f, x[:6].reshape(2, 3).t(), values(torch.float16, positive=True)[:2])
    check(f, torch.empty(0, 3), torch.ones(3))
    check(f, torch.tensor(2.0), torch.tensor([1.0, 3.0]))


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "div",
        "floor_divide",
        "remainder",
        "fmod",
        "pow",
        "maximum",
        "minimum",
        "eq",
        "lt",
        "ge",
        "gcd",
        "lcm",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "logical_xor",
    ],
)
def test_binary_of_integers(name):
    for dtype in (torch.int64, torch.uint8):
        check(function(name), values(dtype), torch.tensor([1, 2, 3, 4, 5, 6], dtype=dtype))
    takes_numbers = name not in ("maximum", "minimum", "gcd", "lcm", "logical_xor")
    check(function(name), values(torch.int32), 3 if takes_numbers else torch.tensor(3))


@pytest.mark.parametrize(
    "name", ["add", "mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "eq", "ne"]
)
def test_binary_of_booleans(name):
    a = torch.tensor([True, True, False, False])
    check(function(name), a, torch.tensor([True, False, True, False]))


@pytest.mark.parametrize("name", ["add", "div", "maximum", "eq", "where"])
def test_promotion(name):
    kinds = [torch.bool, torch.int64, torch.bfloat16, torch.float32]
    if name == "add":
        kinds += [torch.uint8, torch.float16, torch.float64]
    f = (lambda a, b: torch.where(a > 0, a, b)) if name == "where" else function(name)
    for a in kinds:
        for b in kinds:
            check(f, torch.ones(3).to(a), torch.full((3,), 1).to(b))
            if a != b and name in ("add", "div"):
                check(f, torch.ones(3).to(a), torch.ones(()).to(b))


@pytest.mark.parametrize("number", [2, 2.5, -1, True])
@pytest.mark.parametrize("name", ["add", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "eq", "lt"])
def test_numbers(name, number):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        if name == "pow" and dtype == torch.int64 and number == -1:
            continue
        x = values(dtype, positive=True)
        check(function(name), x, number)
    if name in ("div", "pow", "remainder"):
        check(lambda y: function(name)(number, y) if name != "div" else number / y, torch.tensor([1.5, 2.0, 4.0]))


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division_modes(mode):
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.tensor([7.0, -7.0, 0.0, -0.0, INF, NAN, 5.5, -6.0], dtype=dtype)
        for divisor in (2.0, -2.0, 0.5, 0.0, INF, -3.5):
            check(lambda a, b=divisor: torch.div(a, b, rounding_mode=mode), x)
    x = torch.tensor([7, -7, 6, -6, 0])
    for divisor in (2, -2, 3, -4):
        check(lambda a, b=divisor: torch.div(a, torch.tensor(b).to(a.device), rounding_mode=mode), x)


@pytest.mark.parametrize("f", [torch.floor_divide, torch.remainder, torch.fmod])
def test_integer_division_by_zero_raises(f):
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f(torch.tensor([1, 2], device=device), torch.tensor([1, 0], device=device)).cpu()


def test_three_operands():
    for dtype in (torch.float32, torch.bfloat16):
        a, b, c = (torch.randn(4, 3).to(dtype) for _ in range(3))
        check(lambda a, b, c: torch.addcmul(a, b, c, value=0.5), a, b, c)
        check(lambda a, b, c: torch.addcdiv(a, b, c, value=-2), a, b, c.abs() + 1)
        check(torch.lerp, a, b, c.sigmoid())
        check(lambda a, b: torch.lerp(a, b, 0.75), a, b)
        check(lambda a, b: a.clone().lerp_(b, 0.1), a, b)
    check(torch.addcmul, *(torch.tensor([1, 2, 3]) for _ in range(3)))


def test_clamp():
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        x = values(dtype)
        check(lambda a: torch.clamp(a, -1, 2), x)
        check(lambda a: torch.clamp(a, min=0), x)
        check(lambda a: torch.clamp(a, max=1), x)
        check(lambda a: torch.clamp(a, 3, 2), x)
        check(lambda a: a.clamp(min=a.new_zeros(()), max=a.new_full(a.shape, 2)), x)
    check(lambda a, b: torch.clamp(a, min=b), torch.tensor([1.0, NAN, 3.0]), torch.tensor([NAN, 1.0, 0.0]))
    check(lambda a: torch.clamp(a, 0.5, 1.5), torch.tensor([0, 1, 2]))


def test_rounding_to_decimals():
    x = torch.tensor([2.5, -0.5, 1234.5678, -1.005, INF, NAN])
    for decimals in (-2, -1, 0, 1, 3):
        check(lambda a, d=decimals: torch.round(a, decimals=d), x)
        check(lambda a, d=decimals: torch.round(a, decimals=d), x.double())


def test_bits_of_floats():
    x = torch.tensor([0.0, -0.0, 1.0, -3.5, INF, -INF, NAN, 1e-40, -1e-45, 3e38])
    for dtype in (torch.float32, torch.float64):
        check(torch.frexp, x.to(dtype))
        check(torch.nextafter, x.to(dtype)[:, None], x.to(dtype))
        check(torch.signbit, x.to(dtype))
        check(torch.copysign, torch.ones(10, dtype=dtype), x.to(dtype))
    check(torch.logical_not, x)
    check(lambda a: a.bool(), x)


def test_shifts_out_of_range():
    a, by = torch.tensor([1, -8, 3, -1]), torch.tensor([64, -1, 2, 63])
    check(torch.bitwise_left_shift, a, by)
    check(torch.bitwise_right_shift, a, by)
    check(lambda x: x >> 9, torch.tensor([200, 8], dtype=torch.uint8))
    check(lambda x: x << 9, torch.tensor([100, 8], dtype=torch.int8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64])
def test_products_with_booleans_keep_what_is_no_number(dtype):
    x = torch.tensor([math.inf, math.nan, -2.0, 3.0]).to(dtype)
    mask = torch.tensor([False, False, False, True])
    check(lambda x, mask: (x * mask, mask * x, x * mask.all()), x, mask)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_of_halves_are_halves(dtype):
    torch.manual_seed(0)
    x, y = torch.randn(2, 300).mul(9).to(dtype)
    p = torch.rand(300).to(dtype)

    def exact(f):
        torch.testing.assert_close(f(x.to("tpu"), y.to("tpu"), p.to("tpu")).cpu(), f(x, y, p), rtol=0, atol=0)

    exact(lambda x, y, p: torch.ldexp(x, y))
    exact(lambda x, y, p: torch.div(x, y, rounding_mode="trunc"))
    exact(lambda x, y, p: torch.div(x, 0.3, rounding_mode="trunc"))
    exact(lambda x, y, p: p / (1 - p))
    check(lambda p: (torch.logit(p), torch.logit(p, 0.2)), p)


@pytest.mark.parametrize("f", [torch.logit, torch.ldexp])
def test_floats_are_not_written_to_integers(f):
    x = torch.ones(3, dtype=torch.int32, device="tpu")
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        getattr(x, f.__name__ + "_")(*((x,) if f is torch.ldexp else ()))


def test_complex_powers_are_those_of_double_precision():
    torch.manual_seed(0)
    a, b = torch.randn(2, 200, dtype=torch.complex64) * 4
    want = torch.pow(a.to(torch.complex128), b.to(torch.complex128)).to(torch.complex64)
    torch.testing.assert_close(torch.pow(a.to("tpu"), b.to("tpu")).cpu(), want)


def test_integer_powers():
    check(torch.pow, torch.tensor([0, 1, -1, 2, -1]), torch.tensor([-1, -3, -3, -2, -2]))
    check(lambda x: x**5, torch.tensor([3, -2, 10**6]))
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            torch.tensor([2], device=device) ** -1


def test_where_and_isin():
    a, b = torch.randn(3, 1), torch.randn(1, 4)
    check(torch.where, a > 0, a, b)
    check(lambda x: torch.where(x > 0, x, 0), a)
    check(lambda x: torch.where(x > 0, 1.0, -1.0), a)
    x, tests = torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 4, 9])
    for invert in (False, True):
        check(lambda x, t, i=invert: torch.isin(x, t, invert=i), x, tests)
        check(lambda x, i=invert: torch.isin(x, 3, invert=i), x)
    check(torch.isin, x, torch.tensor([], dtype=torch.int64))
    check(torch.isclose, a, a + 1e-9)
    for device in ("cpu", "tpu"):
        y = torch.tensor([1.0, 2.0], device=device)
        assert torch.equal(y, y.clone()) and not torch.equal(y, y + 1) and not torch.equal(y, y[:1])
        assert torch.allclose(y, y + 1e-9)


def test_logit_with_eps_and_polygamma():
    x = torch.tensor([-0.1, 0.0, 0.5, 1.0, 1.5, NAN])
    check(lambda a: torch.logit(a, eps=1e-3), x)
    for n in (0, 1, 2, 4):
        check(lambda a, n=n: torch.polygamma(n, a), torch.tensor([0.5, 1.5, 10.0, 2.0]))
    check(torch.special.zeta, torch.tensor([2.0, 3.5, 1.1]), torch.tensor([1.0, 2.5, 0.5]))
    check(lambda a: torch.mvlgamma(a, 3), torch.tensor([2.5, 4.0]))


def test_complex_numbers():
    z = torch.tensor([1 + 2j, -0.5j, 3 - 1j, 0j])
    w = torch.tensor([0.5 - 1j, 2 + 0j, 1j, 1 + 1j])
    for name in ["add", "sub", "mul", "div", "pow", "eq", "ne"]:
        check(function(name), z, w)
    for name in [
        "abs",
        "angle",
        "exp",
        "sqrt",
        "sin",
        "cos",
        "tanh",
        "sgn",
        "reciprocal",
        "neg",
        "sigmoid",
        "isfinite",
        "conj_physical",
    ]:
        check(function(name), z[:3])
    check(torch.complex, torch.randn(3), torch.randn(3))
    check(torch.polar, torch.rand(3), torch.randn(3))


def test_scalars_change_without_recompiling():
    x = torch.ones(3, device="tpu")
    for i in range(4):
        torch.testing.assert_close((x * (i + 0.5) + i).cpu(), torch.ones(3) * (i + 0.5) + i)


def test_out_and_wider_results():
    for device in ("cpu", "tpu"):
        a = torch.arange(3, dtype=torch.float32, device=device)
        out = torch.empty(0, dtype=torch.float64, device=device)
        torch.add(a, 1, out=out)
        assert out.dtype == torch.float64 and out.tolist() == [1, 2, 3]
        mask = torch.empty(3, dtype=torch.bool, device=device)
        torch.gt(a, 1, out=mask)
        assert mask.tolist() == [False, False, True]
        back = torch.empty(3, dtype=torch.uint8, device=device)
        torch.eq(a, 1, out=back)
        assert back.tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ["mul", "div", "pow", "atan2", "maximum", "hypot", "logaddexp", "xlogy"])
def test_gradients_of_two(name):
    def f(a, b):
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        return torch.autograd.grad(function(name)(a, b).sum(), (a, b))

    check(f, torch.rand(2, 3) + 0.5, torch.rand(3) + 0.5)


@pytest.mark.parametrize(
    "name",
    [
        "abs",
        "acosh",
        "asin",
        "atan",
        "cosh",
        "digamma",
        "erf",
        "erfinv",
        "exp",
        "expm1",
        "lgamma",
        "log",
        "log1p",
        "logit",
        "reciprocal",
        "rsqrt",
        "sigmoid",
        "sin",
        "sinc",
        "sqrt",
        "tan",
        "tanh",
    ],
)
def test_gradients_of_one(name):
    def f(a):
        a = a.clone().requires_grad_()
        return torch.autograd.grad(function(name)(a).sum(), a)

    check(f, torch.rand(5) * 0.8 + (1.1 if name == "acosh" else 0.1))


@pytest.mark.parametrize("name", ["sinh", "cosh", "exp", "expm1", "tanh"])
def test_exponentials_near_the_greatest_number(name):
    check(getattr(torch, name), torch.tensor([88.8, -88.8, 88.3, 30.0, -30.0, 10.5, -9.5, 120.0, -120.0]))
