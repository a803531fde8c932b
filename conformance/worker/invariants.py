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
    return _sorted(values), vectors.abs().square().sum(-2)


def _sorted(values: Tensor) -> Tensor:
    """Eigenvalues come in no order: by the real part, then the imaginary one, both to a few digits."""
    key = torch.round(values.real, decimals=3) * 1e5 + values.imag
    return values.gather(-1, key.argsort(-1))


_INVARIANTS: dict[str, Invariant] = {
    "linalg.svd": _svd,
    "svd": _old_svd,
    "linalg.eigh": _eigh,
    "linalg.eig": _eig,
    "linalg.eigvals": _sorted,
}


def comparable(op: OpInfo, call: object, ours: object, theirs: object) -> tuple[object, object]:
    """Two results, reduced to what must be equal."""
    reduce = _INVARIANTS.get(op.name)
    if reduce is None:
        return ours, theirs
    if not isinstance(theirs, Tensor) and any(t.numel() == 0 for t in theirs):
        # Without vectors, or of nothing.
        return ours, theirs
    here = ours.cpu() if isinstance(ours, Tensor) else type(theirs)(t.cpu() for t in ours)
    return reduce(here), reduce(theirs)
