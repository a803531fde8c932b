"""Memory of the devices.

Memory belongs to XLA. What torch_tpu counts exactly are the bytes of buffers that tensors hold ("allocated"); what the
device reports as in use counts programs and their scratch space too ("reserved"). Nothing is held back for later.
"""

from collections import OrderedDict
from typing import Any

from torch_tpu import _core
from torch_tpu._device._utils import Device, checked_index
from torch_tpu._device.devices import get_device_name, is_initialized

_PARTS = ("current", "peak", "allocated", "freed")


def _stats(device: Device) -> dict[str, Any] | None:
    return _core.memory_stats(checked_index(device)) if is_initialized() else None


def memory_stats(device: Device = None) -> "OrderedDict[str, int]":
    """Counters under torch.cuda's names: "allocated_bytes.all.current" and so on; empty before the first use."""
    raw = _stats(device)
    if raw is None:
        return OrderedDict()
    out = memory_stats_as_nested_dict(device)
    flat = {
        f"{name}.all.{part}": value
        for name, counters in out.items()
        if isinstance(counters, dict)
        for part, value in counters["all"].items()
    }
    flat.update({name: value for name, value in out.items() if not isinstance(value, dict)})
    return OrderedDict(sorted(flat.items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """The counters of `memory_stats` as nested dictionaries."""
    raw = _stats(device)
    if raw is None:
        return {}
    number, size = dict(zip(_PARTS, raw["buffers"], strict=True)), dict(zip(_PARTS, raw["bytes"], strict=True))
    return {
        "allocation": {"all": number},
        "allocated_bytes": {"all": size},
        "active": {"all": dict(number)},
        "active_bytes": {"all": dict(size)},
        "requested_bytes": {"all": dict(size)},
        "reserved_bytes": {"all": {"current": raw["in_use"], "peak": raw["peak_in_use"]}},
        "num_device_alloc": number["allocated"],
        "num_device_free": number["freed"],
    }


def memory_allocated(device: Device = None) -> int:
    """Bytes that tensors hold."""
    return memory_stats(device).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that tensors held, since the start or `reset_peak_memory_stats`."""
    return memory_stats(device).get("allocated_bytes.all.peak", 0)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the device says are in use; never less than `memory_allocated`."""
    return memory_stats(device).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that the device said were in use."""
    return memory_stats(device).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets the peaks back to what is held now."""
    _core.reset_peak_memory(checked_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums of what was ever allocated and freed back to zero."""
    _core.reset_accumulated_memory(checked_index(device))


def reset_max_memory_allocated(device: Device = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def empty_cache() -> None:
    """Gives back memory that is held back for later. There is none: a buffer is freed with its last tensor."""


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free bytes and all bytes of a device's memory."""
    raw = _core.memory_stats(checked_index(device))
    return max(raw["limit"] - raw["in_use"], 0), raw["limit"]


def _readable(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the counters, for people."""
    index = checked_index(device)
    stats = memory_stats_as_nested_dict(index)
    rows: list[tuple[str, dict[str, int], bool]] = [
        ("Allocated memory", stats["allocated_bytes"]["all"], True),
        ("In use on the device", stats["reserved_bytes"]["all"], True),
    ]
    if not abbreviated:
        rows.append(("Buffers", stats["allocation"]["all"], False))
    free, total = mem_get_info(index)
    width = 88
    lines = [
        "=" * width,
        f"tpu:{index} {get_device_name(index)}: {_readable(free)} of {_readable(total)} free",
        "-" * width,
        f"{'':24}" + "".join(f"{title:>16}" for title in ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")),
    ]
    for title, counters, is_bytes in rows:
        cells = [counters.get(part) for part in _PARTS]
        shown = ["" if c is None else _readable(c) if is_bytes else str(c) for c in cells]
        lines.append(f"{title:24}" + "".join(f"{cell:>16}" for cell in shown))
    lines.append("=" * width)
    return "\n".join(lines) + "\n"
