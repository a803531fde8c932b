"""Faults that a test of the harness plants, to see them reported.

``TORCH_TPU_CONFORMANCE_PLANT`` names tests: ``hang=TEST``, ``abort=TEST`` and ``wrong=TEST``, separated by commas; or a
reduction that takes the wrong axes in one dtype, ``axis=OVERLOAD/DTYPE`` (``axis=aten.sum.dim_IntList/int16``). Nothing
but this file reads it.
"""

import contextlib
import os
import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_PLANTED = [tuple(one.split("=", 1)) for one in os.environ.get("TORCH_TPU_CONFORMANCE_PLANT", "").split(",") if one]
# The test whose results are made wrong while it runs.
_current = ""


def strike(test: str) -> None:
    """Does what is planted in a test before it runs."""
    global _current
    _current = test
    for fault, where in _PLANTED:
        if where != test:
            continue
        if fault == "hang":
            print("planted: this test hangs", file=sys.stderr, flush=True)
            time.sleep(1e6)
        elif fault == "abort":
            print("planted: this test aborts", file=sys.stderr, flush=True)
            os.abort()


def perturbed(result: Tensor) -> Tensor:
    """A result of the device as the comparison is to see it: as it is, unless it is planted wrong."""
    if ("wrong", _current) not in _PLANTED or not result.numel():
        return result
    return ~result if result.dtype == torch.bool else result + 1


class _WrongAxis(TorchDispatchMode):
    """Reduces over the neighbours of the axes that were asked for."""

    def __init__(self, overload: str, dtype: str) -> None:
        super().__init__()
        self._overload, self._dtype = overload, f"torch.{dtype}"

    def __torch_dispatch__(
        self, func: torch._ops.OpOverload, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> object:
        kwargs = dict(kwargs or {})
        if str(func) == self._overload and args[0].device.type == "tpu" and str(args[0].dtype) == self._dtype:
            at = [argument.name for argument in func._schema.arguments].index("dim")
            asked = args[at] if at < len(args) else kwargs.get("dim")
            rank = args[0].dim()
            if asked is not None and rank:
                wrong = (asked + 1) % rank if isinstance(asked, int) else [(dim + 1) % rank for dim in asked]
                args, kwargs = (*args[:at], wrong, *args[at + 1 :]), {k: v for k, v in kwargs.items() if k != "dim"}
        return func(*args, **kwargs)


def wrong_axis() -> contextlib.AbstractContextManager:
    """While it is entered, the reduction that is planted takes the wrong axes."""
    planted = [where.rsplit("/", 1) for fault, where in _PLANTED if fault == "axis"]
    return _WrongAxis(*planted[0]) if planted else contextlib.nullcontext()
