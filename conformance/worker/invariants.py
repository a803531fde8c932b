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


def _layer_norm(result: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The moments of halves are singles in torch's Meta kernel and on accelerators, and halves on the CPU."""
    normal, mean, rstd = result
    return normal, mean.to(normal.dtype), rstd.to(normal.dtype)


_INVARIANTS: dict[str, Invariant] = {
    "native_layer_norm": _layer_norm,
    "linalg.svd": _svd,
    "svd": _old_svd,
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.eigvals": _sorted,
    "svd_lowrank": _old_svd,
    "pca_lowrank": _old_svd,
}


def _picked(call: object, result: tuple[Tensor, Tensor], distinct: bool, at: int) -> tuple[Tensor, Tensor, bool]:
    """Values and what the indices point to, and that no place is named twice.

    Which of several equal elements is named is not promised: the documentation of `torch.topk` says so, and on the CPU
    the quickselect of `topk` and `kthvalue` decides by the order in which it happens to swap.
    """
    values, indices = result
    source = call.input
    dim = call.kwargs.get("dim", call.args[at] if len(call.args) > at else -1)
    if indices.dim() < source.dim():
        indices = indices.unsqueeze(dim)
    once = not (distinct and indices.dim()) or not bool(indices.sort(dim).values.diff(dim=dim).eq(0).any())
    return values, source.gather(dim, indices), once


def _permutation(call: object, indices: Tensor) -> tuple[Tensor, bool]:
    """What an unstable sort's indices point to, and that they name each place once."""
    dim = call.kwargs.get("dim", call.args[0] if call.args else -1)
    if not indices.dim():
        return call.input, bool(indices == 0)
    places = torch.arange(indices.shape[dim]).view([-1] + [1] * (indices.dim() - 1 - dim % indices.dim()))
    return call.input.gather(dim, indices), bool((indices.sort(dim).values == places).all())


# For each op that chooses among equal elements: whether it names several in each slice, and which argument names the
# dimension.
_CHOOSING: dict[str, tuple[bool, int]] = {
    "topk": (True, 1),
    "kthvalue": (False, 1),
    "mode": (False, 0),
    "sort": (True, 0),
}
# For each op that moves elements and is not asked to keep the order of equal ones: which argument names the dimension.
_TIED: dict[str, int] = {"topk": 1, "kthvalue": 1, "mode": 0, "msort": -1, "sort": 0}


def tied(op: OpInfo, call: object) -> bool:
    """Whether a gradient goes to one of several equal elements: the CPU's unstable sorts choose it by their swaps."""
    if op.name not in _TIED or not isinstance(call.input, Tensor) or not call.input.dim() or call.kwargs.get("stable"):
        return False
    at = _TIED[op.name]
    dim = call.kwargs.get("dim", call.args[at] if len(call.args) > at >= 0 else 0 if op.name == "msort" else -1)
    return bool(call.input.detach().sort(dim).values.diff(dim=dim).eq(0).any())


def comparable(op: OpInfo, call: object, ours: object, theirs: object) -> tuple[object, object]:
    """Two results, reduced to what must be equal."""
    if op.name in _CHOOSING and not call.kwargs.get("stable"):
        here = tuple(t.cpu() for t in ours)
        return _picked(call, here, *_CHOOSING[op.name]), _picked(call, tuple(theirs), *_CHOOSING[op.name])
    if op.name == "argsort" and not call.kwargs.get("stable"):
        return _permutation(call, ours.cpu()), _permutation(call, theirs)
    reduce = _INVARIANTS.get(op.name)
    if reduce is None:
        return ours, theirs
    if reduce is not _layer_norm and not isinstance(theirs, Tensor) and any(t.numel() == 0 for t in theirs):
        # Without vectors, or of nothing.
        return ours, theirs
    here = ours.cpu() if isinstance(ours, Tensor) else type(theirs)(t.cpu() for t in ours)
    return reduce(here), reduce(theirs)
