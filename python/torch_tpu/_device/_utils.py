"""Device arguments as torch.cuda takes them; torch.serialization asks for `_get_device_index` by this name."""

import torch

from torch_tpu import _core

BAD_FORK = (
    "Cannot re-initialize TPU in forked subprocess. "
    "To use TPU with multiprocessing, you must use the 'spawn' start method"
)

# What torch.cuda takes wherever it takes a device.
Device = torch.device | str | int | None


def _lazy_init() -> None:
    """Starts the devices, unless they are started; refused in a child that was forked after the start."""
    if _core.is_in_bad_fork():
        raise RuntimeError(BAD_FORK)
    _core.device_count()


def _get_device_index(device: Device, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that a device argument means; without one the current device, if `optional`."""
    if isinstance(device, bool) or not (device is None or isinstance(device, int | str | torch.device)):
        raise TypeError(f"expected a tpu device or its index, but got {device!r}")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if device is not None:
        if device.type == "cpu" and allow_cpu:
            return -1
        if device.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {device}")
        if device.index is not None:
            return device.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return _core.current_device()


def checked_index(device: Device) -> int:
    """An index of a device that is there."""
    index = _get_device_index(device, optional=True)
    _lazy_init()
    count = _core.device_count()
    if not 0 <= index < count:
        there = "there is 1 tpu device" if count == 1 else f"there are {count} tpu devices"
        raise RuntimeError(
            f"invalid device ordinal {index}: {there} (TORCH_TPU_SIM_TOPOLOGY sets how many the simulator has)"
        )
    return index
