"""Which devices there are, and what is known of them."""

import pytest
import torch


def test_there_is_a_device() -> None:
    assert torch.tpu.is_available()
    assert torch.tpu.device_count() >= 1
    assert torch.tpu.current_device() == 0
    torch.tpu.init()
    assert torch.tpu.is_initialized()
    torch.tpu.ipc_collect()
    assert torch.get_device_module("tpu") is torch.tpu


def test_properties_tell_what_it_is() -> None:
    properties = torch.tpu.get_device_properties("tpu:0")
    assert properties.name == torch.tpu.get_device_name(0) == "TPU v6 lite"
    assert torch.tpu.get_arch_list() == ["TPU v6 lite"]
    assert torch.tpu.get_device_capability() == (6, 0)
    assert properties.simulated
    assert properties.platform == "tpu_sim"
    assert properties.coords == (0, 0, 0)
    assert properties.total_memory > 2**30
    assert torch.tpu.is_bf16_supported()
    assert torch.tpu.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("device", ["tpu", "tpu:0", 0, torch.device("tpu:0"), torch.device("tpu"), None])
def test_a_device_is_named_as_for_cuda(device: object) -> None:
    assert torch.tpu.get_device_name(device) == torch.tpu.get_device_name()
    with torch.tpu.device(device):
        assert torch.tpu.current_device() == 0
    torch.tpu.synchronize(device)


def test_what_is_no_tpu_device_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected a tpu device, but got: cpu"):
        torch.tpu.set_device("cpu")
    with pytest.raises(TypeError, match="expected a tpu device or its index"):
        torch.tpu.get_device_name(1.5)
    count = torch.tpu.device_count()
    with pytest.raises(
        RuntimeError, match=rf"invalid device ordinal {count}: there is 1 tpu device \(TORCH_TPU_SIM_TOPO"
    ):
        torch.tpu.set_device(count)
    with pytest.raises(RuntimeError, match="invalid device ordinal 7"):
        torch.ones(1, device="tpu:7")
    assert torch.tpu.current_device() == 0


def test_device_of_follows_a_tensor() -> None:
    for tensor in (torch.ones(1), torch.ones(1, device="tpu")):
        with torch.tpu.device_of(tensor):
            assert torch.tpu.current_device() == 0


def test_what_a_tpu_lacks_says_why() -> None:
    assert not hasattr(torch.tpu, "utilization")
    with pytest.raises(AttributeError, match="do not report how busy a device is"):
        _ = torch.tpu.utilization
    with pytest.raises(AttributeError, match="memory belongs to XLA"):
        _ = torch.tpu.memory_snapshot
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        _ = torch.tpu.nonsense


def test_all_names_exist() -> None:
    assert [name for name in torch.tpu.__all__ if not hasattr(torch.tpu, name)] == []
    import torch.tpu.memory as again

    assert again is torch.tpu.memory


def test_accelerator_is_the_tpu() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("tpu")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.tpu.device_count()
    torch.accelerator.set_device_index(0)
    assert torch.accelerator.current_device_index() == 0
    torch.accelerator.synchronize()
    capability = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.complex64} <= capability
    assert torch.qint8 not in capability


def test_eager_mode_is_a_call_and_a_context() -> None:
    assert torch.tpu.get_eager_mode() == "strict"
    with torch.tpu.eager_mode("debug"):
        assert torch.tpu.get_eager_mode() == "debug"
        assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
        with torch.tpu.eager_mode("strict"):
            assert torch.tpu.get_eager_mode() == "strict"
        assert torch.tpu.get_eager_mode() == "debug"
    assert torch.tpu.get_eager_mode() == "strict"
    torch.tpu.eager_mode("debug")
    assert torch.tpu.get_eager_mode() == "debug"
    torch.tpu.eager_mode("strict")
    with pytest.raises(ValueError, match='"lazy" is no eager mode'):
        torch.tpu.eager_mode("lazy")
