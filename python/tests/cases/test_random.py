"""Generators: seeds, states and the same draw again; never the CPU's numbers, so the answers are relations."""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from cases.util import runtime, same


@same
def test_a_seed_repeats_every_draw(dev):
    def draw():
        x = torch.empty(7, device=dev)
        return [
            torch.rand(5, device=dev),
            torch.randn(3, 2, device=dev),
            torch.randint(9, (6,), device=dev),
            torch.randperm(8, device=dev),
            x.uniform_(2, 3).clone(),
            x.normal_(1, 2).clone(),
            x.exponential_().clone(),
            x.bernoulli_(0.4).clone(),
            torch.bernoulli(torch.full((6,), 0.5, device=dev)),
            torch.multinomial(torch.ones(5, device=dev), 3),
            F.dropout(torch.ones(50, device=dev)),
        ]

    torch.manual_seed(3)
    first, second = draw(), draw()
    torch.manual_seed(3)
    again = draw()
    return (
        [torch.equal(a, b) for a, b in zip(first, again, strict=True)],
        [torch.equal(first[k], second[k]) for k in (0, 1, 4, 10)],
        [(t.dtype, t.shape) for t in first],
    )


@same
def test_two_draws_differ(dev):
    x, y = torch.rand(100, device=dev), torch.rand(100, device=dev)
    a, b = torch.rand(1, device=dev), torch.rand(2, device=dev)
    parts = [torch.rand_like(x) for _ in range(3)]
    return torch.equal(x, y), bool(a[0] == b[0]), torch.equal(parts[0], parts[2]), len(torch.cat([x, y]).unique()) > 190


@same
def test_a_generator_of_its_own(dev):
    g, h = torch.Generator(device=dev).manual_seed(5), torch.Generator(device=dev).manual_seed(5)
    state = runtime(dev).get_rng_state()
    a, b = torch.rand(4, generator=g, device=dev), torch.rand(4, generator=h, device=dev)
    kept = g.get_state()
    c = torch.randn(3, generator=g, device=dev)
    g.set_state(kept)
    d = torch.randn(3, generator=g, device=dev)
    return (
        torch.equal(a, b),
        torch.equal(c, d),
        torch.equal(state, runtime(dev).get_rng_state()),
        g.initial_seed(),
        g.device.type == dev,
        torch.equal(torch.randperm(9, generator=g, device=dev).sort()[0].cpu(), torch.arange(9)),
    )


@same
def test_fork_and_states(dev):
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=[] if dev == "cpu" else [0], device_type="tpu"):
        torch.manual_seed(9)
        inner = torch.rand(3, device=dev)
    after = torch.rand(3, device=dev)
    torch.manual_seed(1)
    expected = torch.rand(3, device=dev)
    torch.manual_seed(9)
    return torch.equal(after, expected), torch.equal(inner, torch.rand(3, device=dev)), torch.initial_seed()


@same
def test_ranges_and_moments(dev):
    u, n = torch.empty(4000, device=dev).uniform_(-2, 4), torch.empty(4000, device=dev).normal_(3, 0.5)
    k, e = torch.randint(-3, 4, (4000,), device=dev), torch.empty(4000, device=dev).exponential_(2.0)
    p = torch.rand(4000, device=dev, dtype=torch.bfloat16)
    return (
        bool((u >= -2).all() and (u < 4).all()),
        abs(u.mean().item() - 1) < 0.2,
        abs(n.mean().item() - 3) < 0.05,
        abs(n.std().item() - 0.5) < 0.05,
        k.unique(),
        bool((e > 0).all()),
        abs(e.mean().item() - 0.5) < 0.05,
        bool((p < 1).all()),
        abs(p.float().mean().item() - 0.5) < 0.05,
        torch.randint(0, 2**40, (50,), device=dev).max().item() > 2**32,
        torch.randn(100, dtype=torch.float64, device=dev).float().double().ne(0).all(),
    )


@same
def test_dropout_and_checkpoint_repeat_the_mask(dev):
    x = torch.ones(256, device=dev, requires_grad=True)
    y = checkpoint(lambda t: F.dropout(t * 2, 0.5), x, use_reentrant=False)
    y.sum().backward()
    kept = (y != 0).float().mean().item()
    full, none = F.dropout(x, 1.0), F.dropout(x, 0.0)
    return (
        torch.equal(y.detach(), x.grad),
        0.3 < kept < 0.7,
        full.detach(),
        none.detach(),
        F.dropout(x, 0.5, training=False).detach(),
    )


@same
def test_multinomial(dev):
    p = torch.tensor([0.0, 3.0, 0.0, 1.0], device=dev)
    many = torch.multinomial(p, 2000, replacement=True)
    both = torch.multinomial(p, 2)
    rows = torch.multinomial(p.repeat(3, 1), 1)
    share = (many == 1).float().mean().item()
    return many.unique(), both.sort()[0], rows.shape, 0.65 < share < 0.85


@same
def test_seeding_layers(dev):
    torch.manual_seed(2)
    a = torch.nn.Linear(3, 2, device=dev)
    torch.manual_seed(2)
    b = torch.nn.Linear(3, 2, device=dev)
    c = torch.nn.init.trunc_normal_(torch.empty(100, device=dev), std=1, a=-1, b=1)
    q = torch.nn.init.orthogonal_(torch.empty(3, 3, device=dev))
    return (
        torch.equal(a.weight, b.weight),
        bool(c.abs().max() <= 1),
        torch.allclose(q @ q.t(), torch.eye(3, device=dev), atol=1e-5),
        bool((a.weight != 0).all()),
    )
