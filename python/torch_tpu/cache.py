"""torch_tpu.cache: compiled programs, in memory and on disk.

A program on disk is found again by the text of its StableHLO, the compiler's options, the plugin's files and the
processor: what of these changes leads to another file. TORCH_TPU_CACHE_DIR names the folder, and empty means none;
TORCH_TPU_CACHE_LIMIT is its size in bytes, beyond which what was not used for longest goes.
"""

from pathlib import Path


def stats() -> dict[str, int | float]:
    """Counters since the start.

    hits: calls that found their program in memory. misses: programs compiled, in compile_seconds. entries: programs in
    memory. disk_hits and disk_writes: programs loaded from disk instead of being compiled, and written to it.
    """
    from torch_tpu import _core

    return _core.cache_stats()


def clear(*, disk: bool = True) -> None:
    """Forgets every program, on disk too unless ``disk=False``; each is compiled again when it is needed."""
    from torch_tpu import _core

    _core.clear_cache()
    if disk:
        _core.clear_disk()


def dir() -> Path | None:
    """Folder for programs on disk; None when there is none."""
    from torch_tpu import _core

    return _core.cache_folder()
