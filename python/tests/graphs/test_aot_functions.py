"""torch_tpu.aot: functions, modules and steps through the real v6e compiler, with nothing computed."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch_tpu
from torch import Tensor, nn
from torch.nn import functional as F

from .conftest import programs


def make_step(device: str = "tpu") -> tuple[nn.Module, torch.optim.Optimizer, Callable]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 32), nn.Flatten(), nn.Linear(128, 50)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, step


def test_a_module_on_meta_costs_what_the_compiler_says() -> None:
    model = nn.Linear(4096, 1024, device="meta", dtype=torch.bfloat16)
    before = torch.tpu.memory_allocated()
    made = torch_tpu.aot.compile(model, (torch.empty(256, 4096, device="meta", dtype=torch.bfloat16),))
    assert torch.tpu.memory_allocated() == before
    assert made.topology == "v6e:1x1"
    assert made.report["cost"]["flops"] == pytest.approx(2 * 256 * 4096 * 1024, rel=0.01)
    weights = (4096 * 1024 + 1024 + 256 * 4096) * 2
    assert made.report["memory"]["argument_bytes"] == pytest.approx(weights, rel=0.01)
    assert made.peak_hbm_bytes >= weights
    assert "estimated cycles" in str(made)


def test_a_step_has_its_states_as_inputs_and_leaves_nothing_behind(tmp_path: Path) -> None:
    model, optimizer, step = make_step()
    weights = [p.detach().cpu() for p in model.parameters()]
    batch = (torch.zeros(8, 4, dtype=torch.long), torch.zeros(8, dtype=torch.long))
    made = torch_tpu.aot.compile(torch_tpu.compile_step(step), batch)
    size = sum(p.numel() * 4 for p in model.parameters())
    # Parameters and both states are read and written in place.
    assert made.report["memory"]["argument_bytes"] >= 3 * size
    assert made.report["memory"]["alias_bytes"] >= 3 * size
    made.save(tmp_path / "step")
    assert (tmp_path / "step").stat().st_size > 10_000
    assert not optimizer.state
    assert not any(group["capturable"] for group in optimizer.param_groups)
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(p.detach().cpu(), w) for p, w in zip(model.parameters(), weights, strict=True))


def test_the_program_of_a_warm_step_is_the_one_that_runs() -> None:
    _, _, step = make_step()
    x, y = torch.zeros(8, 4, dtype=torch.long).to("tpu"), torch.zeros(8, dtype=torch.long).to("tpu")
    compiled = torch_tpu.compile_step(step)
    for _ in range(3):
        compiled(x, y)
    [ran] = programs(lambda: compiled(x, y))
    assert torch_tpu.aot.program(compiled, (x, y)) == ran


def kept_files(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*.ttpu")}


def test_a_step_is_kept_for_a_tpu_as_its_first_call_and_the_later_ones_run_it(tmp_path: Path) -> None:
    _, _, step = make_step()
    x, y = torch.zeros(8, 4, dtype=torch.long).to("tpu"), torch.zeros(8, dtype=torch.long).to("tpu")
    made = torch_tpu.aot.compile(step, (x, y))
    assert made.first is not None
    made.keep(tmp_path / "ahead")
    compiled = torch_tpu.compile_step(step)
    with torch_tpu.aot.keeping(folder=tmp_path / "run") as kept:
        for _ in range(4):
            compiled(x, y)
    assert kept.programs == 2
    assert kept.refused == []
    # Names are hashes of the programs and of all else that an executable depends on.
    assert kept_files(tmp_path / "ahead") == kept_files(tmp_path / "run")
    assert len(kept_files(tmp_path / "run")) == 2


def test_what_runs_is_kept_for_the_topology_that_is_named(tmp_path: Path) -> None:
    x = torch.ones(3, device="tpu")
    for topology in ("v6e:1x1", "v5e:1x1"):
        with torch_tpu.aot.keeping(topology, tmp_path) as kept:
            (x * 2).sum()
        assert kept.programs == 2
    assert len(kept_files(tmp_path)) == 4
    with pytest.raises(ZeroDivisionError), torch_tpu.aot.keeping(folder=tmp_path / "none"):
        1 / 0  # noqa: B018
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = torch_tpu.aot.compile(lambda x: x + 1, (torch.ones(3, device="tpu"),))
    with pytest.raises(RuntimeError, match="cannot keep the program"):
        made.keep(tmp_path / "file" / "folder")


def test_gradients_that_were_there_come_back() -> None:
    model, _, step = make_step()
    x, y = torch.zeros(8, 4, dtype=torch.long).to("tpu"), torch.zeros(8, dtype=torch.long).to("tpu")
    F.cross_entropy(model(x), y).backward()
    before = [p.grad for p in model.parameters()]
    values = [g.cpu() for g in before]
    torch_tpu.aot.program(step, (x, y))
    assert all(p.grad is b for p, b in zip(model.parameters(), before, strict=True))
    assert all(torch.equal(g.cpu(), v) for g, v in zip(before, values, strict=True))


def test_a_value_is_refused_and_everything_goes_on() -> None:
    x = torch.ones(3, device="tpu")
    with pytest.raises(RuntimeError, match="looks at a value"):
        torch_tpu.aot.compile(lambda x: x * x.sum().item(), (x,))
    with pytest.raises(ValueError, match="computes nothing"):
        torch_tpu.aot.compile(lambda x: x, (x,))
    with pytest.raises(RuntimeError, match="v6e:9x9"):
        torch_tpu.aot.compile(lambda x: x + 1, (x,), topology="v6e:9x9")
    assert (x + 1).tolist() == [2, 2, 2]


def test_a_failed_condition_changes_nothing() -> None:
    model, optimizer, step = make_step()
    compiled = torch_tpu.compile_step(step)
    x, y = torch.zeros(8, 4, dtype=torch.long).to("tpu"), torch.zeros(8, dtype=torch.long).to("tpu")
    for _ in range(3):
        compiled(x, y)
    tensors = [*model.parameters(), *(s["exp_avg"] for s in optimizer.state.values())]
    before = [t.detach().cpu() for t in tensors]
    with pytest.raises(IndexError):
        compiled(x + 50, y)
    assert all(torch.equal(t.detach().cpu(), b) for t, b in zip(tensors, before, strict=True))
    compiled(x, y)
    assert not torch.equal(tensors[0].detach().cpu(), before[0])
