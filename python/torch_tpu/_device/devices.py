"""Which devices there are, and which one is current."""

from dataclasses import dataclass
from functools import cache

import torch

from torch_tpu import _core
from torch_tpu._device._utils import Device, _get_device_index, _lazy_init, checked_index

_count: int | None = None


def is_available() -> bool:
    """Whether there is a tpu device, real or simulated. Never raises.

    In a child that was forked after the start too: there the first use says why it is refused.
    """
    if _core.is_in_bad_fork():
        return True
    try:
        return device_count() > 0
    except RuntimeError:
        return False


def device_count() -> int:
    """Number of devices of this process."""
    global _count
    if _count is None:
        _lazy_init()
        _count = _core.device_count()
    return _count


def init() -> None:
    """Starts the devices; torch does it at the first use."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether the devices were started in this process."""
    return _core.is_initialized() and not _core.is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    return _core.is_in_bad_fork()


def current_device() -> int:
    """Index of this thread's current device."""
    _lazy_init()
    return _core.current_device()


def set_device(device: Device) -> None:
    """Makes a device this thread's current one. Better use the context manager `torch.tpu.device`."""
    index = _get_device_index(device)
    if index >= 0:
        _core.set_device(checked_index(index))


def _exchange_device(device: int) -> int:
    """Sets the current device unless the index is negative; gives the one before, or -1."""
    if device < 0:
        return -1
    before = current_device()
    if device != before:
        _core.set_device(device)
    return before


_maybe_exchange_device = _exchange_device


class device:
    """Context in which a device is the current one; None or a negative index change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = -1 if self.idx < 0 else _exchange_device(checked_index(self.idx))

    def __exit__(self, *_: object) -> None:
        self.idx = _maybe_exchange_device(self.prev_idx) if self.prev_idx >= 0 else self.idx


class device_of(device):
    """Context in which the device of a tensor or storage is the current one; none, if it is not on a tpu."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage) -> None:
        super().__init__(obj.device.index if obj.device.type == "tpu" else None)


def synchronize(device: Device = None) -> None:
    """Waits for all work on a device; raises what failed in it."""
    index = checked_index(device)
    _core.synchronize(index)


@dataclass(frozen=True)
class TpuDeviceProperties:
    """What is known of a device."""

    name: str
    """Its kind: "TPU v6e"."""
    index: int
    id: int
    """Its number in the whole slice."""
    coords: tuple[int, ...] | None
    """Its place in the slice."""
    platform: str
    """The plugin's name for the platform."""
    platform_version: str
    simulated: bool
    total_memory: int
    """Bytes of memory; 0 where the plugin does not say."""


@cache
def _properties(index: int) -> TpuDeviceProperties:
    raw = _core.device_properties(index)
    coords = raw["coords"]
    return TpuDeviceProperties(
        name=raw["name"],
        index=index,
        id=raw["id"],
        coords=None if coords is None else tuple(coords),
        platform=raw["platform"],
        platform_version=raw["platform_version"],
        simulated=raw["simulated"],
        total_memory=raw["total_memory"] or 0,
    )


def get_device_properties(device: Device = None) -> TpuDeviceProperties:
    """What is known of a device."""
    return _properties(checked_index(device))


def get_device_name(device: Device = None) -> str:
    """Kind of a device: "TPU v6e"."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Generation of a device as (major, minor): (6, 0) for a v6e; (0, 0) where its name does not tell."""
    name = get_device_name(device).lower()
    digits = "".join(c for c in name.rpartition("v")[2] if c.isdigit()) or "".join(c for c in name if c.isdigit())
    return (int(digits), 0) if digits else (0, 0)


def get_arch_list() -> list[str]:
    """Kinds of the devices that this process can run programs on."""
    return sorted({get_device_name(i) for i in range(device_count())})


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device can copy from the other without the host; a device is no peer of itself."""
    return checked_index(device) != checked_index(peer_device)


def ipc_collect() -> None:
    """Frees memory that other processes gave back. There is none: TPU memory is not shared between processes."""
    _lazy_init()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the device computes in bfloat16: all do, natively."""
    return True


def is_tf32_supported() -> bool:
    """Whether there is a TF32 format: a TPU's products are bfloat16 in one, three or six passes instead."""
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes for torch.autocast("tpu")."""
    return [torch.bfloat16, torch.float16]
