"""Samplers that reject: gamma, Dirichlet, Poisson and binomial numbers, their distributions and their gradients."""

import math

import pytest
import torch
import torch.distributions as D

MANY = 100_000
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def full(value, dtype=torch.float32, count=MANY):
    return torch.full((count,), value, dtype=dtype, device="tpu")


def assert_moments(x, mean, variance, fourth, rounding=0.0):
    """Mean and variance within five standard errors; `fourth` is the fourth central moment by the variance squared."""
    x = x.cpu().double().flatten()
    n = x.numel()
    assert abs(x.mean().item() - mean) <= 5 * math.sqrt(variance / n) + rounding * abs(mean)
    slack = 5 * variance * math.sqrt((fourth - 1) / n) + 2 * rounding * (variance + mean**2)
    assert abs(x.var().item() - variance) <= slack


def assert_continuous(x, cdf):
    """Kolmogorov and Smirnov's test; 2.5 is passed by all but one in 130,000 of correct samples."""
    x = x.cpu().double().flatten().sort().values
    n = x.numel()
    at = cdf(x)
    upper = (torch.arange(1, n + 1) / n - at).max()
    lower = (at - torch.arange(n) / n).max()
    assert max(upper.item(), lower.item()) * math.sqrt(n) < 2.5


def assert_discrete(x, log_prob, top):
    """The chi-square test, over values that are expected ten times or more."""
    x = x.cpu().double().flatten()
    assert torch.equal(x, x.round())
    assert x.min() >= 0
    assert x.max() <= top
    counts = torch.bincount(x.long(), minlength=int(top) + 1).double()
    expected = log_prob(torch.arange(counts.numel()).double()).exp() * x.numel()
    often = expected >= 10
    counts = torch.cat([counts[often], counts[~often].sum().view(1)])
    expected = torch.cat([expected[often], expected[~often].sum().clamp_min(1).view(1)])
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    freedom = counts.numel() - 1
    assert statistic < freedom + 5 * math.sqrt(2 * freedom) + 25


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, 1e6])
def test_gamma(alpha, dtype):
    torch.manual_seed(11)
    x = torch._standard_gamma(full(alpha, dtype))
    assert x.dtype == dtype
    rounding = torch.finfo(dtype).eps
    assert_moments(x, alpha, alpha, 3 + 6 / alpha, rounding)
    if alpha < 100:
        assert_continuous(x, lambda x: torch.special.gammainc(torch.tensor(alpha).double(), x))


