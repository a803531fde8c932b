"""torch's scan and while_loop in graphs and steps: one loop of the program, where torch's own kernels unroll it or look
at the condition's value before each turn.

Outside of a capture, and where no loop can be made, torch's kernel runs.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan_op, scan_op_dense
from torch._higher_order_ops.while_loop import while_loop_dense, while_loop_op

from torch_tpu import _core
from torch_tpu._loop import Recording, Refused, storage_here

_log = logging.getLogger(__name__)
# A turn of a loop costs a TPU some microseconds, and what it computes is not fused with the next one's.
FEWEST_TURNS = 4


def _here(values: Sequence[Any]) -> bool:
    return all(map(storage_here, values))


def _check(loop: Recording, results: Sequence[Any]) -> None:
    """Refuses functions whose results no turn can leave, or that write to what a turn is given."""
    if not _here(results):
        raise Refused("a function returns something that is no tensor on tpu")
    if any(loop.known(t) == "written" for t in (*loop.carried, *loop.taken)):
        raise Refused("a function writes to what it is given")


def _as_loop(
    combine: Callable[..., Sequence[Any]], init: Sequence[Tensor], xs: Sequence[Tensor], more: Sequence[Any]
) -> list[Tensor]:
    with Recording(xs[0].shape[0], init, xs) as loop:
        results = combine(*loop.carried, *loop.taken, *more)
        _check(loop, results)
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


def _with_condition(
    condition: Callable[..., Any], body: Callable[..., Sequence[Any]], carried: Sequence[Tensor], more: Sequence[Any]
) -> tuple[Tensor, ...]:
    with Recording(None, carried, ()) as loop:
        goes_on = condition(*loop.carried, *more)
        _check(loop, [goes_on])
        loop.goes_on(goes_on)
        results = body(*loop.carried, *more)
        _check(loop, results)
        last, _ = loop.end(results, ())
    return tuple(last)


def _while_loop(
    condition: Callable[..., Any],
    body: Callable[..., Sequence[Any]],
    carried: Sequence[Any],
    additional_inputs: Sequence[Any],
    **more: Any,
) -> Any:
    if carried and _core.capturing() and not more and _here(carried):
        try:
            return _with_condition(condition, body, carried, additional_inputs)
        except (Refused, RuntimeError, NotImplementedError) as refused:
            _log.info("a while_loop runs turn by turn: %s", refused)
    return while_loop_dense(condition, body, carried, additional_inputs, **more)


def install() -> None:
    """Has torch's loops come here for tensors on tpu."""
    key = torch._C.DispatchKey.PrivateUse1
    for op, kernel in ((scan_op, _scan), (while_loop_op, _while_loop)):
        if key not in op.py_kernels:
            op.py_impl(key)(kernel)
