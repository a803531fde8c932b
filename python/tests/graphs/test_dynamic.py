"""torch.compile with sizes that differ from call to call: a program for each power of two, no padding in results."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_tpu import _buckets, cache
from torch_tpu._ragged import Sizes, Unsupported, dim_of, regroup

from .conftest import programs


@pytest.fixture(autouse=True)
def padding_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_buckets, "PADDING", math.nan)


def moved(value: Any, device: str) -> Any:
    return torch.utils._pytree.tree_map_only(Tensor, lambda t: t.to(device), value)


def graphs_of(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Padded.of says of each graph from now on: None for one that is not padded."""
    seen, original = [], _buckets.Padded.of

    def of(module: torch.fx.GraphModule) -> Any:
        seen.append(original(module))
        return seen[-1]

    monkeypatch.setattr(_buckets.Padded, "of", staticmethod(of))
    return seen


def ran(call: Callable[[], object]) -> set[str]:
    return set(programs(call))


LENGTHS = (4, 3, 8, 13)

CASES: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, w: (x @ w).softmax(0),
    "log_softmax": lambda x, w: (x @ w).log_softmax(0),
    "sum": lambda x, w: (x.sum(), x.sum(0), x.sum(1), x.sum(0, keepdim=True) + x),
    "mean": lambda x, w: (x.mean(), x.mean(0), x.mean(-1), x.bfloat16().mean(0)),
    "extremes": lambda x, w: (x.amax(0), x.amin(0), x.max(0), x.min(0), x.max(), x.argmax(0), x.argmin(0)),
    "any and all": lambda x, w: ((x > 2).any(0), (x > -9).all(0), (x > 0).any(), (x > 0).sum(0)),
    "prod and logsumexp": lambda x, w: (x.prod(0), x.logsumexp(0), x.logsumexp(1)),
    "cumsum": lambda x, w: (x.cumsum(0), x.flip(1).cumsum(1)),
    "contraction": lambda x, w: (x.t() @ x, x @ x.t(), torch.einsum("ti,tj->ij", x, x.exp())),
    "addmm": lambda x, w: torch.addmm(w[0], x, w) + torch.addmm(w, x.t(), x)[0],
    "merged": lambda x, w: (x.view(1, -1, 8) @ w).view(-1).sum(),
    "merged inside": lambda x, w: (x[None] * w[:, None, :]).view(-1, 8).sum(0),
    "merged contraction": lambda x, w: (y := (x[None] * w[:, None, :]).reshape(-1, 8)).t() @ (y + 1),
    "length as a number": lambda x, w: x / x.shape[0] + (x.shape[0] - 1) * 2,
    "arange": lambda x, w: x + torch.arange(x.shape[0], device=x.device)[:, None],
    "arange from": lambda x, w: torch.arange(3, x.shape[0] + 3, device=x.device)[-1] + x,
    "new": lambda x, w: (
        torch.full((x.shape[0], 2), 7.0, device=x.device),
        torch.zeros_like(x),
        x.new_ones(x.shape[0]),
        torch.full((2, x.shape[0]), x.shape[0], dtype=torch.float32, device=x.device),
    ),
    "last": lambda x, w: (x[-1], x[0], x[:, -1], x[-2:]),
    "slices": lambda x, w: (x[1:], x[:-1], x[:-1].sum(0), x[1:].mean(0), x[:1], x[:, 2:5], x[:, ::2]),
    "cat": lambda x, w: (
        torch.cat([x, w]),
        torch.cat([w, x, x]).sum(0),
        torch.cat([x, x], 1),
        torch.cat([w, x]).mean(0),
    ),
    "stack": lambda x, w: (torch.stack([x, x * 2]), torch.stack([x, x], 1).sum(1)),
    "pad": lambda x, w: F.pad(x, (1, 2)).sum(0),
    "where": lambda x, w: torch.where(x > 0, x, w[0]).sum(0),
    "tril": lambda x, w: torch.ones(x.shape[0], x.shape[0], device=x.device).tril() @ x,
    "layer_norm": lambda x, w: F.layer_norm(x, (8,), w[0], w[1]).sum(0),
    "embedding": lambda x, w: F.embedding(torch.arange(x.shape[0], device=x.device) % 8, w).sum(0),
    "index": lambda x, w: (w[x.argmax(1)].sum(0), w.index_select(0, x.argmax(1)), w[:, x.argmax(1)].mean(1)),
    "positions": lambda x, w: w.repeat(2, 1)[torch.arange(x.shape[0], device=x.device)],
    "buffer": lambda x, w: w.repeat(2, 1)[: x.shape[0]] * x,
    "buffer in front and behind": lambda x, w: (w.repeat(4, 1)[x.shape[0] :].sum(0), w.repeat(4, 1)[x.shape[0]]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], (x @ w)[None], x[None], is_causal=True),
    "integers": lambda x, w: (x.int() // (x.int().abs() + 1)).sum(0),
    "transposed": lambda x, w: (x.t(), x.t().contiguous(), x[:, :, None].expand(-1, -1, 3).permute(2, 0, 1).sum(1)),
    "nan and inf": lambda x, w: ((x / 0).sum(0), (x - math.inf).amax(0), (x * math.nan).sum(0)),
}


