"""Sizes that differ from call to call: what a padded tensor's dimensions mean, and masks over the padding.

A graph with symbolic sizes runs on tensors padded to a bucket. A dimension of such a tensor is a product of parts; a
part of symbolic size holds its elements in front and anything at all behind: NaN, too. Whoever mixes elements along
such a part masks the rest first (_rules.py). What cannot be told this way raises ``Unsupported``, before anything runs.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import Tensor
from torch.utils._sympy.functions import FloorDiv, Max, Min

# A dimension: the sizes whose product it is, the outermost first, none of them 1. () is a dimension of size 1.
Dim = tuple[sympy.Expr, ...]


class Unsupported(Exception):
    """Padding could show in the result."""


@dataclasses.dataclass(frozen=True)
class Ragged:
    """A padded tensor and what its dimensions are."""

    value: Tensor
    dims: tuple[Dim, ...]

    @property
    def static(self) -> bool:
        """Nothing is padded."""
        return all(part.is_Integer for dim in self.dims for part in dim)


def dim_of(size: Any) -> Dim:
    """A dimension that is one part."""
    size = sympy.sympify(size)
    return () if size == 1 else (size,)


def product(dim: Sequence[sympy.Expr]) -> sympy.Expr:
    """The size of a dimension."""
    return sympy.expand(sympy.Mul(*dim))


def single(dim: Dim) -> sympy.Expr:
    """The size of a dimension whose padding, if it has any, is all at its end."""
    if len(dim) > 1 and any(not part.is_Integer for part in dim):
        raise Unsupported("a position along merged dimensions")
    return product(dim)


def ragged(dim: Dim) -> bool:
    """Some of it is padding."""
    return any(not part.is_Integer for part in dim)


class Sizes:
    """The symbols of a graph: their buckets, and their values as tensors on the device."""

    def __init__(self, buckets: dict[sympy.Symbol, int], values: dict[sympy.Symbol, Tensor], device: Any) -> None:
        self.buckets = buckets
        self.values = values
        self.device = device
        self._tensors: dict[sympy.Expr, Tensor] = {}

    def bound(self, size: Any) -> int:
        """The padded size: no less than the size itself for any value up to the bucket."""
        return int(self._bound(sympy.sympify(size), True))

    def _bound(self, e: sympy.Expr, above: bool) -> int:
        if e.is_Integer:
            return int(e)
        if e.is_Symbol:
            if e not in self.buckets:
                raise Unsupported(f"a size that only a run tells: {e}")
            # Below: a size of 0 or more is all that is known.
            return self.buckets[e] if above else 0
        if isinstance(e, sympy.Add):
            return sum(self._bound(term, above) for term in e.args)
        if isinstance(e, sympy.Mul):
            number, rest = e.as_coeff_mul()
            if not number.is_Integer:
                raise Unsupported(f"the size {e}")
            out, above = int(number), above if number > 0 else not above
            for factor in rest:
                if isinstance(factor, sympy.Add) and self._bound(factor, False) < 0:
                    raise Unsupported(f"the size {e}")
                out *= self._bound(factor, above)
            return out
        if isinstance(e, sympy.Pow) and e.exp.is_Integer and e.exp > 0:
            return self._bound(e.base, above) ** int(e.exp)
        if isinstance(e, FloorDiv) and e.args[1].is_Integer and e.args[1] > 0:
            return self._bound(e.args[0], above) // int(e.args[1])
        if isinstance(e, Max | sympy.Max):
            return max(self._bound(arg, above) for arg in e.args)
        if isinstance(e, Min | sympy.Min):
            return min(self._bound(arg, above) for arg in e.args)
        raise Unsupported(f"the size {e}")

    def tensor(self, e: Any) -> Tensor:
        """A size's value in this run, as an int64 tensor without dimensions."""
        e = sympy.sympify(e)
        if e not in self._tensors:
            self._tensors[e] = self._tensor(e)
        return self._tensors[e]

    def _tensor(self, e: sympy.Expr) -> Tensor:
        if e.is_Integer:
            return torch.full((), int(e), dtype=torch.int64, device=self.device)
        if e.is_Symbol:
            if e not in self.values:
                raise Unsupported(f"a size that only a run tells: {e}")
            return self.values[e]
        parts = {
            sympy.Add: torch.add,
            sympy.Mul: torch.mul,
            FloorDiv: torch.floor_divide,
            Max: torch.maximum,
            sympy.Max: torch.maximum,
            Min: torch.minimum,
            sympy.Min: torch.minimum,
        }.get(type(e))
        if parts is not None:
            out = self.tensor(e.args[0])
            for arg in e.args[1:]:
                out = parts(out, self.tensor(arg))
            return out
        if isinstance(e, sympy.Pow) and e.exp.is_Integer and e.exp > 0:
            return self.tensor(e.base) ** int(e.exp)
        raise Unsupported(f"a number computed from sizes: {e}")

    def positions(self, size: int) -> Tensor:
        """0, 1, ... up to a padded size."""
        return torch.arange(size, device=self.device)

    def inside(self, dim: Dim) -> Tensor | None:
        """Which positions of a dimension are not padding; None where all are."""
        if not ragged(dim):
            return None
        bounds = [self.bound(part) for part in dim]
        out = None
        for i, part in enumerate(dim):
            if part.is_Integer:
                continue
            here = self.positions(bounds[i]) < self.tensor(part)
            here = here.view([bounds[i] if j == i else 1 for j in range(len(dim))])
            out = here if out is None else out & here
        assert out is not None
        return out.expand(bounds).reshape(-1)

    def mask(self, dims: Sequence[Dim], along: Sequence[int] | None = None) -> Tensor | None:
        """Which elements are not padding along some dimensions (all of them by default); None where all are."""
        out = None
        for i in range(len(dims)) if along is None else along:
            here = self.inside(dims[i])
            if here is not None:
                here = here.view([-1 if j == i else 1 for j in range(len(dims))])
                out = here if out is None else out & here
        return out

    def filled(self, x: Ragged, with_what: float, along: Sequence[int] | None = None) -> Tensor:
        """The padded tensor with a number for its padding."""
        mask = self.mask(x.dims, along)
        if mask is None:
            return x.value
        return torch.where(mask, x.value, torch.full((), with_what, dtype=x.value.dtype, device=x.value.device))


