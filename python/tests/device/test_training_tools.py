"""Autocast, gradient scaling and data loading."""

import threading

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def out_dtype(**options: object) -> torch.dtype:
    model = nn.Linear(2, 2).to("tpu")
    with torch.autocast("tpu", **options):
        y = model(torch.ones(1, 2, device="tpu"))
        assert torch.softmax(y, -1).dtype == torch.float32
        assert torch.is_autocast_enabled("tpu") == options.get("enabled", True)
    y.float().sum().backward()
    assert model.weight.grad.dtype == torch.float32
    return y.dtype


def test_autocast_is_bfloat16_unless_told() -> None:
    assert out_dtype() == torch.bfloat16
    assert out_dtype(dtype=torch.float16) == torch.float16
    assert out_dtype(enabled=False) == torch.float32
    assert torch.get_autocast_dtype("tpu") == torch.bfloat16
    found: list[torch.dtype] = []
    thread = threading.Thread(target=lambda: found.append(out_dtype()))
    thread.start()
    thread.join()
    assert found == [torch.bfloat16]
    with torch.tpu.amp.autocast(), torch.autocast("tpu", enabled=False):
        assert nn.Linear(2, 2).tpu()(torch.ones(1, 2, device="tpu")).dtype == torch.float32


def test_autocast_of_other_devices_is_untouched() -> None:
    with torch.autocast("cpu", torch.float16):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.float16
    with torch.autocast("cpu"):
        assert nn.Linear(2, 2)(torch.ones(1, 2)).dtype == torch.bfloat16
        assert nn.Linear(2, 2).tpu()(torch.ones(1, 2, device="tpu")).dtype == torch.float32


def test_autocast_refuses_what_it_refuses_elsewhere() -> None:
    p = torch.full((2,), 0.5, device="tpu")
    with torch.autocast("tpu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        nn.functional.binary_cross_entropy(p, p)


@pytest.mark.parametrize(
    "make", [lambda **k: torch.amp.GradScaler("tpu", **k), lambda **k: torch.tpu.amp.GradScaler(**k)]
)
def test_the_scaler_skips_steps_with_infinities(make: object) -> None:
    p = nn.Parameter(torch.ones(2, device="tpu"))
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), make(init_scale=4.0)
    scaler.scale((p * 2).sum()).backward()
    assert p.grad.tolist() == [8, 8]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [2, 2]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1]
    optimizer.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1]
    assert scaler.get_scale() == 2
    other = make()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 2


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}])
def test_a_loader_pins_its_batches(options: dict) -> None:
    data = TensorDataset(torch.arange(10.0), torch.arange(10))
    total = torch.zeros((), device="tpu")
    for x, y in DataLoader(data, batch_size=4, pin_memory=True, **options):
        assert x.is_pinned()
        assert y.is_pinned()
        total += x.to("tpu", non_blocking=True).sum() + y.to("tpu", non_blocking=True).sum()
    assert total.item() == 90
