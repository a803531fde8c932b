"""What a tensor on the device is to Python, to NumPy and to other libraries."""

import numpy as np
import pytest
import torch


def x() -> torch.Tensor:
    return torch.tensor([[1.5, -2.0], [0.25, 8.0]], device="tpu")


def test_methods_named_after_the_device() -> None:
    y = torch.ones(2).tpu()
    assert y.is_tpu
    assert not torch.ones(2).is_tpu
    assert y.tpu() is y
    assert torch.ones(2).tpu(0).device == torch.ones(2).tpu(torch.device("tpu:0")).device == torch.device("tpu:0")
    assert torch.ones(2).tpu(non_blocking=True).tolist() == [1, 1]
    assert torch.nn.Linear(2, 2).tpu().weight.is_tpu
    storage = y.untyped_storage()
    assert storage.is_tpu
    assert torch.ones(2).untyped_storage().tpu().is_tpu
    assert storage.cpu().tolist() == torch.ones(2).untyped_storage().tolist()
    assert y.type() == "torch.tpu.FloatTensor"


def test_values_come_to_python() -> None:
    y = x()
    assert y.tolist() == [[1.5, -2.0], [0.25, 8.0]]
    assert y[1, 1].item() == 8
    assert float(y[0, 0]) == 1.5
    assert int(y[1, 1]) == 8
    assert bool(y[0, 0] > 1)
    assert f"{y[0, 1]:.3f}" == "-2.000"
    assert len(y) == 2
    assert [row.tolist() for row in y] == y.tolist()
    assert 8.0 in y
    assert "abcdefghi"[y[1, 1].long()] == "i"
    assert complex(torch.tensor(1 + 2j, device="tpu")) == 1 + 2j
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        y.item()


def test_it_prints_and_hashes() -> None:
    y = x()
    assert repr(y) == repr(y.cpu())[:-1] + ", device='tpu:0')"
    assert hash(y) == hash(y)
    assert {y: 1}[y] == 1
    assert repr(y.requires_grad_()).endswith("device='tpu:0', requires_grad=True)")
    assert "size of 0" not in repr(torch.empty(0, 3, device="tpu"))


def test_numpy_is_told_to_go_through_the_cpu() -> None:
    for convert in (np.asarray, torch.Tensor.numpy):
        with pytest.raises(TypeError, match=r"can't convert tpu:0 device type tensor to numpy\. Use Tensor\.cpu"):
            convert(x())
    assert x().cpu().numpy().tolist() == x().tolist()
    assert torch.from_numpy(np.ones(2)).tpu().dtype == torch.float64


def test_dlpack_exports_a_copy_on_the_host() -> None:
    y = x()
    array = np.from_dlpack(y.t())
    assert array.tolist() == y.t().tolist()
    assert y.__dlpack_device__() == torch.ones(1).__dlpack_device__()
    capsule = torch.utils.dlpack.to_dlpack(y)
    assert torch.equal(torch.utils.dlpack.from_dlpack(capsule), y.cpu())
    with pytest.raises(BufferError, match="without copying"):
        y.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="only to the CPU"):
        y.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="require gradient"):
        np.from_dlpack(y.requires_grad_())


def test_torch_shares_with_itself_through_dlpack() -> None:
    y = x()
    shared = torch.from_dlpack(y)
    shared[0, 0] = 7
    assert y[0, 0].item() == 7
    copied = torch.from_dlpack(y, copy=True)
    copied[0, 0] = 9
    assert y[0, 0].item() == 7
    assert torch.from_dlpack(y, device="cpu").device.type == "cpu"
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(y, device="cpu", copy=False)
    assert torch.from_dlpack(np.arange(3), device="tpu").is_tpu
    on_host = torch.arange(3)
    torch.from_dlpack(on_host)[0] = 5
    assert on_host[0] == 5


def test_default_device() -> None:
    with torch.device("tpu"):
        assert torch.ones(1).is_tpu
        assert torch.nn.Linear(1, 1).weight.is_tpu
        assert torch.get_default_device() == torch.device("tpu:0")
        assert torch.ones(1, device="cpu").device.type == "cpu"
    torch.set_default_device("tpu")
    try:
        assert torch.tensor([1]).is_tpu
    finally:
        torch.set_default_device(None)
    assert not torch.ones(1).is_tpu
    y = x()
    assert y.new_zeros(2).is_tpu
    assert torch.zeros_like(y).is_tpu
    assert torch.empty_like(y, device="cpu").device.type == "cpu"


def test_only_host_memory_is_pinned() -> None:
    for pinned in (torch.ones(3).pin_memory(), torch.ones(3, pin_memory=True), torch.empty(3, pin_memory=True)):
        assert pinned.is_pinned()
        assert pinned.tpu(non_blocking=True).is_tpu
    assert not torch.ones(3).is_pinned()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x().pin_memory()
