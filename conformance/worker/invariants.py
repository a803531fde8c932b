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
_TIED: dict[str, int] = {"topk": 1, "kthvalue": 1, "mode": 0, "msort": -1}

# The CPU's own rounding errors exceed the tolerances. The result of the CPU in double precision, rounded, is then the
# measure: the tolerances are the same, and a result as far off as the CPU's fails.
_HALVES = (torch.float16, torch.bfloat16)
_SINGLES = (torch.float32, torch.complex64)
_IN_DOUBLE: dict[str, tuple[torch.dtype, ...]] = {
    # A norm of some tens is squared again and again.
    "matrix_exp": (*_HALVES, *_SINGLES),
    # A half is rounded after each addition.
    "_segment_reduce": _HALVES,
    "index_reduce": _HALVES,
    "_unsafe_masked_index_put_accumulate": _HALVES,
    # As `x * rstd - mean * rstd`, each product a half: not zero where all elements are equal.
    "native_layer_norm": _HALVES,
    # The logarithm of the sum is rounded to a half before it is subtracted.
    "log_softmax": _HALVES,
    "masked.log_softmax": _HALVES,
    # Composed of ops that each give a half.
    "nn.functional.binary_cross_entropy_with_logits": _HALVES,
    # The difference, its square and their mean are halves, and so is a sum of losses.
    "nn.functional.mse_loss": _HALVES,
    "nn.functional.nll_loss": _HALVES,
    # Weights are halves in the product with the values, and sums of some lengths.
    "nn.functional.scaled_dot_product_attention": _HALVES,
    # Overlapping windows are added to a half.
    "nn.functional.conv_transpose2d": _HALVES,
    "nn.functional.conv_transpose3d": _HALVES,
    # One dimension after the other, each result a half.
    "nn.functional.interpolate.bicubic": _HALVES,
    "nn.functional.interpolate.linear": _HALVES,
    "nn.functional.interpolate.trilinear": _HALVES,
    # Three real convolutions, and their differences.
    "nn.functional.conv2d": (torch.complex64,),
    # Each step from a coordinate to a weight is a half: bfloat16 knows not even the places of a row of 300.
    "nn.functional.grid_sample": _HALVES,
    "grid_sampler_2d": _HALVES,
    "grid_sampler_3d": _HALVES,
    # By logarithm, product and exponential in single precision.
    "pow": (torch.complex64,),
    "__rpow__": (torch.complex64,),
    # Small products are added in one chain.
    "addbmm": (torch.complex64,),
    "baddbmm": (torch.complex64,),
    # Small tensors: the product with alpha is rounded to a half, that of large ones is not.
    "add": _HALVES,
    "sub": _HALVES,
    # Each step divides by what the last one left.
    "linalg.ldl_factor": (torch.float32,),
    "linalg.ldl_factor_ex": (torch.float32,),
    # The quotient of the greatest singular value and the least: an error in the least is an error in all digits.
    "linalg.cond": _SINGLES,
}
# The same, where only gradients are computed so. In halves they add what overlapping windows, repeated places and
# broadcasts give an element, and round it after each addition.
_GRADIENTS_IN_DOUBLE: dict[str, tuple[torch.dtype, ...]] = {
    "_unsafe_masked_index": _HALVES,
    "nn.functional.adaptive_avg_pool2d": _HALVES,
    "nn.functional.adaptive_avg_pool3d": _HALVES,
    "nn.functional.avg_pool1d": _HALVES,
    "nn.functional.avg_pool2d": _HALVES,
    "nn.functional.avg_pool3d": _HALVES,
    "nn.functional.interpolate.area": _HALVES,
    "unfold": _HALVES,
    "unfold_copy": _HALVES,
    # Of halves the CPU keeps the moments and the denominators of the forward pass in halves.
    "nn.functional.layer_norm": _HALVES,
    # Long sums with much cancellation, in single precision: the CPU adds them in one chain.
    "nn.functional.conv3d": (torch.float32,),
    "kron": (torch.float32,),
    # Differences of eigenvalues and small singular values, as divisors, magnify the errors of LAPACK in singles.
    "svd": (torch.float32,),
    "linalg.svd": (torch.float32,),
    "linalg.eigh": (torch.float32,),
    "linalg.eig": (torch.float32,),
    "linalg.eigvals": (torch.float32,),
    "linalg.lstsq": (torch.float32,),
    "linalg.lstsq.grad_oriented": (torch.float32,),
    "cholesky_solve": (torch.float32,),
    "linalg.tensorsolve": (torch.float32,),
}


def in_double(op: OpInfo, dtype: torch.dtype, *, grad: bool = False, twice: bool = False) -> bool:
    """Whether the CPU in double precision is the measure, for gradients with ``grad``, for theirs with ``twice``.

    Second gradients of halves are not in the second table: formulas of many ops give them, and each op rounds, on both
    sides alike.
    """
    names = (op.name, f"{op.name}.{op.variant_test_name}")
    tables = (_IN_DOUBLE, _GRADIENTS_IN_DOUBLE) if grad and not (twice and dtype in _HALVES) else (_IN_DOUBLE,)
    return any(dtype in table.get(name, ()) for table in tables for name in names)


def tied(op: OpInfo, call: object) -> bool:
    """Whether a gradient goes to one of several equal elements: the CPU's unstable sorts choose it by their swaps."""
    if op.name not in _TIED or not isinstance(call.input, Tensor) or not call.input.dim():
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
