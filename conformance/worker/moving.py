"""Arguments of a sample, taken to another device as they are: strides, aliasing and leaves included."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from torch.utils._pytree import tree_leaves, tree_map


def _is_part(tensor: Tensor) -> bool:
    """Whether the storage begins before the tensor: as_strided may reach back, so the rest must come along."""
    return tensor.storage_offset() > 0 and not tensor.is_conj() and not tensor.is_neg()


def move_tensor(tensor: Tensor, device: str) -> Tensor:
    """A copy on a device, with the same strides, conjugate and negative bits, and need of a gradient."""
    if tensor.device.type in (device, "meta"):
        return tensor
    plain = tensor.detach()
    moved = plain.to(device)
    if plain.layout == torch.strided and (_is_part(plain) or moved.stride() != plain.stride()):
        flat = torch.empty(0, dtype=plain.dtype).set_(plain.untyped_storage())
        moved = flat.to(device).as_strided(plain.size(), plain.stride(), plain.storage_offset())
    if plain.is_conj() and not moved.is_conj():
        moved = moved.conj().clone().conj() if plain.layout == torch.strided else moved
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(moved, requires_grad=tensor.requires_grad)
    return moved.requires_grad_(tensor.requires_grad)


def mover(device: str) -> Callable:
    """A function that takes any structure of arguments to a device."""
    done: dict[int, tuple[Tensor, Tensor]] = {}

    def one(value: object) -> object:
        if isinstance(value, Tensor):
            if id(value) not in done:
                # The original is kept: another tensor must not get its number.
                done[id(value)] = (value, move_tensor(value, device))
            return done[id(value)][1]
        if isinstance(value, torch.device) and value.type == "cpu":
            return torch.device(device)
        if isinstance(value, str) and value == "cpu":
            return device
        if isinstance(value, torch.Generator):
            return torch.Generator(device).manual_seed(value.initial_seed())
        return value

    return lambda value: tree_map(one, as_on_cpu(value))


def as_on_cpu(value: object) -> object:
    """The structure with torch's choice for the CPU where it would choose otherwise for an accelerator.

    `linear_cross_entropy` sums halves in single precision on the CPU, and in halves on what is neither that nor CUDA.
    """
    leaves = tree_leaves(value)
    if not any(isinstance(leaf, Tensor) and leaf.dtype in (torch.float16, torch.bfloat16) for leaf in leaves):
        return value

    def one(leaf: object) -> object:
        if not isinstance(leaf, LinearCrossEntropyOptions) or leaf.acc_policy != "auto" or leaf.acc_dtype is not None:
            return leaf
        return dataclasses.replace(leaf, acc_policy="accurate", acc_dtype=torch.float32)

    return tree_map(one, value)


def copied(value: object) -> object:
    """A structure whose tensors are fresh leaves, with the strides of the old ones."""
    done: dict[int, Tensor] = {}

    def one(item: object) -> object:
        if not isinstance(item, Tensor) or item.layout != torch.strided:
            return item
        if id(item) not in done:
            done[id(item)] = fresh_leaf(item)
        return done[id(item)]

    def fresh_leaf(item: Tensor) -> Tensor:
        with torch.no_grad():
            if _is_part(item):
                whole = torch.empty(0, dtype=item.dtype, device=item.device).set_(item.untyped_storage()).clone()
                fresh = whole.as_strided(item.size(), item.stride(), item.storage_offset())
                return fresh.requires_grad_(item.requires_grad)
            # What is stretched over an axis cannot be written: one step of it is, and is stretched again.
            base = item
            for axis, (size, stride) in enumerate(zip(item.size(), item.stride(), strict=True)):
                base = base.narrow(axis, 0, 1) if stride == 0 and size > 1 else base
            fresh = torch.empty_strided(base.size(), base.stride(), dtype=item.dtype, device=item.device)
            fresh = fresh.copy_(base).expand(item.size())
        return fresh.requires_grad_(item.requires_grad)

    return tree_map(one, value)


def turned(value: object) -> object:
    """A structure whose tensors hold their values in the opposite order, with the strides of the old ones."""

    def one(item: object) -> object:
        if not isinstance(item, Tensor) or item.layout != torch.strided or 0 in item.stride():
            return item
        with torch.no_grad():
            return item.copy_(item.flip(tuple(range(item.dim()))))

    return tree_map(one, copied(value))


# Types narrower than double precision, and it.
NARROW = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def widened(value: object) -> object:
    """A structure whose floats are fresh leaves in double precision."""

    def one(item: object) -> object:
        if not isinstance(item, Tensor) or item.dtype not in NARROW:
            return item
        return item.detach().to(NARROW[item.dtype]).requires_grad_(item.requires_grad)

    return tree_map(one, value)


_OF_SINGLES = {torch.float64: torch.float32, torch.complex128: torch.complex64}


def narrow_type(wide: torch.dtype, dtype: torch.dtype) -> torch.dtype:
    """What a result in double precision is where arguments are of a type; of singles some are complex, some not."""
    if wide == NARROW.get(dtype):
        return dtype
    return _OF_SINGLES.get(wide, wide) if dtype in _OF_SINGLES.values() else wide


def narrowed(value: object, dtype: torch.dtype) -> object:
    """The same, rounded to a type again."""

    def one(item: object) -> object:
        if not isinstance(item, Tensor):
            return item
        return item.detach().to(narrow_type(item.dtype, dtype))

    return tree_map(one, value)
