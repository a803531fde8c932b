"""Random numbers: seeds and states of the devices' generators. Seeding does not start a device."""

from collections.abc import Iterable

import torch

from torch_tpu import _core
from torch_tpu._device._utils import Device, _get_device_index, checked_index
from torch_tpu._device.devices import device_count

_WORD = 2**64


def _generator(device: Device) -> torch.Generator:
    return torch._C._accelerator_getDefaultGenerator(checked_index(device))


def get_rng_state(device: Device = "tpu") -> torch.Tensor:
    """State of a device's generator, a byte tensor on the CPU."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "tpu") -> None:
    """Sets the state of a device's generator."""
    _generator(device).set_state(new_state.cpu())


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' generators."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    _core.rng_set(_get_device_index(None, optional=True), int(seed) % _WORD, 0)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices, also of those that are not started yet."""
    _core.rng_set(-1, int(seed) % _WORD, 0)


def seed() -> None:
    """Seeds the generator of the current device with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds the generators of all devices with one random number."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()


class _Generators:
    """The devices' default generators; a sequence that starts the devices when it is looked at."""

    def __len__(self) -> int:
        return device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no generator {index}: there are {len(self)} tpu devices")
        return _generator(index % len(self))


default_generators = _Generators()
