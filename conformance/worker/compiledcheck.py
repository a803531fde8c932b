"""An operator of torch's database under ``torch.compile`` on the device, and eagerly on the CPU."""

import dataclasses
from collections.abc import Callable, Iterator

import torch
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from .invariants import tied
from .opcheck import (
    DEVICE,
    Call,
    Check,
    Outcome,
    agree_gradients,
    gradients,
    moved,
    name_of,
    on_cpu,
    samples_of,
)


class _Compiled:
    """An entry of the database whose function is another one."""

    def __init__(self, op: OpInfo, function: Callable) -> None:
        self._op, self._function = op, function

    def get_op(self) -> Callable:
        return self._function

    def __getattr__(self, name: str) -> object:
        return getattr(self._op, name)


def run(op: OpInfo, dtype: torch.dtype, limit: int | None, seed: int) -> Outcome:
    """Forward twice, the second time by the program of the first, then on other numbers, and gradients."""
    outcome = Outcome()
    grad = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    for sample in samples_of(op, dtype, grad=grad, limit=limit, seed=seed):
        call = Call.of(sample).fresh()
        try:
            theirs, values = on_cpu(op, op.get_op(), call.plain())
        except Exception:
            # What the CPU refuses is no measure.
            continue
        outcome.samples += 1
        try:
            _compare(Check(op, dtype, call, outcome), sample, theirs, values=values, grad=grad)
        except Exception as e:  # whatever compiling raises is the result of the test
            outcome.fail(f"compiled{call}", e)
    return outcome


def _compare(one: Check, sample: SampleInput, theirs: object, *, values: bool, grad: bool) -> None:
    op, call = one.op, one.call
    function = op.get_op()

    def step(input: object, *args: object, **kwargs: object) -> object:
        return function(input, *args, **kwargs)

    torch._dynamo.reset()
    compiled = torch.compile(step, dynamic=False)
    ours = moved(op, call.plain())
    for _ in range(2):
        one.agree(function, ours.fresh().run(compiled), theirs, values=values, strides=False)
    _other_numbers(one, compiled)
    if not grad or not values or tied(op, call):
        return
    try:
        wanted = gradients(op, call, sample, False, "cpu", one.dtype)
    except Exception:
        # What the CPU cannot differentiate is no measure.
        return
    if wanted is not None:
        given = gradients(_Compiled(op, compiled), moved(op, call), sample, False, DEVICE, one.dtype)
        agree_gradients(one, sample, given, wanted)


# Boundaries that are not sorted and pivots that no factorization has: what these give then means nothing.
_OF_ORDERED = ("bucketize", "searchsorted", "linalg.ldl_solve")


def _other_numbers(one: Check, compiled: Callable) -> None:
    """The program must not remember what its first arguments held."""
    if one.op.name in _OF_ORDERED:
        return
    op, call = one.op, one.call.plain().turned()
    try:
        theirs, values = on_cpu(op, op.get_op(), call)
    except Exception:
        # Some arguments mean nothing in this order: indices, factors of a matrix.
        return
    other = dataclasses.replace(one, call=call)
    other.agree(op.get_op(), moved(op, call).run(compiled), theirs, values=values, strides=False)


def pairs() -> Iterator[tuple[str, str, str, OpInfo, torch.dtype]]:
    """One test an entry: in single precision, or in the first type that it has."""
    for op in common_methods_invocations.op_db:
        dtypes = sorted(op.supported_dtypes("cpu"), key=str)
        if not dtypes:
            continue
        dtype = torch.float32 if torch.float32 in dtypes else dtypes[0]
        yield "compiled", name_of(op), str(dtype).removeprefix("torch."), op, dtype
