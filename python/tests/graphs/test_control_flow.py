"""torch.cond, while_loop, scan, associative_scan and flex_attention: eager and compiled, both ways, as on CPU."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_tpu
from torch import Tensor
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import embedding
from torch.utils._pytree import tree_leaves

from .conftest import compiled, programs


def branches(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


def loop(x: Tensor) -> Any:
    start = torch.zeros((), dtype=torch.int64, device=x.device)
    return while_loop(lambda i, x: (i < 9) & (x.sum() < 50), lambda i, x: (i + 1, x * 1.5 + 1), (start, x))


def scanned(x: Tensor) -> Any:
    return scan(lambda carry, y: (carry * 0.5 + y, carry * 2 + y.sin()), torch.zeros_like(x[0]), x)


def product(x: Tensor) -> Tensor:
    return associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")


CASES = {
    "first branch": (branches, torch.rand(4, 4) + 0.1),
    "second branch": (branches, -torch.rand(4, 4) - 0.1),
    "while_loop": (loop, torch.rand(4, 4)),
    "scan": (scanned, torch.linspace(-1, 1, 24).view(6, 4)),
    "associative_scan": (product, torch.linspace(0.5, 1.5, 32).view(8, 4)),
}


@pytest.mark.parametrize("way", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_as_on_cpu_forward_and_backward(name: str, way: Callable) -> None:
    function, x = CASES[name]
    there, here = x.clone().requires_grad_(), x.to("tpu").requires_grad_()
    with torch.no_grad():
        torch.testing.assert_close([t.cpu() for t in tree_leaves(way(function)(here))], tree_leaves(function(there)))
    wanted = tree_leaves(function(there))
    wanted[-1].square().sum().backward()
    f = way(function)
    for _ in range(2):
        here.grad = None
        got = tree_leaves(f(here))
        torch.testing.assert_close([t.cpu() for t in got], wanted)
        got[-1].square().sum().backward()
        torch.testing.assert_close(here.grad.cpu(), there.grad)


def test_scans_are_part_of_the_program() -> None:
    for function in (scanned, product):
        f, x = compiled(function), torch.rand(6, 4, device="tpu")
        f(x)
        assert len(programs(lambda f=f, x=x: f(x))) == 1


def recurrent(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    def turn(carry: tuple[Tensor, Tensor], y: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        state, count = carry
        state = (state @ weight + y + bias).tanh()
        return (state, count + 1), state.sum(-1)

    (last, count), sums = scan(turn, (torch.zeros_like(x[0]), torch.zeros((), device=x.device)), x)
    return last * count, sums


@pytest.mark.parametrize("length", [1, 3, 5, 64])
def test_a_scan_is_a_loop_each_way(length: int) -> None:
    torch.manual_seed(0)
    there = [t.requires_grad_() for t in (torch.randn(length, 4, 8), torch.randn(8, 8) * 0.3, torch.randn(8))]
    here = [t.detach().to("tpu").requires_grad_() for t in there]
    f = compiled(recurrent)

    def step(function: Callable, arguments: list[Tensor]) -> list[Tensor]:
        last, sums = function(*arguments)
        return [last, sums, *torch.autograd.grad(last.sum() + sums.square().sum(), arguments)]

    wanted = step(recurrent, there)
    for _ in range(2):
        got = [t.cpu() for t in step(f, here)]
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    loops = [text for text in programs(lambda: step(f, here)) if "stablehlo.while" in text]
    assert len(loops) == (2 if length > 3 else 0)
    assert all(len(text) < 20_000 for text in loops), "the text does not grow with the length"


def test_a_scan_that_cannot_be_a_loop_is_unrolled() -> None:
    def looked_up(x: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        # Each index is checked, which no loop can report.
        return scan(lambda carry, i: (carry + embedding(i, table), carry.sum()), torch.zeros_like(table[0]), x)

    table = torch.randn(10, 4)
    f = compiled(looked_up)
    for rows in ([1, 5, 2, 9, 0], [3, 3, 3, 0, 1]):
        x = torch.tensor(rows)
        got = f(x.to("tpu"), table.to("tpu"))
        torch.testing.assert_close([t.cpu() for t in got], list(looked_up(x, table)))


def test_scans_in_a_step_and_ahead_of_time() -> None:
    x = torch.randn(6, 4)
    step = torch_tpu.compile_step(scanned)
    for k in range(4):
        got = step((x * k).to("tpu"))
        torch.testing.assert_close([t.cpu() for t in got], list(scanned(x * k)))
    assert sum("stablehlo.while" in text for text in programs(lambda: step(x.to("tpu")))) == 1
    made = torch_tpu.aot.compile(scanned, (x.to("tpu"),), topology="v6e:1x1")
    assert made.text.count("stablehlo.while") == 1


def test_a_while_loop_is_one_program_whatever_its_turns() -> None:
    def halved(x: Tensor, limit: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        start = torch.zeros((), dtype=torch.int64, device=x.device)
        # What is carried changes places.
        return while_loop(
            lambda i, a, b: (a.abs().max() > limit) & (i < 40),
            lambda i, a, b: (i + 1, b * 0.5, a * 0.75 + limit * 0),
            (start, x, x + 1),
        )

    f = compiled(halved)
    f(torch.ones(3, device="tpu"), torch.tensor(0.5, device="tpu"))
    before = torch_tpu.cache.stats()["misses"]
    for size, limit in ((1.0, 0.5), (100.0, 1.0), (0.1, 5.0), (8.0, 0.0)):
        x, bound = torch.linspace(-size, size, 3), torch.tensor(limit)
        got: list[Tensor] = []
        ran = programs(lambda x=x, bound=bound, got=got: got.extend(f(x.to("tpu"), bound.to("tpu"))))
        assert len(ran) == 1 and "stablehlo.while" in ran[0]
        torch.testing.assert_close([t.cpu() for t in got], list(halved(x, bound)))
    assert torch_tpu.cache.stats()["misses"] == before, "other numbers of turns compile nothing"


def by_hand(q: Tensor, k: Tensor, v: Tensor, bias: Callable, allowed: Callable | None) -> Tensor:
    at = [
        torch.arange(n).view([-1 if i == d else 1 for i in range(4)]) for d, n in enumerate((*q.shape[:3], k.shape[2]))
    ]
    scores = bias(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), *at)
    if allowed is not None:
        scores = scores.masked_fill(~allowed(*at), -math.inf)
    return scores.softmax(-1) @ v


def slope(score: Tensor, _b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score + (j - i) * 0.1 * (h + 1)


def causal(_b: Tensor, _h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


@pytest.mark.parametrize("way", [lambda f: f, compiled], ids=["eager", "compiled"])
@pytest.mark.parametrize("allowed", [None, causal], ids=["all", "causal"])
def test_flex_attention(way: Callable, allowed: Callable | None) -> None:
    # CPU has no gradients of flex_attention: it is held against its formula.
    torch.manual_seed(0)
    there = [torch.randn(2, 3, 32, 8, requires_grad=True) for _ in range(3)]
    here = [t.detach().to("tpu").requires_grad_() for t in there]
    wanted = by_hand(*there, slope, allowed)
    wanted.square().sum().backward()
    mask = None if allowed is None else create_block_mask(allowed, None, None, 32, 32, device="tpu", BLOCK_SIZE=16)
    f = way(lambda q, k, v: flex_attention(q, k, v, score_mod=slope, block_mask=mask))
    with torch.no_grad():
        torch.testing.assert_close(f(*here).cpu(), wanted.detach())
    for _ in range(2):
        for t in here:
            t.grad = None
        got = f(*here)
        torch.testing.assert_close(got.cpu(), wanted.detach())
        got.square().sum().backward()
        torch.testing.assert_close([t.grad.cpu() for t in here], [t.grad for t in there], rtol=1e-4, atol=1e-5)


def test_flex_attention_with_groups_and_under_autocast() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, 16, 8), torch.randn(1, 2, 16, 8), torch.randn(1, 2, 16, 8)
    wanted = flex_attention(q, k, v, enable_gqa=True)
    here = [t.to("tpu") for t in (q, k, v)]
    f = compiled(lambda q, k, v: flex_attention(q, k, v, enable_gqa=True))
    torch.testing.assert_close(f(*here).cpu(), wanted)
    with torch.autocast("tpu"):
        for g in (f, lambda q, k, v: flex_attention(q, k, v, enable_gqa=True)):
            out = g(*here)
            assert out.dtype == torch.bfloat16
            torch.testing.assert_close(out.cpu().float(), wanted, rtol=2e-2, atol=2e-2)


def test_flex_attention_refuses_what_it_did() -> None:
    q = torch.randn(1, 1, 16, 8, device="meta")
    with pytest.raises(ValueError, match="only supported"):
        flex_attention(q, q, q)
