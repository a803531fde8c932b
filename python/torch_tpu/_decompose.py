"""The second tier: torch's own decompositions, registered as kernels when an op is first met.

The core asks when an op has no lowering for its arguments. An op whose decomposition torch knows gets it then; its
`out=` and in-place forms are made from the functional one. The parts of a call are compiled as one program.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_tpu import _core

# The key that the glue calls decompositions by: an op may have a lowering for other arguments.
KEY = "PrivateUse2"

_library: torch.library.Library | None = None
_registered: set[str] = set()


@functools.cache
def _table() -> dict:
    """Torch's decompositions. Importing them costs a fraction of a second, so only a first need does."""
    import torch._decomp
    import torch._refs

    return torch._decomp.global_decomposition_table["post_autograd"]


def _functional(packet: Any, overload: Any) -> tuple[Any, list[str]]:
    """The functional overload that a mutating one stands for, and the names of the arguments it writes."""
    written = [a.name for a in overload._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not written:
        return overload, written
    own = [(a.name, str(a.type)) for a in overload._schema.arguments if a.name not in written or a.name == "self"]
    name = overload._schema.name.removeprefix("aten::")
    base = getattr(torch.ops.aten, name.removesuffix("_") if name.endswith("_") and not name.endswith("__") else name)
    for candidate in base.overloads():
        other = getattr(base, candidate)
        arguments = other._schema.arguments
        if any(a.alias_info is not None and a.alias_info.is_write for a in arguments):
            continue
        if [(a.name, str(a.type)) for a in arguments] == own:
            return other, written
    return None, written


def _write(outs: Sequence[torch.Tensor], results: Sequence[torch.Tensor], *, resize: bool) -> None:
    for out, result in zip(outs, results, strict=True):
        if resize and out.shape != result.shape:
            out.resize_(result.shape)
        out.copy_(result)


def _kernel(overload: Any, written: list[str], decomposition: Callable[..., Any]) -> Callable[..., Any]:
    names = [a.name for a in overload._schema.arguments]
    if not written:
        return decomposition

    def run(*args: Any, **kwargs: Any) -> Any:
        bound = dict(zip(names, args, strict=False)) | kwargs
        outs = [bound[name] for name in written]
        keep = {k: v for k, v in bound.items() if k not in written or k == "self"}
        results = decomposition(**keep)
        results = results if isinstance(results, tuple) else (results,)
        _write(outs, results, resize="self" not in written)
        return outs[0] if len(outs) == 1 else tuple(outs)

    return run


def _one_program(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel whose ops run together when it ends."""

    @functools.wraps(kernel)
    def run(*args: Any, **kwargs: Any) -> Any:
        _core.open_scope()
        try:
            return kernel(*args, **kwargs)
        finally:
            _core.close_scope()

    return run


def register(name: str, overload: str) -> bool:
    """Registers the decomposition of an op; False when torch has none."""
    global _library
    full = f"{name}.{overload}" if overload else name
    if full in _registered or not name.startswith("aten::"):
        return False
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    op = getattr(packet, overload or "default", None)
    if op is None:
        return False
    functional, written = op, []
    decomposition = _table().get(op)
    if decomposition is None:
        functional, written = _functional(packet, op)
        decomposition = _table().get(functional) if functional is not None else None
    if decomposition is None:
        return False
    if _library is None:
        _library = torch.library.Library("aten", "IMPL")
    kernel = _one_program(_kernel(op, written, decomposition))
    _library.impl(full.removeprefix("aten::"), kernel, KEY)
    _registered.add(full)
    return True


def registered() -> list[str]:
    """Ops that run as torch's decompositions."""
    return sorted(_registered)
