"""Checkpoints from which a run goes on as if it had never stopped."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import torch


class Stateful(Protocol):
    """A module, an optimizer, a schedule: whatever has a state."""

    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


def save(path: Path, parts: Mapping[str, Stateful], device: torch.device, **facts: Any) -> None:
    """Writes all parts and the random number generators; a crash while writing leaves the old file whole."""
    state = {name: part.state_dict() for name, part in parts.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    torch.save({"parts": state, "rng": rng_state(device), **facts}, unfinished)
    unfinished.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A checkpoint in host memory, whatever device it was saved from."""
    return torch.load(path, map_location="cpu", weights_only=True)


def restore(checkpoint: Mapping[str, Any], parts: Mapping[str, Stateful], device: torch.device) -> None:
    """Puts a checkpoint back into the parts, which may be on any device."""
    for name, part in parts.items():
        part.load_state_dict(checkpoint["parts"][name])
    set_rng_state(device, checkpoint["rng"])


def rng_state(device: torch.device) -> dict[str, torch.Tensor]:
    """The states of the generators that training draws from: the host's and the device's."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(device)
    return states


def set_rng_state(device: torch.device, states: Mapping[str, torch.Tensor]) -> None:
    """Sets the generators; those of a device type that the checkpoint does not know keep their seed."""
    torch.set_rng_state(states["cpu"])
    if device.type != "cpu" and device.type in states:
        torch.get_device_module(device).set_rng_state(states[device.type], device)