def regroup(dims: Sequence[Dim], sizes: Sequence[Any]) -> tuple[Dim, ...]:
    """The dimensions after a reshape to ``sizes``: parts stay whole, so that padding stays where it was."""
    parts: list[sympy.Expr] = []
    for part in (part for dim in dims for part in dim):
        if parts and part.is_Integer and parts[-1].is_Integer:
            parts[-1] *= part
        else:
            parts.append(part)
    if all(part.is_Integer for part in [*parts, *map(sympy.sympify, sizes)]):
        return tuple(map(dim_of, sizes))
    out: list[Dim] = []
    for size in sizes:
        left, taken = sympy.expand(sympy.sympify(size)), []
        while left != 1:
            if not parts:
                raise Unsupported("a reshape across a padded dimension")
            part = parts[0]
            if part.is_Integer and left.is_Integer and left < part:
                if part % left:
                    raise Unsupported("a reshape that cuts a dimension unevenly")
                parts[0] = part / left
                taken.append(left)
                break
            rest = sympy.cancel(left / part)
            if not (rest.is_Integer or sympy.denom(rest) == 1) or rest == 0:
                raise Unsupported("a reshape across a padded dimension")
            taken.append(parts.pop(0))
            left = sympy.expand(rest)
        out.append(tuple(taken))
    if parts:
        raise Unsupported("a reshape across a padded dimension")
    return tuple(out)


def joined(dims: Sequence[Sequence[Dim]]) -> tuple[Dim, ...]:
    """The dimensions of operands that are broadcast to each other."""
    rank = max(map(len, dims), default=0)
    out: list[Dim] = [()] * rank
    for one in dims:
        for i, dim in enumerate(one, rank - len(one)):
            if not dim or out[i] == dim:
                continue
            if out[i] and (ragged(out[i]) or ragged(dim) or product(out[i]) != product(dim)):
                raise Unsupported("operands that are padded in different ways")
            out[i] = dim
    return tuple(out)
