"""torch.compile(backend="tpu"): graphs through AOTAutograd, each as one program made by the eager lowerings.

A graph runs once under capture: its ops are put off (the pending window of eager mode) and become one program, kept
with what its storages are: inputs, constants, outputs. Later calls bind other storages to it and run no Python of the
graph.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_tpu import _core
from torch_tpu._buckets import Padded
from torch_tpu._loop import storage_here

_log = logging.getLogger(__name__)

# A graph that needs more programs than this (one a set of offsets, aliases and numbers) runs op by op for what is new.
PROGRAMS = 16
# One with symbolic sizes has a program for each bucket (_buckets.py), and buckets of several sizes multiply.
BUCKETS = 64


class _Output:
    """How one output is made from the storages of a run."""

    def __init__(self, output: Any, inputs: Sequence[Any], storages: list[int], fresh: dict[int, Tensor]) -> None:
        self.constant, self.source, self.fresh = output, None, None
        if not isinstance(output, Tensor):
            return
        self.constant = None
        self.conjugate, self.negative = output.is_conj(), output.is_neg()
        for i, given in enumerate(inputs):
            if output is given:
                self.source, self.view = i, None
                return
        self.view = (output.size(), output.stride(), output.storage_offset())
        pointer = output.untyped_storage().data_ptr()
        if pointer in storages:
            self.source = storages.index(pointer)
            return
        fresh.setdefault(pointer, output)
        self.fresh = list(fresh).index(pointer)

    def make(self, inputs: Sequence[Any], made: Sequence[Tensor]) -> Any:
        """The output of a run, whose new storages lie behind ``made``."""
        if self.source is not None:
            given = inputs[self.source]
            return given if self.view is None else self._lazily(given.as_strided(*self.view))
        if self.fresh is None:
            return self.constant
        base = made[self.fresh]
        if (base.size(), base.stride(), base.storage_offset()) != self.view:
            base = base.as_strided(*self.view)
        return self._lazily(base)

    def _lazily(self, view: Tensor) -> Tensor:
        """With the marks by which torch puts off conjugation and negation: the storage holds the plain numbers."""
        if view.is_conj() != self.conjugate:
            view = torch._conj(view)
        return torch._neg_view(view) if view.is_neg() != self.negative else view


class _Program:
    """A captured program and how to make its outputs."""

    def __init__(self, captured: Any, outputs: list[_Output], fresh: Iterable[Tensor]) -> None:
        self.captured = captured
        self.outputs = outputs
        # Tensors of one storage have one dtype here: another one's view is not captured.
        self.fresh = [(t.size(), t.stride(), t.dtype, t.device, t.untyped_storage().nbytes()) for t in fresh]

    def run(self, inputs: Sequence[Any], storages: list[int]) -> list[Any] | None:
        """The outputs, or None where the inputs are not laid out as they were."""
        made = [_blank(*how) for how in self.fresh]
        if not self.captured.run(storages, [t.untyped_storage().data_ptr() for t in made]):
            return None
        return [output.make(inputs, made) for output in self.outputs]


def _blank(size: Any, stride: Any, dtype: torch.dtype, device: torch.device, nbytes: int) -> Tensor:
    made = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if made.untyped_storage().nbytes() != nbytes:
        made = torch.empty(nbytes // dtype.itemsize, dtype=dtype, device=device)
    return made


class Graph:
    """A graph of AOTAutograd, called with the list of its inputs."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.programs: dict[tuple, _Program] = {}
        self.limit = PROGRAMS
        self.eager = False

    def __call__(self, args: list[Any]) -> Any:
        inputs = list(args)
        args.clear()
        if self.eager or _core.eager_mode() == "debug":
            return self.module(*inputs)
        storages = [storage_here(x) for x in inputs]
        key = _key(inputs, storages)
        if key is None:
            return self.module(*inputs)
        program = self.programs.get(key)
        if program is not None:
            outputs = program.run(inputs, storages)
            if outputs is not None:
                return outputs
        elif len(self.programs) >= self.limit:
            return self.module(*inputs)
        return self._capture(key, inputs, storages)

    def _capture(self, key: tuple, inputs: list[Any], storages: list[int]) -> Any:
        device = next(x.device.index or 0 for x in inputs if isinstance(x, Tensor))
        _core.begin_capture()
        try:
            outputs = self.module(*inputs)
        except BaseException:
            _core.abandon_capture()
            raise
        flat = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        tensors = [t for t in flat if isinstance(t, Tensor)]
        if any(t.device.type != "tpu" for t in tensors):
            _core.abandon_capture()
            self.eager = True
            return outputs
        fresh: dict[int, Tensor] = {}
        made = [_Output(output, inputs, storages, fresh) for output in flat]
        captured = _core.end_capture(storages, list(fresh), device)
        if captured is None:
            _log.debug("a graph of %d nodes runs op by op", len(self.module.graph.nodes))
            self.eager = True
        else:
            self.programs[key] = _Program(captured, made, fresh.values())
        return outputs


