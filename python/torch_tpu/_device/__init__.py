"""torch.tpu: the device's module, shaped like torch.cuda."""

from torch_tpu._device import _utils as _utils
from torch_tpu._device import amp, memory, random, streams
from torch_tpu._device._utils import _get_device_index as _get_device_index
from torch_tpu._device._utils import _lazy_init as _lazy_init
from torch_tpu._device.devices import (
    TpuDeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_amp_supported_dtype,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    ipc_collect,
    is_available,
    is_bf16_supported,
    is_initialized,
    is_tf32_supported,
    set_device,
    synchronize,
)
from torch_tpu._device.devices import (
    _exchange_device as _exchange_device,
)
from torch_tpu._device.devices import (
    _is_in_bad_fork as _is_in_bad_fork,
)
from torch_tpu._device.devices import (
    _maybe_exchange_device as _maybe_exchange_device,
)
from torch_tpu._device.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from torch_tpu._device.modes import eager_mode, get_eager_mode
from torch_tpu._device.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu._device.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "TpuDeviceProperties",
    "amp",
    "can_device_access_peer",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "eager_mode",
    "empty_cache",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "random",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "streams",
    "synchronize",
]

# What torch.cuda has and this cannot have: the reason is the error's text.
_ABSENT = {
    "utilization": "TPU plugins do not report how busy a device is; profile with torch.profiler instead",
    "memory_usage": "TPU plugins do not report how busy a device's memory is; see torch.tpu.memory_stats",
    "temperature": "TPU plugins do not report it",
    "power_draw": "TPU plugins do not report it",
    "clock_rate": "TPU plugins do not report it",
    "memory_snapshot": "memory belongs to XLA, which does not list its blocks; see torch.tpu.memory_summary",
    "caching_allocator_alloc": "memory belongs to XLA; allocate with torch.empty",
    "caching_allocator_delete": "memory belongs to XLA; delete the tensor",
    "CUDAGraph": "programs are compiled whole; use torch.compile or torch_tpu.compile_step",
    "graph": "programs are compiled whole; use torch.compile or torch_tpu.compile_step",
}


def __getattr__(name: str) -> object:
    if name == "_initialized":
        # torch.utils.checkpoint asks it before it saves the generators' states.
        return is_initialized()
    why = _ABSENT.get(name)
    raise AttributeError(f"module 'torch.tpu' has no attribute '{name}'" + (f": {why}" if why else ""))
