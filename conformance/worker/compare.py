"""Whether the device gave what CPU torch gives: values, dtypes, sizes, strides, at torch's default tolerances."""

import contextlib
import dataclasses
import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from .planted import perturbed

_MANTISSA = {torch.float64: 52, torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}


@dataclasses.dataclass
class _Rules:
    """How results are compared while a test runs."""

    tolerances: dict[str, float]
    compared: bool


_rules = _Rules({}, compared=True)


@contextlib.contextmanager
def rules(tolerances: dict[str, float] | None, *, compared: bool) -> Iterator[None]:
    """Compares with tolerances other than torch's (``rtol`` and ``atol``), or not at all."""
    global _rules
    before, _rules = _rules, _Rules(tolerances or {}, compared)
    try:
        yield
    finally:
        _rules = before


def comparing() -> bool:
    """Whether results count, or only that there are some."""
    return _rules.compared


class Differs(AssertionError):
    """The results are not those of the CPU."""


def check(ours: object, theirs: object, *, values: bool = True, strides: bool = True) -> float:
    """Raises :class:`Differs` unless two structures agree; returns the largest error in units of the last place.

    With ``values=False`` only sizes, strides and dtypes count: for random and uninitialized results.
    """
    if not _rules.compared:
        return 0.0
    (mine, our_spec), (wanted, their_spec) = tree_flatten(ours), tree_flatten(theirs)
    if len(mine) != len(wanted):
        raise Differs(f"the structure is {our_spec}, not {their_spec}")
    return max((_check_one(a, b, values, strides) for a, b in zip(mine, wanted, strict=True)), default=0.0)


def _check_one(ours: object, theirs: object, values: bool, strides: bool) -> float:
    if not isinstance(theirs, Tensor):
        return _check_plain(ours, theirs, values)
    if not isinstance(ours, Tensor):
        raise Differs(f"gave {type(ours).__name__}, not a tensor")
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or ours.layout != theirs.layout:
        raise Differs(f"gave {_meta(ours)}, not {_meta(theirs)}")
    if strides and theirs.layout == torch.strided and theirs.numel() and ours.stride() != theirs.stride():
        raise Differs(f"strides are {ours.stride()}, not {theirs.stride()} (sizes {tuple(theirs.shape)})")
    if not values:
        return 0.0
    here = perturbed(ours.detach().cpu()) if ours.device.type != "cpu" else ours.detach()
    wanted, more = theirs.detach(), _rules.tolerances
    try:
        torch.testing.assert_close(here, wanted, equal_nan=True, check_stride=False, check_device=False, **more)
    except AssertionError as e:
        raise Differs(f"{_meta(theirs)}: {e}") from None
    return ulps(here, wanted)


def _check_plain(ours: object, theirs: object, values: bool) -> float:
    if type(ours) is not type(theirs):
        raise Differs(f"gave {type(ours).__name__}, not {type(theirs).__name__}")
    if isinstance(theirs, float | complex) and values:
        torch.testing.assert_close(ours, theirs, equal_nan=True, **_rules.tolerances)
    elif isinstance(theirs, torch.device):
        pass
    elif values and ours != theirs:
        raise Differs(f"gave {ours!r}, not {theirs!r}")
    return 0.0


def _meta(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def ulps(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference of finite values, in units of the last place of the wanted ones."""
    if theirs.layout != torch.strided or not theirs.numel():
        return 0.0
    if theirs.is_complex():
        ours, theirs = torch.view_as_real(ours.resolve_conj()), torch.view_as_real(theirs.resolve_conj())
    bits = _MANTISSA.get(theirs.dtype)
    if bits is None:
        return 0.0
    ours, wanted = ours.double(), theirs.double()
    smallest = max(torch.finfo(theirs.dtype).tiny, 2.0**-1000)
    unit = torch.exp2(torch.floor(torch.log2(wanted.abs().clamp_min(smallest))) - bits)
    error = ((ours - wanted).abs() / unit)[torch.isfinite(ours) & torch.isfinite(wanted)]
    worst = float(error.max()) if error.numel() else 0.0
    return worst if math.isfinite(worst) else 0.0
