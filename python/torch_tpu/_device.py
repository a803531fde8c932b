"""torch.tpu: the device's module, shaped like torch.cuda."""

import torch

from torch_tpu import _core


def is_available() -> bool:
    """Whether there is a tpu device, real or simulated."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices of this process."""
    return _core.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return _core.current_device()


def is_initialized() -> bool:
    """Whether the devices were started in this process."""
    return _core.is_initialized() and not _core.is_in_bad_fork()


def _lazy_init() -> None:
    _core.device_count()


def _is_in_bad_fork() -> bool:
    return _core.is_in_bad_fork()


def synchronize(device=None) -> None:
    """Waits for all work on a device."""
    _core.synchronize(current_device() if device is None else torch.device(device).index or 0)


def manual_seed_all(seed: int) -> None:
    """Seeds the generator of every device."""
    if _core.is_initialized():
        for device in range(device_count()):
            _core.rng_set(device, seed & (2**64 - 1), 0)


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Dtypes for torch.autocast("tpu")."""
    return [torch.bfloat16, torch.float16]
