"""NaN, infinities, signed zeros and sums that lose digits."""

import math

import torch
from torch.nn import functional as F

from cases.util import same, same_bits

NAN, INF = math.nan, math.inf


@same
def test_nan_in_reductions(dev):
    x = torch.tensor([[1.0, NAN, 3.0], [INF, -INF, 0.0]], device=dev)
    return (
        x.sum(1),
        x.max(1),
        x.min(0),
        x.argmax(1),
        x.argmin(),
        x.prod(1),
        x.nansum(1),
        x.cummax(1),
        x.nanmean(1),
        x.std(1),
        x.any(),
        x.amin(0),
    )


@same
def test_nan_in_sorting(dev):
    x = torch.tensor([3.0, NAN, -INF, 1.0, INF], device=dev)
    return (
        x.sort(),
        x.sort(descending=True),
        x.topk(2),
        x.median(),
        x.nanmedian(),
        x.kthvalue(2),
        torch.isin(x, x),
        torch.unique(x[2:]),
    )


@same
def test_nan_in_comparisons(dev):
    x, y = torch.tensor([NAN, 1.0, NAN], device=dev), torch.tensor([NAN, NAN, 1.0], device=dev)
    return (
        x == y,
        x != y,
        x < y,
        x >= y,
        torch.maximum(x, y),
        torch.fmax(x, y),
        torch.equal(x, x),
        torch.isclose(x, y, equal_nan=True),
        x.clamp(0, 1),
        x.bool(),
    )


@same
def test_signed_zeros(dev):
    zero, minus = torch.tensor([0.0], device=dev), torch.tensor([-0.0], device=dev)
    results = [
        zero * -1,
        minus + 0,
        minus.abs(),
        minus.sqrt(),
        minus.round(),
        torch.tensor([-0.3], device=dev).round(),
        torch.copysign(zero, minus),
        zero - zero,
        minus.neg(),
    ]
    return [(r, 1 / r, torch.signbit(r)) for r in results]


@same
def test_functions_at_their_edges(dev):
    x = torch.tensor([-INF, -1.0, 0.0, 1.0, INF, NAN], device=dev)
    names = "exp expm1 log log1p log2 sqrt rsqrt reciprocal tanh sigmoid atan asin"
    names += " acosh erf erfinv lgamma digamma sign trunc frac sinc logit"
    return {name: getattr(torch, name)(x) for name in names.split()}


@same
def test_powers_at_their_edges(dev):
    x = torch.tensor([-2.0, -0.0, 0.0, 1.0, INF, NAN], device=dev)
    return (
        x**0,
        x**2,
        x**-1,
        x**0.5,
        x**3.0,
        2**x,
        torch.pow(x, x),
        torch.pow(torch.tensor([-2, 3], device=dev), 3),
        torch.hypot(x, x),
        torch.atan2(x, -x.abs()),
    )


@same
def test_softmax_of_large_and_masked_rows(dev):
    x = torch.tensor([[1e4, 1e4 - 1, -1e4], [-INF, 0.0, -INF], [-INF, -INF, -INF], [INF, 0.0, 0.0]], device=dev)
    return x.softmax(1), x.log_softmax(1), x.logsumexp(1), F.softmin(x, 1)


@same
def test_losses_of_extreme_logits(dev):
    x = torch.tensor([-200.0, 0.0, 200.0], device=dev, requires_grad=True)
    y = torch.tensor([1.0, 0.5, 0.0], device=dev)
    loss = F.binary_cross_entropy_with_logits(x, y) + F.softplus(x).sum() - F.logsigmoid(x).mean()
    loss.backward()
    return (
        loss,
        x.grad,
        F.binary_cross_entropy(torch.tensor([0.0, 1.0], device=dev), torch.tensor([1.0, 1.0], device=dev)),
    )


@same
def test_gradients_at_kinks(dev):
    x = torch.tensor([-1.0, 0.0, 1.0, NAN], device=dev, requires_grad=True)
    grads = []
    for fn in (
        torch.abs,
        torch.relu,
        F.hardtanh,
        F.gelu,
        F.silu,
        F.leaky_relu,
        lambda t: t.clamp(0, 1),
        lambda t: t.pow(2),
        lambda t: t.max(),
    ):
        grads.append(torch.autograd.grad(fn(x).sum(), x)[0])
    tied = torch.tensor([2.0, 2.0, 1.0], device=dev, requires_grad=True)
    return (
        grads,
        torch.autograd.grad(tied.amax(), tied)[0],
        torch.autograd.grad(tied.max(), tied)[0],
        torch.autograd.grad(tied[1:2].sub(2).norm(), tied)[0],
    )


@same
def test_long_sums_keep_digits(dev):
    x = torch.full((100_000,), 0.1, device=dev)
    return (
        x.sum(),
        x.mean(),
        x.bfloat16().sum(),
        x.half().mean(),
        (x + 1000).var(),
        x.view(100, 1000).norm(dim=1)[:3],
        x.double().cumsum(0)[-1],
    )


@same
def test_variance_of_one_and_of_offset_data(dev):
    x = torch.tensor([10000.0, 10001.0, 10002.0], device=dev)
    return x.var(), x.std(correction=0), torch.var_mean(x), x[:1].var(), x[:1].var(correction=0), F.layer_norm(x, (3,))


@same
def test_nan_to_num_and_tests_for_it(dev):
    x = torch.tensor([NAN, INF, -INF, 1.0], device=dev)
    return (
        x.nan_to_num(),
        x.nan_to_num(1, 2, 3),
        x.half().nan_to_num(),
        x.isnan(),
        x.isinf(),
        x.isfinite(),
        x.isposinf(),
        torch.tensor([1], device=dev).isnan(),
    )


@same_bits
def test_rounding_functions(dev):
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 2.675, 1e10 + 0.5], device=dev)
    return x.round(), x.floor(), x.ceil(), x.trunc(), x.fix()


@same
def test_attention_with_a_row_masked_out(dev):
    q = torch.arange(12.0, device=dev).view(1, 1, 3, 4) / 12
    mask = torch.tensor([[True, False, False], [False, False, False], [True, True, True]], device=dev)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask), F.scaled_dot_product_attention(
        q, q, q, is_causal=True
    )


@same
def test_small_numbers_of_double_precision(dev):
    x = torch.tensor([1e-300, 1.0 + 2**-50, math.pi], dtype=torch.float64, device=dev)
    return x * 1e10, x - 1, x.sin(), x.exp(), x.expm1(), x.log(), x.sqrt(), x.tanh(), x.sigmoid(), x.erf(), x @ x