@pytest.mark.parametrize("name", CASES)
def test_padding_never_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_of(monkeypatch)
    torch.manual_seed(0)
    w = torch.randn(8, 8)
    f = torch.compile(CASES[name], backend="tpu", fullgraph=True)
    here = w.to("tpu")
    for n in LENGTHS:
        x = torch.randn(n, 8)
        given = x.to("tpu")
        torch._dynamo.mark_dynamic(given, 0)
        got, wanted = f(given, here), CASES[name](x, w)
        for one, other in zip(*map(torch.utils._pytree.tree_leaves, (got, wanted)), strict=True):
            assert one.stride() == other.stride() or one.is_contiguous()
        torch.testing.assert_close(moved(got, "cpu"), wanted, equal_nan=name == "nan and inf")
    assert graphs == [g for g in graphs if g is not None] and len(graphs) == 1


@pytest.mark.parametrize("how", [{"dynamic": True}, {}])
def test_a_program_for_each_power_of_two(how: dict) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).softmax(0).sum(0) + x.shape[0]

    g, w = torch.compile(f, backend="tpu", **how), torch.randn(4, 4)
    here = w.to("tpu")

    def run() -> None:
        for n in range(1, 70):
            x = torch.randn(n, 4)
            torch.testing.assert_close(g(x.to("tpu"), here).cpu(), f(x, w))

    # 1 and, before torch sees that sizes differ, 2 are programs of their own; then 2, 4, ... 128.
    assert len(ran(run)) <= 9
    before = cache.stats()["misses"]
    run()
    assert cache.stats()["misses"] == before


