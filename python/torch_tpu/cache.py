"""torch_tpu.cache: the executable cache."""

import os
from pathlib import Path


def stats() -> dict[str, int | float]:
    """Counters since the start: hits, misses (programs compiled), entries, compile_seconds."""
    from torch_tpu import _core

    return _core.cache_stats()


def clear() -> None:
    """Forgets every program that is held in memory; each is compiled again when it is needed."""
    from torch_tpu import _core

    _core.clear_cache()


def dir() -> Path | None:
    """Folder for programs on disk, TORCH_TPU_CACHE_DIR; None when it is not set."""
    folder = os.environ.get("TORCH_TPU_CACHE_DIR")
    return Path(folder) if folder else None
