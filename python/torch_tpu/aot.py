"""torch_tpu.aot: what a function or a whole training step costs on a TPU, and its executable, with no TPU.

The function runs once over tensors that hold nothing: its ops are put off and never computed, so that a model needs no
memory. Their program goes to the real TPU compiler, in a child process.
"""

import contextlib
import copy
import dataclasses
import gc
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from torch_tpu import _core
from torch_tpu._step import CompiledStep, _Watch

__all__ = ["Compiled", "Kept", "compile", "keeping", "program"]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A program compiled for a TPU.

    text: its StableHLO. topology: such as "v6e:1x1". report: what `python -m torch_tpu aot --json` prints: chip, cost
    (flops, bytes_accessed, estimated_cycles, estimated_seconds), memory (bytes), top (the costliest instructions).
    first: the program of a step that has yet to make its optimizer's states; None where it is the same.
    """

    text: str
    topology: str
    report: Mapping[str, Any]
    first: str | None = None

    @property
    def estimated_seconds(self) -> float | None:
        """The compiler's estimate for one run."""
        return self.report["cost"].get("estimated_seconds")

    @property
    def peak_hbm_bytes(self) -> int | None:
        """Bytes of the device's memory at the most."""
        return self.report["memory"].get("peak_hbm_bytes")

    def save(self, path: str | Path) -> None:
        """Writes the serialized executable."""
        _compile(self.text, self.topology, output=str(Path(path).absolute()))

    def keep(self, folder: str | Path | None = None) -> None:
        """Puts the executable, and that of ``first``, into a folder of the disk cache, the user's own unless named.

        A process on such a TPU that has the folder (``TORCH_TPU_CACHE_DIR``) and the same libtpu finds it there and
        compiles nothing.
        """
        for text in (self.text, self.first):
            if text is not None:
                _keep(text, self.topology, folder)

    def __str__(self) -> str:
        from torch_tpu._cli.aot import render

        return "\n".join(render(self.report, "program", self.report.get("compile_seconds", 0.0)))


def compile(
    function: Callable, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, *, topology: str = "v6e:1x1"
) -> Compiled:
    """Compiles what ``function(*args, **kwargs)`` computes, for a TPU that need not be there.

    ``function`` is an nn.Module, any function on tensors, or a training step (also one of ``torch_tpu.compile_step``:
    forward, backward and optimizer become one program, with the optimizer's states as inputs). Tensors among the
    arguments and parameters of a module may be on any device, also ``meta``: only their sizes and dtypes count.
    A function's own tensors (in its closure) are on ``tpu``.

    Raises what the function raises; RuntimeError where it looks at a value, and with the compiler's words where it
    refuses the program.
    """
    first, text = _programs(function, args, kwargs)
    return Compiled(text, topology, _compile(text, topology), None if first == text else first)


@dataclasses.dataclass
class Kept:
    """What ``keeping`` did. programs: how many executables were kept. refused: the compiler's words, one a program."""

    programs: int = 0
    refused: list[str] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def keeping(topology: str = "v6e:1x1", folder: str | Path | None = None) -> Iterator[Kept]:
    """Compiles every program that runs inside for a TPU too, and keeps the executables for it: see ``Compiled.keep``.

    What runs on the simulator, step by step, compiled or not, then starts warm on a TPU. A program that the compiler
    refuses is told in the result, which is filled when the block ends.
    """
    kept = Kept()
    _core.record_programs(True)
    try:
        yield kept
        torch.tpu.synchronize()
        texts = _core.take_programs()
    finally:
        _core.record_programs(False)
    for text in texts:
        try:
            _keep(text, topology, folder)
        except RuntimeError as error:
            kept.refused.append(str(error))
        else:
            kept.programs += 1


def _keep(text: str, topology: str, folder: str | Path | None) -> None:
    _compile(text, topology, keep="" if folder is None else str(Path(folder).absolute()))


def _compile(text: str, topology: str, **options: str) -> dict[str, Any]:
    from torch_tpu._cli.aot import refusal

    start = time.monotonic()
    try:
        report = json.loads(_core.aot_compile(text, topology, json.dumps(options)))
    except _core.AotError as error:
        raise RuntimeError(refusal(str(error), "the program", topology)) from None
    return {"compile_seconds": time.monotonic() - start, **report}


def program(function: Callable, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> str:
    """The StableHLO of ``function(*args, **kwargs)``: see ``compile``."""
    return _programs(function, args, kwargs)[1]


def _programs(function: Callable, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> tuple[str, str]:
    """What the first call runs, and what every later one does."""
    args, kwargs = pytree.tree_map(_blank, (tuple(args), dict(kwargs or {})))
    if isinstance(function, CompiledStep):
        function = function.step
    if isinstance(function, nn.Module):
        function = _on_device(function)
    before = _Keeper()
    try:
        first, watch = _capture(function, args, kwargs, before)
        text = first
        if watch.optimizers:
            # The first step made the optimizers' states; every later one has them as inputs.
            text, _ = _capture(function, args, kwargs, before)
    finally:
        before.restore()
    return first, text


def _capture(function: Callable, args: tuple, kwargs: dict, before: "_Keeper") -> tuple[str, _Watch]:
    _core.begin_dry()
    try:
        with _Watch(function, first=before.optimizer) as watch:
            # What is returned lives until the program is made: it is wanted.
            result = function(*args, **kwargs)
        before.gradients(watch)
        text = _core.end_dry(torch.tpu.current_device())
    except BaseException:
        _core.abandon_capture()
        raise
    del result
    if text is None:
        raise ValueError("the function computes nothing on tpu tensors")
    return text, watch


class _Keeper:
    """Puts back what a step leaves behind: states of optimizers and gradients that were never computed."""

    def __init__(self) -> None:
        self._optimizers: dict[int, tuple[torch.optim.Optimizer, dict, list[dict]]] = {}
        # Of all parameters there are: which ones a function reaches is known when it has dropped their gradients.
        every = (p for p in gc.get_objects() if issubclass(type(p), nn.Parameter) and p.device.type == "tpu")
        self._gradients: dict[int, tuple[Tensor, Tensor | None]] = {id(p): (p, p.grad) for p in every}

    def optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        if id(optimizer) in self._optimizers:
            return
        states = {p: dict(state) for p, state in optimizer.state.items()}
        groups = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        self._optimizers[id(optimizer)] = (optimizer, states, groups)

    def gradients(self, watch: _Watch) -> None:
        for p in watch.parameters():
            self._gradients.setdefault(id(p), (p, None))

    def restore(self) -> None:
        for optimizer, states, groups in self._optimizers.values():
            optimizer.state.clear()
            optimizer.state.update(states)
            for group, then in zip(optimizer.param_groups, groups, strict=True):
                group.update(then)
        for p, grad in self._gradients.values():
            p.grad = grad


def _blank(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.device.type == "tpu":
        return value
    made = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="tpu")
    return made.requires_grad_(value.requires_grad)


def _on_device(module: nn.Module) -> nn.Module:
    """The module, or one like it whose parameters hold nothing."""
    tensors = [*module.parameters(), *module.buffers()]
    if all(t.device.type == "tpu" for t in tensors):
        return module
    made: dict[int, Any] = {}
    for t in tensors:
        blank = _blank(t.detach())
        made[id(t)] = nn.Parameter(blank, requires_grad=t.requires_grad) if isinstance(t, nn.Parameter) else blank
    return copy.deepcopy(module, made)