class Small(nn.Module):
    """A causal language model on a growing prompt."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(32, 16), nn.Embedding(70, 16)
        self.qkv, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)
        self.register_buffer("mask", torch.ones(70, 70, dtype=torch.bool).tril())

    def forward(self, ids: Tensor) -> Tensor:
        b, t = ids.shape
        x = self.tokens(ids) + self.positions(torch.arange(t, device=ids.device))
        q, k, v = (a.view(b, t, 2, 8).transpose(1, 2) for a in self.qkv(self.norm(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        w = (q @ k.transpose(-1, -2)).masked_fill(~self.mask[:t, :t], -math.inf).softmax(-1)
        x = x + (y + w @ v).transpose(1, 2).reshape(b, t, 16)
        return (x @ self.tokens.weight.t())[:, -1]


@pytest.mark.parametrize("how", [{"dynamic": True}, {}])
def test_a_decode_loop(how: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    graphs = graphs_of(monkeypatch)
    model = Small().eval()
    fast = torch.compile(Small().eval(), backend="tpu", **how)
    fast.load_state_dict({f"_orig_mod.{k}": v for k, v in model.state_dict().items()})
    fast.to("tpu")

    def decode() -> None:
        ids = torch.randint(32, (2, 1))
        with torch.no_grad():
            for _ in range(66):
                wanted = model(ids)
                torch.testing.assert_close(fast(ids.to("tpu")).cpu(), wanted)
                ids = torch.cat([ids, wanted.argmax(-1, keepdim=True)], 1)

    assert len(ran(decode)) <= 9
    assert None not in graphs[-1:]


def test_a_position_that_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_of(monkeypatch)

    def f(cached: Tensor, k: Tensor, position: int) -> tuple[Tensor, Tensor]:
        cached.mul_(k[:, None])
        return cached[:, : position + 1].sum(1) / position, cached[:, position:].amax(1)

    g = torch.compile(f, backend="tpu", fullgraph=True)
    on_cpu = torch.randn(2, 40, 4)
    here = on_cpu.to("tpu")

    def run() -> None:
        for position in range(2, 38):
            k = torch.rand(2, 4) + 0.5
            torch.testing.assert_close(moved(g(here, k.to("tpu"), position), "cpu"), f(on_cpu, k, position))
            torch.testing.assert_close(here.cpu(), on_cpu)

    assert len(ran(run)) <= 9
    assert graphs[-1] is not None


def test_a_growing_cache_and_several_sizes() -> None:
    def f(cached: Tensor, k: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        grown = torch.cat([cached, k], 1)
        return grown, (q @ grown.transpose(1, 2)).softmax(-1) @ grown

    g = torch.compile(f, backend="tpu", dynamic=True)
    on_cpu = torch.randn(3, 2, 4)
    here = on_cpu.to("tpu")
    for n in (1, 2, 3, 1, 6, 5):
        k, q = torch.randn(3, n, 4), torch.randn(3, n + 1, 4)
        here, got = g(here, k.to("tpu"), q.to("tpu"))
        on_cpu, wanted = f(on_cpu, k, q)
        assert here.stride() == on_cpu.stride()
        torch.testing.assert_close((here.cpu(), got.cpu()), (on_cpu, wanted))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.dropout(x, 0.5).sum() * 0 + x.sum(),
        lambda x, w: x.sort(0).values,
        lambda x, w: x[x.sum(1).argsort()],
        lambda x, w: F.layer_norm(x.t(), (x.shape[0],)),
        lambda x, w: x.view(-1, 2, 8).sum(0) if x.shape[0] % 2 == 0 else x.sum(0),
        lambda x, w: x.mul_(2).sum(0),
        lambda x, w: x.softmax(0).cpu() * 2,
    ],
    ids=["random", "sort", "index", "norm", "cut", "changed", "elsewhere"],
)
def test_what_cannot_be_padded_is_right_all_the_same(function: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = graphs_of(monkeypatch)
    f, w = torch.compile(function, backend="tpu"), torch.randn(8, 8)
    for n in (4, 6, 10, 12):
        x = torch.randn(n, 8)
        torch.testing.assert_close(f(x.to("tpu"), w.to("tpu")).cpu(), function(x.clone(), w))
    assert graphs[-1] is None


def test_bad_indices_raise_and_padding_is_none() -> None:
    f = torch.compile(lambda table, at: F.embedding(at, table), backend="tpu")
    table = torch.randn(5, 3, device="tpu")
    for n in (2, 3, 5, 6):
        at = torch.arange(n, device="tpu") % 5
        torch.testing.assert_close(f(table, at), F.embedding(at, table))
        with pytest.raises(IndexError):
            f(table, at + 5)


def test_a_graph_without_tensors_among_its_inputs() -> None:
    f = torch.compile(lambda n: torch.arange(n, device="tpu").sum(), backend="tpu", dynamic=True)
    assert [f(n).item() for n in (3, 4, 9)] == [3, 6, 36]


def test_training_with_other_lengths() -> None:
    torch.manual_seed(0)
    w = torch.randn(8, 8)
    here = w.to("tpu").requires_grad_()
    w.requires_grad_()

    def f(x: Tensor, w: Tensor) -> Tensor:
        return (x @ w).softmax(0).square().mean()

    g = torch.compile(f, backend="tpu")
    for n in (3, 4, 7, 11):
        x = torch.randn(n, 8)
        (wanted,), (got,) = torch.autograd.grad(f(x, w), w), torch.autograd.grad(g(x.to("tpu"), here), here)
        torch.testing.assert_close(got.cpu(), wanted)


def test_sizes_are_bounds() -> None:
    import sympy

    a, b = sympy.symbols("a b", integer=True, positive=True)
    sizes = Sizes({a: 8, b: 16}, {}, torch.device("cpu"))
    # The largest value for a up to 8 and b up to 16, and not the value at 8 and 16.
    assert sizes.bound(40 - a) == 40
    assert sizes.bound(2 * a * b + 1 - b) == 257
    assert sizes.bound(a**2 - 3) == 61
    with pytest.raises(Unsupported):
        sizes.bound(1 / a)
    assert regroup([dim_of(4), dim_of(a), dim_of(6)], [4 * a, 2, 3]) == ((4, a), (2,), (3,))
    assert regroup([(sympy.Integer(4), a), dim_of(6)], [2, 2, a, 6]) == ((2,), (2,), (a,), (6,))
    for sizes_to in ([a, 4, 6], [24, a]):
        with pytest.raises(Unsupported):
            regroup([dim_of(4), dim_of(a), dim_of(6)], sizes_to)
