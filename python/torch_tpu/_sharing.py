"""Tensors sent to another process through `torch.multiprocessing`."""

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor


def _reduce(tensor: torch.Tensor) -> Any:
    # A copy instead would be silent about what a reader expects of this way: that both processes write to one tensor.
    if tensor.device.type == "tpu":
        raise RuntimeError(
            f"a tensor on {tensor.device} cannot be shared with another process: a TPU's memory belongs to one. "
            'Send tensor.cpu(), and move it there with .to("tpu")'
        )
    return reduce_tensor(tensor)


def install() -> None:
    """Registers the refusal; pickling to a file or to bytes stays as it is."""
    ForkingPickler.register(torch.Tensor, _reduce)
    ForkingPickler.register(torch.nn.Parameter, _reduce)
