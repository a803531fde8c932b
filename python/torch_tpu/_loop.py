"""Loops of a program: a body recorded once on placeholders, which the program runs several times.

``Recording`` is between ``begin_loop`` and ``end_loop`` of the core: ops of its body are put off like others, and what
they make is known to the body alone. ``Saved`` is what autograd keeps of a body: stacked, a slice for each turn, or,
where it is something that the body was given, that.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from torch_tpu import _core

Pairs = list[tuple[int, int]]


class Refused(Exception):
    """A body that no loop can have; its text says why."""


def storage(t: Tensor) -> int:
    """The address of a tensor's storage."""
    return t.untyped_storage().data_ptr()


def storage_here(value: Any) -> int:
    """The address of a tensor's storage on the device; 0 for what has none there, or several."""
    if not isinstance(value, Tensor) or value.device.type != "tpu" or value.layout != torch.strided:
        return 0
    return 0 if is_traceable_wrapper_subclass(value) else storage(value)


def plain(t: Tensor) -> Tensor:
    """A copy in row-major order, alone in its storage."""
    with torch.no_grad():
        return t.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)


def _like(t: Tensor, size: Sequence[int] | None = None) -> Tensor:
    return torch.empty(t.shape if size is None else size, dtype=t.dtype, device=t.device)


class Recording:
    """A loop while its body is recorded.

    carried, taken: placeholders of what a turn is given by the one before, and of what it takes from stacks. Without a
    length the loop's condition is recorded first, and nothing is stacked.
    """

    def __init__(
        self,
        length: int | None,
        carries: Sequence[Tensor],
        stacks: Sequence[Tensor],
        reverse: bool = False,
        like: int = 0,
    ) -> None:
        self.length = length
        first = [plain(c) for c in carries]
        stacks = [s if s.is_contiguous() else plain(s) for s in stacks]
        self.carried = [_like(c) for c in first]
        self.taken = [_like(s, s.shape[1:]) for s in stacks]
        self.device = (*first, *stacks)[0].device.index or 0
        pairs = [
            [(storage(a), storage(b)) for a, b in zip(*ab, strict=True)]
            for ab in ((first, self.carried), (stacks, self.taken))
        ]
        self.number = _core.begin_loop(self.device, length or 0, reverse, like or None, *pairs)

    def __enter__(self) -> "Recording":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            _core.abandon_loop(self.device)

    def known(self, t: Tensor) -> str:
        """What a tensor's storage is to the body: "outside", "given" or "written"."""
        return _core.known_to_loop(self.device, storage(t)) if t.device.type == "tpu" else "outside"

    def goes_on(self, t: Tensor) -> None:
        """Ends the condition, which gave this bool; the body follows."""
        _core.end_condition(self.device, storage(plain(t)))

    def end(self, carries: Sequence[Tensor], put: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The last carried values, and stacks of what the body leaves in each turn."""
        carries, put = [plain(c) for c in carries], [plain(p) for p in put]
        last = [_like(c) for c in carries]
        stacks = [_like(p, (self.length, *p.shape)) for p in put]
        pairs: list[Pairs] = [
            [(storage(a), storage(b)) for a, b in zip(*ab, strict=True)] for ab in ((carries, last), (put, stacks))
        ]
        self.draws = _core.end_loop(self.device, *pairs) > 0
        return last, stacks


def _in_order(t: Tensor | None, count: int) -> Tensor | None:
    """A tensor's dimensions as they lie in memory, if it is all that its storage holds."""
    if t is None or t.numel() != count or t.storage_offset() != 0 or t.is_conj() or t.is_neg():
        return None
    order = sorted(range(t.dim()), key=lambda d: (-t.stride(d), t.shape[d] == 1))
    ordered = t.detach().permute(order)
    return ordered if ordered.is_contiguous() else None


class Saved:
    """What autograd keeps of a body, and where a later loop finds it."""

    def __init__(self, recording: Recording) -> None:
        self.recording: Recording | None = recording
        self.given = {storage(t): i for i, t in enumerate(recording.taken)}
        # What is stacked.
        self.stacked: list[Tensor] = []
        self._at: dict[tuple, int] = {}
        # No storage's address is used twice while these live.
        self._held: list[Tensor] = []
        # What the body only looks at.
        self.outside: list[Tensor] = []
        self.bind((), (), ())

    def hooks(self) -> Any:
        """Has autograd keep things here."""
        return torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    def bind(self, taken: Sequence[Tensor], slices: Sequence[Tensor], there: Sequence[Tensor]) -> None:
        """Says where it is found: what the body was given, one of each stack, and ``outside``."""
        self.taken, self.slices, self.there = taken, slices, there

    def close(self) -> None:
        """Leaves numbers of stacks only. Autograd's graph holds this, out of sight of Python's garbage collector, so
        nothing here may hold the graph.
        """
        self.recording = None
        self.stacked, self.outside, self._held = [], [], []
        self._at.clear()

    def _pack(self, t: Tensor) -> Callable[[], Tensor]:
        known = self.recording.known(t)
        if known == "outside":
            at = len(self.outside)
            self.outside.append(t.detach())
            return lambda: self.there[at]
        self._held.append(t)
        whole = t.untyped_storage().nbytes() // t.itemsize
        view = (t.shape, t.stride(), t.storage_offset())
        place = self.given.get(storage(t))
        lazily = t.is_conj() or t.is_neg()
        # A view of another dtype counts otherwise.
        own = place is not None and t.dtype == self.recording.taken[place].dtype
        if known == "given" and own and not lazily:
            return lambda: _seen(self.taken[place], view)
        base = t._base if t._base is not None and t._base.dtype == t.dtype else None
        found = next((b for b in (_in_order(t, whole), _in_order(base, whole)) if b is not None), None)
        if found is None or lazily:
            found, key, view = t, (len(self._held),), None
        else:
            key = (storage(t), t.dtype, t._version)
        if key not in self._at:
            self._at[key] = len(self.stacked)
            self.stacked.append(plain(found))
        number = self._at[key]
        return lambda: self.slices[number] if view is None else _seen(self.slices[number], view)

    def _unpack(self, kept: Callable[[], Tensor]) -> Tensor:
        return kept()


def _seen(t: Tensor, view: tuple) -> Tensor:
    return t if (t.shape, t.stride(), t.storage_offset()) == view else t.as_strided(*view)
