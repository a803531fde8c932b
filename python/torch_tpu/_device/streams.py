"""Streams and events, over torch's generic ones.

A TPU runs its programs in the order of their launch, so all streams of a device are one queue: work is ordered as if
each stream waited for every other. Events measure when that queue passed them.
"""

import torch

from torch_tpu import _core
from torch_tpu._device._utils import Device, _lazy_init, checked_index


class _EventClass(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "tpu"


class Event(torch.Event, metaclass=_EventClass):
    """A mark in a device's queue; `enable_timing` lets it tell the milliseconds to another.

    A call gives a plain torch.Event: torch measures the time only between instances of that very class.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> torch.Event:
        """Makes one that is not recorded yet."""
        if interprocess:
            raise ValueError("tpu events cannot be shared between processes: leave interprocess=False")
        _lazy_init()
        return torch.Event("tpu", enable_timing=enable_timing, blocking=blocking)


class Stream(torch.Stream):
    """A sequence of work on a device."""

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: int) -> "Stream":
        """Makes one on a device, by default the current one."""
        if kwargs:
            return super().__new__(cls, **kwargs)
        return super().__new__(cls, device=torch.device("tpu", checked_index(device)), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Lets later work wait for an event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Lets later work wait for what another stream has got so far."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Marks what this stream has got so far."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.tpu.Stream device={self.device} stream_id={self.stream_id}>"


def _ours(stream: torch.Stream) -> Stream:
    return Stream(stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type)


def current_stream(device: Device = None) -> Stream:
    """The current stream of a device, in this thread."""
    return _ours(torch._C._accelerator_getStream(checked_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The stream that a device has from the start."""
    like = torch._C._accelerator_getStream(checked_index(device))
    return Stream(stream_id=0, device_index=like.device_index, device_type=like.device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes a stream the current one of its device, and that device the current one."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context in which a stream is the current one; None changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: list[tuple[int, Stream]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before.append((_core.current_device(), current_stream(self.stream.device)))
            set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            device, stream = self._before.pop()
            set_stream(stream)
            _core.set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context in which a stream is the current one; None changes nothing."""
    return StreamContext(stream)
