"""torch's scan in graphs and steps: one loop of the program, where torch's own kernel unrolls it.

Outside of a capture, and where no loop can be made, torch's kernel runs.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op, scan_op_dense

from torch_tpu import _core
from torch_tpu._loop import Recording, Refused

_log = logging.getLogger(__name__)
# A turn of a loop costs a TPU some microseconds, and what it computes is not fused with the next one's.
FEWEST_TURNS = 4


def _here(values: Sequence[Any]) -> bool:
    return all(isinstance(v, Tensor) and v.device.type == "tpu" and v.layout == torch.strided for v in values)


def _as_loop(
    combine: Callable[..., Sequence[Any]], init: Sequence[Tensor], xs: Sequence[Tensor], more: Sequence[Any]
) -> list[Tensor]:
    with Recording(xs[0].shape[0], init, xs) as loop:
        results = combine(*loop.carried, *loop.taken, *more)
        if not _here(results):
            raise Refused("the function returns something that is no tensor on tpu")
        if any(loop.known(t) == "written" for t in (*loop.carried, *loop.taken)):
            raise Refused("the function writes to what it is given")
        last, stacks = loop.end(results[: len(init)], results[len(init) :])
    return [*last, *stacks]


def _scan(
    combine: Callable[..., Sequence[Any]],
    init: Sequence[Any],
    xs: Sequence[Any],
    additional_inputs: Sequence[Any],
    mutated_arg_indices: str = "",
) -> Any:
    long = len(xs) > 0 and xs[0].shape[0] >= FEWEST_TURNS
    if long and _core.capturing() and not mutated_arg_indices and _here((*init, *xs)):
        try:
            return _as_loop(combine, init, xs, additional_inputs)
        except (Refused, RuntimeError, NotImplementedError) as refused:
            # What is wrong with the function itself, torch's kernel raises again.
            _log.info("a scan is unrolled: %s", refused)
    return scan_op_dense(combine, init, xs, additional_inputs, mutated_arg_indices)


def install() -> None:
    """Has torch's scan come here for tensors on tpu."""
    key = torch._C.DispatchKey.PrivateUse1
    if key not in scan_op.py_kernels:
        scan_op.py_impl(key)(_scan)
