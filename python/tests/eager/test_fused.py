"""Ops that are put off: the same results, at last as one program."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch_tpu import _core


@pytest.fixture(autouse=True)
def fused() -> Iterator[None]:
    with torch.tpu.eager_mode("fused"):
        yield


def ran() -> int:
    return _core.fused_stats()["ran"]


def repeat(step: Callable[[], object], times: int = 5) -> list[object]:
    """Results of a step, with time to compile its program in between."""
    out = []
    for _ in range(times):
        out.append(step())
        assert _core.wait_for_fused(120)
    return out


def test_the_mode_is_told() -> None:
    assert torch.tpu.get_eager_mode() == "fused"
    with pytest.raises(ValueError, match="no eager mode"):
        torch.tpu.eager_mode("lazy")


def test_a_chain_becomes_one_program() -> None:
    x = torch.linspace(0, 1, 64, device="tpu")

    def step() -> Tensor:
        y = x
        for _ in range(20):
            y = (y * 1.01 + 0.1).sin()
        return y.cpu()

    before = ran()
    _core.record_programs(True)
    try:
        first, *others = repeat(step)
        programs = _core.take_programs()
    finally:
        _core.record_programs(False)
    assert ran() - before >= 2
    assert any(p.count("stablehlo.sine") == 20 for p in programs)
    for other in others:
        torch.testing.assert_close(other, first)


def test_views_and_writes_through_them() -> None:
    def step(device: str) -> list[Tensor]:
        x = torch.arange(24.0, device=device).reshape(4, 6)
        row, column, corner = x[1], x[:, 2], x[2:, 3:]
        row.mul_(2)
        column += row[2].clone()
        corner.t().copy_(torch.ones(3, 2, device=device))
        x.view(-1)[5::7] = -1
        y = x.t().contiguous()
        y[0] = corner.sum()
        return [t.cpu() for t in (x, y, row, column, corner)]

    wanted = step("cpu")
    for got in repeat(lambda: step("tpu")):
        torch.testing.assert_close(got, wanted)


def test_an_error_is_raised_by_its_own_line() -> None:
    x = torch.ones(3, device="tpu")
    y = x + 1
    with pytest.raises(RuntimeError, match="size of tensor"):
        y + torch.ones(4, device="tpu")
    with pytest.raises(IndexError):
        y[torch.tensor([7], device="tpu")]
    assert (y * 2).tolist() == [4, 4, 4]


def test_what_is_not_run_yet_can_be_changed_from_outside() -> None:
    x = torch.ones(3, device="tpu")
    y = x * 2
    x.copy_(torch.tensor([5.0, 6.0, 7.0]))
    z = y + x
    y.resize_(6)
    assert z.tolist() == [7, 8, 9]
    assert y[:3].tolist() == [2, 2, 2]


def test_random_numbers_are_those_of_strict_mode() -> None:
    def step() -> list[Tensor]:
        torch.manual_seed(4)
        x = torch.rand(5, device="tpu")
        return [t.cpu() for t in (x, torch.randn(3, device="tpu") * x[:3], nn.functional.dropout(x))]

    with torch.tpu.eager_mode("strict"):
        wanted = step()
    for got in repeat(step):
        torch.testing.assert_close(got, wanted)


def test_training_follows_strict_mode_and_frees_what_it_drops() -> None:
    def train() -> tuple[list[float], list[int]]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to("tpu")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, y = torch.randn(32, 8).to("tpu"), torch.randint(4, (32,)).to("tpu")
        losses, held = [], []
        for _ in range(12):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            _core.wait_for_fused(120)
            held.append(torch.tpu.memory_allocated())
        return losses, held

    with torch.tpu.eager_mode("strict"):
        wanted, strict = train()
    before = ran()
    losses, held = train()
    assert ran() - before >= 9
    torch.testing.assert_close(losses, wanted, rtol=1e-5, atol=0)
    assert max(held[4:]) - min(held[4:]) == 0
    assert held[-1] - held[0] == strict[-1] - strict[0]


def test_a_decomposition_is_one_program() -> None:
    with torch.tpu.eager_mode("strict"):
        x = torch.ones(64, device="tpu")
        _core.record_programs(True)
        try:
            # No lowering of ours: torch knows it as random numbers, a comparison and products.
            got, kept = torch.ops.aten._fused_dropout(x, 0.25)
            programs = _core.take_programs()
        finally:
            _core.record_programs(False)
    assert torch.equal(got, kept.float() * 4)
    assert len(programs) == 1, programs
