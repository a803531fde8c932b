"""torch_tpu.compile_step: forward, backward and optimizer as one program.

A call runs the step function under capture: the ops of all threads, autograd's too, are put off and run as one program
at its end. The first call compiles it; a later call whose ops are the same compiles nothing, whatever its numbers are
(learning rate, step count, seed). When two calls in a row gave the same program and the same numbers, a third one binds
its arguments to the program and runs no Python of the step: the function's own numbers do not change from call to call.
What could change them is watched: see ``_Watch``.
"""

import functools
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils import _pytree as pytree

from torch_tpu import _core
from torch_tpu._compile import _blank, _key, _Output
from torch_tpu._loop import storage_here

_log = logging.getLogger(__name__)

# Each form of arguments has programs of its own; the oldest of more than this is forgotten.
FORMS = 64


class _Watch:
    """What a step used besides its arguments: optimizers, modules, numbers that its code names, torch's modes.

    Numbers that Python hands to ops are held by the comparison of two captures. What is watched here is what could
    change those numbers, or the ops, at the next call.
    """

    def __init__(self, step: Callable, first: Callable[[Optimizer], None] = lambda _: None) -> None:
        # Called with each optimizer before its step changes anything.
        self.first = first
        self.optimizers: dict[int, weakref.ref] = {}
        self.modules: dict[int, weakref.ref] = {}
        self.places = list(_places(step))
        self.state: tuple | None = None

    def __enter__(self) -> "_Watch":
        global _watching
        _watching = self
        self.begin = (_modes(), _values(self.places))
        self._handles = [
            register_optimizer_step_pre_hook(self._optimizer),
            register_module_forward_pre_hook(self._module),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        global _watching
        _watching = None
        for handle in self._handles:
            handle.remove()

    def _optimizer(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = weakref.ref(optimizer)
            self.first(optimizer)
            _count_on_device(optimizer)

    def _module(self, module: torch.nn.Module, _args: Any) -> None:
        self.modules.setdefault(id(module), weakref.ref(module))

    def remember(self) -> bool:
        """Takes down how everything is at the end of a step; whether the step left its own numbers alone."""
        if (_modes(), _values(self.places)) != self.begin:
            return False
        for reference in self.modules.values():
            if (module := reference()) is not None:
                self.places += _watched(vars(module), _SIMPLE)
        self.state = self._now()
        return True

    def holds(self) -> bool:
        """Whether everything is as it was."""
        return self.state is not None and self._now() == self.state

    def _now(self) -> tuple | None:
        parts: list[Any] = [_modes(), *_values(self.places)]
        for reference in self.optimizers.values():
            if (optimizer := reference()) is None:
                return None
            parts += [_hyperparameters(group) for group in optimizer.param_groups]
        for reference in self.modules.values():
            if (module := reference()) is None:
                return None
            parts += [p.requires_grad for p in module._parameters.values() if p is not None]
        return tuple(parts)

    def parameters(self) -> Iterator[Tensor]:
        """The parameters of its optimizers and modules, which may have gradients after the step."""
        optimizers = (o() for o in self.optimizers.values())
        groups = (group for o in optimizers if o is not None for group in o.param_groups)
        modules = (m() for m in self.modules.values())
        of_modules = (p for m in modules if m is not None for p in m._parameters.values() if p is not None)
        every = itertools.chain((p for group in groups for p in group["params"]), of_modules)
        return iter({id(p): p for p in every}.values())


# That of the step that is being captured.
_watching: _Watch | None = None


def note_modules(modules: Iterable[torch.nn.Module]) -> None:
    """Has modules watched whose forward does not run itself: layers of a loop, of which one stands for all."""
    if _watching is not None:
        for module in modules:
            for part in module.modules():
                _watching.modules.setdefault(id(part), weakref.ref(part))


_SIMPLE = (int, float, bool, str, type(None))
# Numbers in these are watched too, one level deep.
_CONTAINERS = (list, tuple, dict, set)
_WATCHED = (*_SIMPLE, *_CONTAINERS)
# Longer ones are data.
_LONG = 256


def _watched(names: dict[str, Any], kinds: tuple[type, ...] = _WATCHED) -> list[tuple[dict, str]]:
    return [(names, name) for name, value in names.items() if isinstance(value, kinds)]


def _places(step: Callable) -> Iterator[tuple[Any, str]]:
    """Where the step's code finds numbers of its own: globals that it names, its closure, its object's attributes."""
    bound = getattr(step, "__self__", None)
    if bound is not None and hasattr(bound, "__dict__"):
        yield from _watched(vars(bound))
    function = getattr(step, "__func__", step)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    names, codes = set(), [code]
    while codes:
        one = codes.pop()
        names.update(one.co_names)
        codes += [c for c in one.co_consts if isinstance(c, type(code))]
    yield from ((function.__globals__, n) for n in names if isinstance(function.__globals__.get(n, ...), _WATCHED))
    for cell in function.__closure__ or ():
        try:
            simple = isinstance(cell.cell_contents, _WATCHED)
        except ValueError:  # not set yet
            continue
        if simple:
            yield (cell, "")


def _values(places: list[tuple[Any, str]]) -> list[Any]:
    found = (holder.get(name, ...) if isinstance(holder, dict) else holder.cell_contents for holder, name in places)
    return [_frozen(value) for value in found]


def _frozen(value: Any) -> Any:
    if not isinstance(value, _CONTAINERS):
        return value
    if len(value) > _LONG:
        return (id(value), len(value))
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return [(k, v if isinstance(v, _SIMPLE) else id(v)) for k, v in items]


def _modes() -> tuple:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("tpu"),
        torch.get_autocast_dtype("tpu"),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
    )


def _hyperparameters(group: dict[str, Any]) -> tuple:
    # A tensor is read by the program at each run: which one it is counts.
    return tuple(id(v) if isinstance(v, Tensor) else v for k, v in group.items() if k != "params")


def _count_on_device(optimizer: Optimizer) -> None:
    """Has an optimizer count its steps on the device, where it knows how to (``capturable``).

    Otherwise the count is a number of Python's, another one at each step, and every step is captured anew.
    """
    for group in optimizer.param_groups:
        if group.get("capturable", True) or any(p.device.type != "tpu" for p in group["params"]):
            continue
        group["capturable"] = True
        for p in group["params"]:
            step = optimizer.state[p].get("step") if p in optimizer.state else None
            if isinstance(step, Tensor) and step.device != p.device:
                optimizer.state[p]["step"] = step.to(p.device)


class _Form:
    """The program for one form of arguments."""

    def __init__(self, captured: Any, watch: _Watch) -> None:
        self.captured = captured
        self.watch = watch
        # Another run does what the function would do.
        self.repeats = watch.remember() and captured.repeats()
        # Two captures in a row were the same.
        self.settled = False
        self.spec: Any = None
        self.outputs: list[Any] = []
        self.gradients: list[tuple[weakref.ref, _Output]] = []
        # For each new storage of a run a tensor over it; nothing for one that was there before.
        self.fresh: list[tuple | None] = []

    def settle(self, last: "_Form | None") -> None:
        """Compares with the capture before."""
        if self.repeats and last is not None and last.repeats:
            self.settled = self.captured.same(last.captured) and self.watch.state == last.watch.state

    def run(self, inputs: list[Any], storages: list[int]) -> tuple[bool, Any]:
        """Whether the program could run, and what the step returns."""
        if not self.settled or not self.watch.holds():
            return False, None
        parameters = [(reference(), output) for reference, output in self.gradients]
        if any(p is None for p, _ in parameters):
            return False, None
        # The program makes these gradients anew and does not read the old ones: they go first, as zero_grad has it.
        for p, _ in parameters:
            p.grad = None
        made = [None if how is None else _blank(*how) for how in self.fresh]
        if not self.captured.run(storages, [storage_here(t) for t in made]):
            return False, None
        for p, output in parameters:
            p.grad = output.make(inputs, made)
        outputs = [o.make(inputs, made) if isinstance(o, _Output) else o for o in self.outputs]
        return True, pytree.tree_unflatten(outputs, self.spec)


class CompiledStep:
    """A step function as one program: see ``torch_tpu.compile_step``."""

    def __init__(self, step: Callable) -> None:
        functools.update_wrapper(self, step)
        self.step = step
        self.forms: dict[tuple, _Form] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _core.eager_mode() == "debug":
            return self.step(*args, **kwargs)
        inputs, spec = pytree.tree_flatten((args, kwargs))
        storages = [storage_here(x) for x in inputs]
        # A tensor that is elsewhere is copied by the step: the copy is a constant of the capture.
        here = [x if s or not isinstance(x, Tensor) else id(x) for x, s in zip(inputs, storages, strict=True)]
        key = (spec, _key(here, storages))
        with self._lock:
            form = self.forms.get(key)
            if form is not None:
                done, result = form.run(inputs, storages)
                if done:
                    return result
            return self._capture(key, form, inputs, storages, args, kwargs)

    def _capture(
        self, key: tuple, last: _Form | None, inputs: list[Any], storages: list[int], args: tuple, kwargs: dict
    ) -> Any:
        _core.begin_capture(True)
        try:
            with _Watch(self.step) as watch:
                result = self.step(*args, **kwargs)
            flat, spec = pytree.tree_flatten(result)
            # Their history ends with the step, as it does when the program runs again.
            flat = [_ended(t, inputs) for t in flat]
            gradients = [(p, p.grad) for p in watch.parameters() if _here(p.grad)]
            fresh: dict[int, Tensor] = {}
            outputs = [_Output(o, inputs, storages, fresh) if _here(o) else o for o in flat]
            of_gradients = [(weakref.ref(p), _Output(g, (), (), fresh)) for p, g in gradients]
            device = next((t.device.index or 0 for t in (*inputs, *fresh.values()) if _here(t)), 0)
            captured = _core.end_step(storages, list(fresh), device)
        except BaseException:
            _core.abandon_capture()
            raise
        self.forms.pop(key, None)
        if captured is None:
            _log.debug("a step is no program: it looks at a value in between")
            return pytree.tree_unflatten(flat, spec)
        form = _Form(captured, watch)
        makes = captured.makes(len(fresh))
        form.spec = spec
        form.fresh = [_layout(t) if made else None for t, made in zip(fresh.values(), makes, strict=True)]
        # What was there before the step is given as it is.
        form.outputs = [
            t if isinstance(o, _Output) and o.fresh is not None and not makes[o.fresh] else o
            for o, t in zip(outputs, flat, strict=True)
        ]
        form.gradients = [(p, o) for p, o in of_gradients if makes[o.fresh]]
        form.settle(last)
        while len(self.forms) >= FORMS:
            self.forms.pop(next(iter(self.forms)))
        self.forms[key] = form
        return pytree.tree_unflatten(flat, spec)


def _here(value: Any) -> bool:
    """Whether a value lies in one storage on the device. What a step leaves elsewhere (sparse tensors, tensors made of
    others) is not made by its program: the step's Python runs each time.
    """
    return storage_here(value) != 0


def _ended(value: Any, inputs: list[Any]) -> Any:
    if isinstance(value, Tensor) and value.grad_fn is not None and not any(value is x for x in inputs):
        return value.detach()
    return value


def _layout(t: Tensor) -> tuple:
    return (t.size(), t.stride(), t.dtype, t.device, t.untyped_storage().nbytes())


def compile_step(step: Callable) -> CompiledStep:
    """A callable that runs a training step (zero_grad, forward, backward, optimizer step) as one program.

    ``step`` is an ordinary function on tpu tensors. Its tensors and numbers may come as arguments or from anywhere
    else; it returns tensors, numbers or containers of them. Parameters, states and buffers stay the modules' and
    optimizers' own, and are updated in place.

    While two calls in a row do the same with the same numbers, the function's Python code does not run any more: what
    it prints or counts happens in the first calls only. It runs again when an argument's form, a hyperparameter of an
    optimizer, ``train``/``eval``, ``requires_grad``, autocast, or a number that its code names changes; the program is
    compiled again only if the ops change. A learning-rate schedule therefore compiles nothing.

    A step that reads a value (``.item()``, ``print`` of a tensor) runs as separate programs; return the tensor instead.
    Optimizers that can are told to count their steps on the device (``capturable=True``).

    Returned tensors have no autograd history. Raises what the step raises.
    """
    return CompiledStep(step)
