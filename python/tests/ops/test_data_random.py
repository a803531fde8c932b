"""Random numbers: reproducible, of the right distribution, and the documented bits."""

import math

import pytest
import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
MANY = 40_000


def drawn(f, seed=5):
    torch.manual_seed(seed)
    return f()


def moments(x, mean, std, slack=4.0):
    x = x.cpu().double().flatten()
    assert abs(x.mean().item() - mean) < slack * std / math.sqrt(x.numel()) + 1e-3 * std
    assert abs(x.std().item() - std) < 0.05 * std


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_and_normal(dtype):
    u = torch.empty(MANY, dtype=dtype, device="tpu").uniform_(-1, 3)
    assert u.dtype == dtype
    assert u.min() >= -1
    assert u.max() <= 3
    moments(u, 1, 4 / math.sqrt(12))
    n = torch.empty(MANY, dtype=dtype, device="tpu").normal_(2, 0.5)
    moments(n, 2, 0.5)
    tail = ((n.cpu().double() - 2).abs() > 1).double().mean().item()
    assert 0.03 < tail < 0.06


def test_seed_decides():
    makers = [
        lambda: torch.rand(100, device="tpu"),
        lambda: torch.randn(100, device="tpu"),
        lambda: torch.randint(0, 1000, (100,), device="tpu"),
        lambda: torch.randperm(100, device="tpu"),
        lambda: torch.rand(100, device="tpu") < 0.5,
    ]
    for make in makers:
        first, again, other = drawn(make), drawn(make), drawn(make, 6)
        assert torch.equal(first.cpu(), again.cpu())
        assert not torch.equal(first.cpu(), other.cpu())
    torch.manual_seed(1)
    assert not torch.equal(torch.rand(9, device="tpu").cpu(), torch.rand(9, device="tpu").cpu())


def test_uniform_numbers_are_whole_multiples():
    u = torch.rand(1000, device="tpu").cpu().double() * 2**24
    assert torch.equal(u, u.round())
    assert (u % 2).sum() > 0
    u = torch.rand(1000, device="tpu", dtype=torch.bfloat16).cpu().double() * 2**8
    assert torch.equal(u, u.round())
    assert u.max() < 2**8


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8, torch.float32, torch.bool])
def test_random(dtype):
    top = 2 if dtype == torch.bool else 100
    x = torch.empty(MANY, dtype=dtype, device="tpu").random_(0, top).cpu().double()
    assert x.min() == 0
    assert x.max() == top - 1
    moments(x, (top - 1) / 2, math.sqrt((top**2 - 1) / 12))
    x = torch.empty(MANY, dtype=dtype, device="tpu").random_().cpu()
    assert x.double().min() >= 0
    assert x.unique().numel() > (1 if dtype == torch.bool else 100)
    if dtype.is_signed and not dtype.is_floating_point:
        x = torch.empty(MANY, dtype=dtype, device="tpu").random_(-5, 6).cpu()
        assert x.min() == -5
        assert x.max() == 5


def test_wide_ranges():
    x = torch.randint(-(2**62), 2**62, (MANY,), device="tpu").cpu()
    assert x.min() < -(2**61)
    assert x.max() > 2**61
    x = torch.empty(MANY, dtype=torch.int64, device="tpu").random_(-(2**63), None).cpu()
    assert (x < 0).double().mean().sub(0.5).abs() < 0.02


@pytest.mark.parametrize("p", [0.0, 0.2, 0.9, 1.0])
def test_bernoulli(p):
    for dtype in (torch.float32, torch.bool, torch.int64, torch.bfloat16):
        x = torch.empty(MANY, dtype=dtype, device="tpu").bernoulli_(p).cpu().double()
        assert set(x.unique().tolist()) <= {0.0, 1.0}
        assert abs(x.mean().item() - p) < 0.01
    x = torch.bernoulli(torch.full((MANY,), p, device="tpu"))
    assert abs(x.cpu().mean().item() - p) < 0.01
    x = torch.empty(MANY, device="tpu").bernoulli_(torch.full((MANY,), p, dtype=torch.float64, device="tpu"))
    assert abs(x.cpu().mean().item() - p) < 0.01


def test_permutations():
    for n in (0, 1, 2, 1000):
        x = torch.randperm(n, device="tpu").cpu()
        assert torch.equal(x.sort().values, torch.arange(n))
    firsts = torch.stack([torch.randperm(4, device="tpu") for _ in range(200)]).cpu()
    assert firsts.double().mean(0).sub(1.5).abs().max() < 0.4


def test_multinomial():
    weights = torch.tensor([1.0, 0.0, 3.0, 4.0], device="tpu")
    x = torch.multinomial(weights, MANY, replacement=True).cpu()
    shares = torch.bincount(x, minlength=4).double() / MANY
    torch.testing.assert_close(shares, torch.tensor([0.125, 0, 0.375, 0.5]).double(), atol=0.01, rtol=0)
    rows = weights.expand(2000, 4)
    x = torch.multinomial(rows, 3).cpu()
    assert torch.equal(x.sort(1).values, torch.tensor([0, 2, 3]).expand(2000, 3))
    shares = torch.bincount(x[:, 0], minlength=4).double() / 2000
    torch.testing.assert_close(shares, torch.tensor([0.125, 0, 0.375, 0.5]).double(), atol=0.04, rtol=0)
    with pytest.raises(RuntimeError, match="probability tensor contains either"):
        torch.multinomial(-weights, 1).cpu()
    with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
        torch.multinomial(weights * 0, 1).cpu()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_other_distributions(dtype):
    def empty():
        return torch.empty(MANY, dtype=dtype, device="tpu")

    x = empty().exponential_(2.0)
    assert x.min() > 0
    moments(x, 0.5, 0.5)
    x = empty().geometric_(0.25).cpu().double()
    assert x.min() == 1
    assert torch.equal(x, x.round())
    moments(x, 4, math.sqrt(12))
    moments(empty().log_normal_(0.5, 0.25).log(), 0.5, 0.25)
    x = empty().cauchy_(1.0, 2.0).cpu().double()
    assert abs(x.median().item() - 1) < 0.1
    assert abs((x - 1).abs().median().item() - 2) < 0.1


def test_normal_of_tensors():
    mean, std = torch.arange(3.0, device="tpu"), torch.tensor([0.1, 0.2, 0.3], device="tpu")
    x = torch.normal(mean.expand(MANY, 3), std.expand(MANY, 3))
    for k in range(3):
        moments(x[:, k], k, 0.1 * (k + 1))
    moments(torch.normal(mean.expand(MANY, 3), 0.5)[:, 2], 2, 0.5)
    moments(torch.normal(1.0, std.expand(MANY, 3))[:, 0], 1, 0.1)
    moments(torch.normal(1.0, 2.0, (MANY,), device="tpu"), 1, 2)
    with pytest.raises(RuntimeError, match=r"normal expects all elements of std >= 0\.0"):
        torch.normal(mean, -std).cpu()
