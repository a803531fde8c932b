"""torch.tpu.amp: shaped like torch.cuda.amp."""

from typing import Any

import torch


class autocast(torch.amp.autocast_mode.autocast):
    """torch.autocast("tpu"), with bfloat16."""

    def __init__(self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("tpu"). bfloat16 needs none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("tpu", *args, **kwargs)
