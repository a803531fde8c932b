"""Memory statistics."""

import gc

import pytest
import torch

MIB = 2**20


def held() -> int:
    gc.collect()
    torch.tpu.synchronize()
    return torch.tpu.memory_allocated()


def test_a_tensor_is_counted_while_it_lives() -> None:
    before = held()
    x = torch.zeros(MIB // 4, device="tpu") + 1
    assert held() - before == MIB
    view = x[5:].view(-1)
    y = x.clone()
    assert held() - before <= 2 * MIB
    y.add_(1)
    assert held() - before == 2 * MIB
    del x
    assert held() - before == 2 * MIB, "the view holds the storage"
    del view, y
    assert held() == before


def test_peaks_and_sums_can_be_reset() -> None:
    torch.tpu.reset_peak_memory_stats()
    torch.tpu.reset_accumulated_memory_stats()
    before = held()
    x = torch.ones(MIB, device="tpu")
    x = x * 2
    del x
    assert torch.tpu.max_memory_allocated() - before >= 8 * MIB
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] >= 8 * MIB
    assert stats["allocated_bytes.all.freed"] >= 8 * MIB
    assert stats["allocation.all.peak"] >= stats["allocation.all.current"] > 0 or held() == 0
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == torch.tpu.memory_allocated()
    torch.tpu.reset_accumulated_memory_stats()
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == stats["allocated_bytes.all.freed"] == 0
    assert stats["num_device_alloc"] == 0


def test_reserved_is_what_the_device_says() -> None:
    x = torch.ones(MIB, device="tpu")
    torch.tpu.synchronize()
    assert torch.tpu.memory_reserved() >= torch.tpu.memory_allocated() >= 4 * MIB
    assert torch.tpu.max_memory_reserved() >= torch.tpu.memory_reserved()
    free, total = torch.tpu.mem_get_info()
    assert total == torch.tpu.get_device_properties().total_memory
    assert total - free == torch.tpu.memory_reserved()
    torch.tpu.empty_cache()
    assert x[0].item() == 1


def test_accelerator_gives_the_same_counts() -> None:
    x = torch.ones(1000, device="tpu")
    torch.tpu.synchronize()
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated() >= x.nbytes
    assert torch.accelerator.max_memory_allocated() == torch.tpu.max_memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.tpu.memory_reserved()
    assert torch.accelerator.get_memory_info() == torch.tpu.mem_get_info()
    ours, theirs = torch.tpu.memory_stats(), torch.accelerator.memory_stats()
    assert {k: v for k, v in theirs.items() if k in ours} | {
        k: v for k, v in ours.items() if k.startswith("reserved_bytes")
    } == {k: v for k, v in ours.items() if k in theirs}
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == torch.tpu.memory_allocated()


def test_the_summary_is_for_people() -> None:
    x = torch.ones(MIB, device="tpu")
    text = torch.tpu.memory_summary()
    assert "tpu:0 TPU v6 lite" in text
    assert "Allocated memory" in text
    assert "MiB" in text
    assert len(torch.tpu.memory_summary(abbreviated=True)) < len(text)
    assert x.device.type == "tpu"


def test_a_training_step_leaves_nothing_behind() -> None:
    model = torch.nn.Linear(64, 64).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(8, 64, device="tpu")

    def step() -> None:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    before = held()
    for _ in range(20):
        step()
    assert held() == before
    with pytest.raises(RuntimeError):
        model(torch.ones(8, 3, device="tpu"))
    assert held() == before