def test_gamma_of_odd_parameters():
    alpha = torch.tensor([0.0, -1.0, math.nan, math.inf, 1e-5, 2.0], device="tpu")
    x = torch._standard_gamma(alpha).cpu()
    least = torch.finfo(torch.float32).tiny
    assert x[0] == least
    assert x[1].isnan()
    assert x[2].isnan()
    assert x[3] == math.inf
    assert least <= x[4] < 1e-3
    assert 0 < x[5] < 40


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves(dtype):
    torch.manual_seed(3)
    eps = torch.finfo(dtype).eps
    assert_moments(torch._standard_gamma(full(2.0, dtype)), 2, 2, 6, eps)
    assert_moments(torch.poisson(full(3.0, dtype)), 3, 3, 3 + 1 / 3, eps)
    assert_moments(torch.binomial(full(20.0, dtype), full(0.25, dtype)), 5, 3.75, 3, eps)
    shares = torch._sample_dirichlet(torch.ones(1000, 4, dtype=dtype, device="tpu")).cpu().double()
    torch.testing.assert_close(shares.sum(1), torch.ones(1000).double(), atol=4 * eps, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dirichlet(dtype):
    torch.manual_seed(5)
    alpha = torch.tensor([0.4, 2.0, 3.6], dtype=dtype, device="tpu")
    x = torch._sample_dirichlet(alpha.expand(MANY, 3))
    torch.testing.assert_close(x.cpu().sum(1), torch.ones(MANY, dtype=dtype))
    for k, a in enumerate((0.4, 2.0, 3.6)):
        assert_moments(x[:, k], a / 6, a * (6 - a) / (36 * 7), 10)
    # Numbers whose gamma numbers are no floats have shares all the same.
    x = torch._sample_dirichlet(torch.full((1000, 2), 1e-3, dtype=dtype, device="tpu")).cpu()
    assert torch.allclose(x.sum(1), torch.ones(1000, dtype=dtype))
    assert 400 < (x[:, 0] > 0.5).sum() < 600
    assert torch._sample_dirichlet(torch.tensor(2.0, device="tpu")).cpu() == 1 - 2**-24
    assert torch._sample_dirichlet(torch.ones(3, 0, device="tpu")).shape == (3, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rate", [0.2, 9.9, 10.1, 200.0, 1e6])
def test_poisson(rate, dtype):
    torch.manual_seed(7)
    x = torch.poisson(full(rate, dtype))
    assert x.dtype == dtype
    true_rate = torch.tensor(rate, dtype=dtype).double()
    assert_moments(x, true_rate.item(), true_rate.item(), 3 + 1 / rate)
    if rate < 1000:
        top = rate + 20 * math.sqrt(rate) + 20
        assert_discrete(x, lambda k: D.Poisson(true_rate).log_prob(k), top)


def test_poisson_of_odd_rates():
    assert torch.equal(torch.poisson(torch.zeros(5, device="tpu")).cpu(), torch.zeros(5))
    x = torch.poisson(torch.tensor([0.0, 5e8, 1e12, math.inf], device="tpu")).cpu().double()
    assert x[0] == 0
    assert abs(x[1] - 5e8) < 6 * math.sqrt(5e8)
    assert abs(x[2] - 1e12) < 6 * math.sqrt(1e12)
    assert x[3] == math.inf
    for bad in (-1.0, math.nan):
        with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
            torch.poisson(torch.tensor([2.0, bad], device="tpu")).cpu()
    with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
        torch.poisson(torch.tensor([2], device="tpu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("n", "p"), [(9, 0.4), (30, 0.32), (30, 0.35), (40, 0.9), (400, 0.8), (10**6, 0.3)])
def test_binomial(n, p, dtype):
    torch.manual_seed(9)
    x = torch.binomial(full(float(n), dtype), full(p, dtype))
    assert x.dtype == dtype
    p = torch.tensor(p, dtype=dtype).double()
    variance = (n * p * (1 - p)).item()
    assert_moments(x, n * p.item(), variance, 3 + (1 - 6 * (p * (1 - p)).item()) / variance)
    if n < 1000:
        assert_discrete(x, lambda k: D.Binomial(n, p, validate_args=False).log_prob(k.clamp_max(n)), n)


def test_binomial_of_odd_parameters():
    n = torch.tensor([-1.0, 3, 3, 3, math.nan, math.inf, 0, 100, 100], device="tpu")
    p = torch.tensor([0.5, -0.1, 1.1, math.nan, 0.5, 0.5, 0.5, 0, 1], device="tpu")
    x = torch.binomial(n, p).cpu()
    wanted = torch.tensor([0.0, 0, 3, math.nan, math.nan, math.nan, 0, 0, 100])
    torch.testing.assert_close(x, wanted, equal_nan=True)
    assert torch.binomial(n[:2], p[:2, None]).shape == (2, 2)
    with pytest.raises(ValueError, match="binomial only supports floating-point dtypes for count"):
        torch.binomial(torch.tensor([2], device="tpu"), p[:1])
    with pytest.raises(RuntimeError, match="Found dtype"):
        torch.binomial(n, p.double())


def test_seed_decides():
    a = torch.linspace(0.1, 40, 300, device="tpu")
    for draw in (
        lambda: torch._standard_gamma(a),
        lambda: torch._sample_dirichlet(a.view(-1, 3)),
        lambda: torch.poisson(a),
        lambda: torch.binomial(a.round(), a / 41),
    ):
        torch.manual_seed(1)
        first, fresh, behind = draw().cpu(), draw().cpu(), torch.rand(300, device="tpu").cpu()
        torch.manual_seed(1)
        again, _, behind_again = draw().cpu(), draw().cpu(), torch.rand(300, device="tpu").cpu()
        torch.manual_seed(2)
        other = draw().cpu()
        assert torch.equal(first, again)
        assert torch.equal(behind, behind_again)
        assert not torch.equal(first, fresh)
        assert not torch.equal(first, other)


def assert_as_cpu(function, *arguments):
    """The CPU's result, or its result in double precision where its own is not that of more digits."""
    got = function(*(a.to("tpu") for a in arguments)).cpu()
    wanted = function(*arguments)
    exact = function(*(a.double() for a in arguments)).to(wanted.dtype)
    near = torch.isclose(got, wanted, rtol=0, atol=0, equal_nan=True)
    for judge in (wanted, exact):
        tolerance = {"rtol": 1.3e-6, "atol": 1e-5} if wanted.dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-7}
        near |= torch.isclose(got, judge, equal_nan=True, **tolerance)
    bad = [tuple(a[~near][:5].tolist() for a in (*arguments, got, wanted, exact))]
    assert near.all(), bad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma_gradient(dtype):
    alpha = torch.logspace(-3, 4, 141, dtype=dtype)
    ratio = torch.logspace(-3, 1, 101, dtype=dtype)
    alpha, ratio = (t.flatten() for t in torch.meshgrid(alpha, ratio, indexing="ij"))
    assert_as_cpu(torch._standard_gamma_grad, alpha, alpha * ratio)
    odd_alpha = torch.tensor([2, -1, 0, math.nan, math.inf, 2, 2, 2, math.nan], dtype=dtype)
    odd_x = torch.tensor([0, 1, 1, 1, 1, math.nan, math.inf, -1, 0.5], dtype=dtype)
    assert_as_cpu(torch._standard_gamma_grad, odd_alpha, odd_x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dirichlet_gradient(dtype):
    alpha, beta = torch.logspace(-2, 3, 41, dtype=dtype), torch.logspace(-2, 3, 40, dtype=dtype)
    x = torch.cat([torch.logspace(-6, -1, 20, dtype=dtype), torch.linspace(0.11, 0.999, 40, dtype=dtype)])
    x, alpha, beta = (t.flatten() for t in torch.meshgrid(x, alpha, beta, indexing="ij"))
    # Where draws are: elsewhere the approximations are infinite or differences of huge numbers.
    mean, deviation = alpha / (alpha + beta), (alpha * beta / (alpha + beta + 1)).sqrt() / (alpha + beta)
    likely = (x - mean).abs() < 6 * deviation
    x, alpha, beta = x[likely], alpha[likely], beta[likely]
    assert_as_cpu(torch._dirichlet_grad, x, alpha, alpha + beta)


CASES = {
    "gamma": (lambda a, b: D.Gamma(a, b), 2),
    "beta": (lambda a, b: D.Beta(a, b), 2),
    "dirichlet": (lambda a: D.Dirichlet(a), 1),
    "studentT": (lambda df, loc, scale: D.StudentT(df, loc, scale), 3),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_rsample_gradients(name, monkeypatch):
    """Gradients through a draw are those that the CPU has for the same draw."""
    make, count = CASES[name]
    torch.manual_seed(2)
    cpu = [(torch.rand(50, 3) * 5 + 0.3).requires_grad_() for _ in range(count)]
    tpu = [t.detach().to("tpu").requires_grad_() for t in cpu]
    drawn = []

    def keep(f):
        def call(*args, **kwargs):
            out = f(*args, **kwargs)
            drawn.append(out.detach().cpu())
            return out

        return call

    class Given(torch.autograd.Function):
        @staticmethod
        def forward(ctx, alpha):
            out = drawn.pop(0)
            ctx.save_for_backward(alpha, out)
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad * torch._standard_gamma_grad(*ctx.saved_tensors)

    with monkeypatch.context() as m:
        m.setattr(D.gamma, "_standard_gamma", keep(D.gamma._standard_gamma))
        m.setattr(D.studentT, "_standard_normal", keep(D.studentT._standard_normal))
        m.setattr(torch, "_sample_dirichlet", keep(torch._sample_dirichlet))
        got = make(*tpu).rsample()
    weights = torch.rand(got.shape)
    got_grads = torch.autograd.grad((got * weights.to("tpu")).sum(), tpu)
    with monkeypatch.context() as m:
        m.setattr(D.gamma, "_standard_gamma", lambda alpha, generator=None: Given.apply(alpha))
        m.setattr(D.studentT, "_standard_normal", lambda *args, **kwargs: drawn.pop(0))
        m.setattr(torch, "_sample_dirichlet", lambda alpha: drawn.pop(0))
        wanted = make(*cpu).rsample()
    grads = torch.autograd.grad((wanted * weights).sum(), cpu)
    torch.testing.assert_close(got.cpu(), wanted)
    for mine, theirs in zip(got_grads, grads, strict=True):
        torch.testing.assert_close(mine.cpu(), theirs)
