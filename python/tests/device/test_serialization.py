"""torch.save and torch.load, pickle and deepcopy."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

TPU, CPU = torch.device("tpu:0"), torch.device("cpu")


def saved(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def x() -> torch.Tensor:
    return torch.arange(6.0, device="tpu").view(2, 3)


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_tensor_comes_back_to_its_device(weights_only: bool) -> None:
    y = saved(x(), weights_only=weights_only)
    assert y.device == TPU
    assert torch.equal(y, x())


@pytest.mark.parametrize(
    ("source", "where", "device"),
    [
        ("tpu", "cpu", CPU),
        ("tpu", {"tpu:0": "cpu"}, CPU),
        ("tpu", lambda storage, location: storage, CPU),
        ("cpu", "tpu", TPU),
        ("cpu", "tpu:0", TPU),
        ("cpu", torch.device("tpu"), TPU),
        ("cpu", {"cpu": "tpu:0"}, TPU),
        ("cpu", lambda storage, location: storage.tpu(), TPU),
        ("cpu", None, CPU),
    ],
)
def test_map_location_goes_both_ways(source: str, where: Any, device: torch.device) -> None:
    y = saved(x().to(source), map_location=where)
    assert y.device == device
    assert y.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"TPU device 5 but torch\.tpu\.device_count\(\) is 1"):
        saved(x().cpu(), map_location="tpu:5")


@pytest.mark.parametrize("where", [None, "cpu"])
def test_views_share_their_storage_afterwards(where: str | None) -> None:
    base = x()
    whole, row, columns = saved([base, base[1], base.t()], map_location=where)
    row.add_(10)
    assert whole.tolist() == [[0, 1, 2], [13, 14, 15]]
    assert columns.tolist() == [[0, 13], [1, 14], [2, 15]]


@pytest.mark.parametrize(
    "dtype",
    [torch.bfloat16, torch.float16, torch.float64, torch.bool, torch.uint8, torch.complex64, torch.float8_e4m3fn],
)
def test_every_dtype_survives(dtype: torch.dtype) -> None:
    y = x().to(dtype)
    for z in (saved(y), saved(y, map_location="cpu"), saved(y.cpu(), map_location="tpu")):
        assert z.dtype == dtype
        assert torch.equal(z.cpu().view(torch.uint8), y.cpu().view(torch.uint8))


def test_old_files_and_memory_maps(tmp_path: Path) -> None:
    old, new = tmp_path / "old.pt", tmp_path / "new.pt"
    torch.save(x()[1], old, _use_new_zipfile_serialization=False)
    torch.save(x()[1], new)
    for file, options in ((old, {}), (new, {"mmap": True, "map_location": "tpu"})):
        y = torch.load(file, **options)
        assert y.device == TPU
        assert y.tolist() == [3, 4, 5]
    assert torch.load(old, map_location="cpu").tolist() == [3, 4, 5]


def test_a_checkpoint_continues_the_same_training() -> None:
    def start() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).to("tpu")
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> float:
        optimizer.zero_grad()
        loss = model(torch.arange(12.0, device="tpu").view(3, 4) / 12).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    model, optimizer = start()
    step(model, optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.tpu.get_rng_state()}
    for where in (None, "cpu"):
        loaded = saved(state, map_location=where)
        again, its_optimizer = start()
        again.load_state_dict(loaded["model"])
        its_optimizer.load_state_dict(loaded["optimizer"])
        torch.tpu.set_rng_state(loaded["rng"])
        twin, its_twin = start()
        step(twin, its_twin)
        assert [step(again, its_optimizer) for _ in range(2)] == [step(twin, its_twin) for _ in range(2)]


def test_pickle_and_deepcopy() -> None:
    parameter = nn.Parameter(x())
    for y in (pickle.loads(pickle.dumps(parameter)), copy.deepcopy(parameter)):
        assert isinstance(y, nn.Parameter)
        assert y.device == TPU
        assert torch.equal(y, parameter)
    leaf = x().requires_grad_()
    leaf.grad = torch.ones_like(leaf)
    assert copy.deepcopy(leaf).grad.tolist() == [[1, 1, 1], [1, 1, 1]]
    base = x()
    whole, row = copy.deepcopy((base, base[1]))
    row.add_(10)
    assert whole.tolist() == [[0, 1, 2], [13, 14, 15]]
    assert base.tolist() == [[0, 1, 2], [3, 4, 5]]
    model = copy.deepcopy(nn.Linear(2, 2).to("tpu"))
    assert pickle.loads(pickle.dumps(model)).weight.device == TPU
