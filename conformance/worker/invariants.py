"""Results that more than one answer fits: what of them is the same for all."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.testing._internal.opinfo.core import OpInfo

# For each op, of a result: what any right answer agrees on.
Invariant = Callable[[object], object]


def _scaled(left: Tensor, values: Tensor, right: Tensor) -> Tensor:
    return (left * values.to(left.dtype).unsqueeze(-2)) @ right


def _svd(result: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    u, s, vh = result
    k = s.shape[-1]
    return s, _scaled(u[..., :k], s, vh[..., :k, :])


def _old_svd(result: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    u, s, v = result
    k = s.shape[-1]
    return s, _scaled(u[..., :k], s, v[..., :k].mH)


def _eigh(result: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    values, vectors = result
    return values, _scaled(vectors, values, vectors.mH)


def _eig(result: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    values, vectors = result
    vectors = vectors.gather(-1, _order(values).unsqueeze(-2).expand_as(vectors)).mT
    # A vector's projector does not know its phase.
    return _sorted(values), vectors.unsqueeze(-1) * vectors.conj().unsqueeze(-2)


def _order(values: Tensor) -> Tensor:
    """Eigenvalues come in no order: by the real part, then the imaginary one, both to a few digits."""
    key = torch.round(values.detach().cpu().real.double(), decimals=3) * 1e5 + values.detach().cpu().imag
    return key.argsort(-1).to(values.device)


def _sorted(values: Tensor) -> Tensor:
    return values.gather(-1, _order(values))


def ordered(op: OpInfo, result: object) -> object:
    """Results in an order that both devices share, before gradients of them are taken."""
    if op.name == "linalg.eigvals" and isinstance(result, Tensor):
        return _sorted(result)
    if op.name == "linalg.eig" and isinstance(result, tuple):
        values, vectors = result
        return _sorted(values), vectors.gather(-1, _order(values).unsqueeze(-2).expand_as(vectors))
    return result


_INVARIANTS: dict[str, Invariant] = {
    "linalg.svd": _svd,
    "svd": _old_svd,
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.eigvals": _sorted,
    "svd_lowrank": _old_svd,
    "pca_lowrank": _old_svd,
}


def _picked(call: object, result: tuple[Tensor, Tensor], distinct: bool) -> tuple[Tensor, Tensor, bool]:
    """Values and what the indices point to, and that no place is named twice.

    Which of several equal elements is named is not promised: the documentation of `torch.topk` says so, and on the CPU
    the quickselect of `topk` and `kthvalue` decides by the order in which it happens to swap.
    """
    values, indices = result
    source = call.input
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
    if indices.dim() < source.dim():
        indices = indices.unsqueeze(dim)
    once = not (distinct and indices.dim()) or not bool(indices.sort(dim).values.diff(dim=dim).eq(0).any())
    return values, source.gather(dim, indices), once


# For each op that chooses among equal elements: whether it names several in each slice.
_CHOOSING: dict[str, bool] = {"topk": True, "kthvalue": False}

# The CPU's own rounding errors exceed the tolerances many times: in `matrix_exp` a norm of some tens is squared again
# and again, and `segment_reduce` rounds to a half type after each addition. The result of the CPU in double precision,
# rounded, is the measure then.
_HALVES = (torch.float16, torch.bfloat16)
_IN_DOUBLE = {"matrix_exp": (*_HALVES, torch.float32, torch.complex64), "_segment_reduce": _HALVES}


def in_double(op: OpInfo, dtype: torch.dtype) -> bool:
    """Whether the CPU's result in double precision is the measure."""
    return dtype in _IN_DOUBLE.get(op.name, ())


def comparable(op: OpInfo, call: object, ours: object, theirs: object) -> tuple[object, object]:
    """Two results, reduced to what must be equal."""
    if op.name in _CHOOSING:
        several = _CHOOSING[op.name]
        here = tuple(t.cpu() for t in ours)
        return _picked(call, here, several), _picked(call, tuple(theirs), several)
    reduce = _INVARIANTS.get(op.name)
    if reduce is None:
        return ours, theirs
    if not isinstance(theirs, Tensor) and any(t.numel() == 0 for t in theirs):
        # Without vectors, or of nothing.
        return ours, theirs
    here = ours.cpu() if isinstance(ours, Tensor) else type(theirs)(t.cpu() for t in ours)
    return reduce(here), reduce(theirs)