class Bucketed:
    """A graph with symbolic sizes, called with the list of its inputs: padded to buckets where that changes nothing."""

    def __init__(self, module: torch.fx.GraphModule, padded: Padded) -> None:
        self.padded = padded
        self.inner = Graph(module)
        self.inner.module = padded.run
        self.inner.limit = BUCKETS
        self.exact = Graph(module)

    def __call__(self, args: list[Any]) -> Any:
        here = all(x.device.type == "tpu" for x in args if isinstance(x, Tensor))
        buckets = self.padded.buckets(args) if here and not self.inner.eager else None
        if buckets is None or _core.eager_mode() == "debug":
            return self.exact(args)
        inputs = list(args)
        args.clear()
        outputs = self.inner(self.padded.pad(inputs, buckets))
        return self.padded.cut(outputs, inputs)


def _key(inputs: Sequence[Any], storages: Sequence[int]) -> tuple | None:
    """What a program depends on besides what the graph's guards hold: layouts, numbers, shared storages."""
    parts: list[Any] = []
    seen: dict[int, int] = {}
    for i, (x, storage) in enumerate(zip(inputs, storages, strict=True)):
        if isinstance(x, Tensor):
            if not storage:
                # Its value would be a constant of the program.
                return None
            lazily = (x.is_conj(), x.is_neg())
            parts.append((x.shape, x.stride(), x.storage_offset(), x.dtype, lazily, seen.setdefault(storage, i)))
        else:
            parts.append(x)
    return tuple(parts) if seen else None


def callable_of(module: torch.fx.GraphModule, training: bool) -> Callable[[list[Any]], Any]:
    """What runs a graph of AOTAutograd; one that is differentiated is not padded: its results are kept for backward."""
    padded = None if training else Padded.of(module)
    return Graph(module) if padded is None else Bucketed(module, padded)


def tpu(gm: Any, example_inputs: list[Any], **_options: Any) -> Callable[..., Any]:
    """The backend that torch._dynamo calls with a captured graph and its inputs."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler

    from torch_tpu import _kept_graphs

    def compiler(module: torch.fx.GraphModule, _inputs: Sequence[Any], training: bool) -> Callable[[list[Any]], Any]:
        return _kept_graphs.GraphCode(module, training).made()

    def kind(training: bool) -> Callable[..., Any]:
        made = functools.partial(compiler, training=training)
        return SerializableAOTDispatchCompiler(_kept_graphs.GraphCode, made) if kept else made

    kept = _kept_graphs.keeps()
    with _kept_graphs.settings() if kept else contextlib.nullcontext():
        return aot_autograd(
            fw_compiler=kind(True),
            bw_compiler=kind(True),
            inference_compiler=kind(False),
            partition_fn=min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )(gm, example_inputs)
