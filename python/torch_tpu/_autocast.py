"""torch.autocast("tpu") computes in bfloat16 where the user names no dtype: a TPU's own, needing no loss scaling."""

import functools
from typing import Any

import torch


def install() -> None:
    """Wraps torch.autocast's constructor; for other devices what it does stays the same.

    torch's own default for a device like this is float16, held by each thread: setting it reaches one thread only.
    """
    autocast_class: Any = torch.amp.autocast_mode.autocast
    original = autocast_class.__init__
    if getattr(original, "_torch_tpu", False):
        return
    torch.set_autocast_dtype("tpu", torch.bfloat16)

    @functools.wraps(original)
    def __init__(self: Any, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any) -> None:
        if dtype is None and device_type == "tpu":
            dtype = torch.bfloat16
        original(self, device_type, dtype, *args, **kwargs)

    __init__._torch_tpu = True  # type: ignore[attr-defined]
    autocast_class.__init__ = __init__
