"""torch_tpu.scan_layers: a stack of identical modules as one loop of the program.

Inside a step the first module's code is recorded once, on placeholders of one layer's parameters, and again backwards:
autograd's own graph of that one layer runs in a second loop, on what the first one stacked for it.
"""

import contextlib
import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from torch_tpu import _core, _step
from torch_tpu._alike import compare, form
from torch_tpu._loop import Recording, Refused, Saved

_log = logging.getLogger(__name__)
# Reasons that were logged.
_told: set[str] = set()


def scan_layers(layers: Iterable[nn.Module], x: Any, *args: Any, remat: bool = False, **kwargs: Any) -> Any:
    """``for layer in layers: x = layer(x, *args, **kwargs)``, as one loop of the program where there is a program.

    ``layers`` is a ModuleList, a Sequential or any list of modules that are alike: the same code, sizes and numbers.
    ``x`` is a tensor or a tuple, list or dict of them; each layer returns what the next one is given. Parameters stay
    the modules' own, and so do their gradients and states of optimizers.

    In ``torch_tpu.compile_step`` and ``torch_tpu.aot.compile`` on tpu the layers are one loop forward and one backward,
    over parameters that the program stacks: their part of the program does not grow with their number, but for the list
    of what is stacked. What an optimizer does with each parameter does. Gradients are slices of stacks, as those of
    ``torch.stack`` are.
    ``remat=True`` keeps only each layer's input for backward, and computes the layer again. Random numbers are other
    ones in each layer, and those of the plain loop. A layer's Python code then runs once for all layers.

    Everywhere else (eager mode, torch.compile, other devices) this is the plain loop, with ``remat=True`` under
    torch.utils.checkpoint. So it is where no loop can be made; the reason is logged once, as a warning of the logger
    "torch_tpu._scan": layers that differ, that have hooks, that return something of another size or dtype than they are
    given, that look at a value, check an index or write to what is not theirs. Buffers may be written. Inside the loop
    gradients of gradients are not supported.
    """
    layers = list(layers)
    if len(layers) > 1 and not torch.compiler.is_compiling() and _core.in_step():
        try:
            return _as_loop(layers, x, args, kwargs, remat)
        except Exception as error:  # what is wrong with the layers themselves the plain loop raises again
            reason = str(error) if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
            if reason not in _told:
                _told.add(reason)
                _log.warning("scan_layers runs its %d layers one by one: %s", len(layers), reason)
    for layer in layers:
        if remat and torch.is_grad_enabled():
            x = checkpoint(layer, x, *args, use_reentrant=False, **kwargs)
        else:
            x = layer(x, *args, **kwargs)
    return x


class _Layers:
    """Layers that are alike, and what they are called with."""

    def __init__(self, layers: list[nn.Module], x: Any, args: tuple, kwargs: dict, remat: bool) -> None:
        self.layers, self.remat = layers, remat
        self.length = len(layers)
        first = form(layers[0])
        for number, layer in enumerate(layers[1:], 1):
            compare(first, form(layer), number)
        self.parameters = [dict(layer.named_parameters()) for layer in layers]
        self.buffers = [dict(layer.named_buffers()) for layer in layers]
        self.names = list(self.parameters[0])
        self.buffer_names = list(self.buffers[0])
        self.carries, self.form = pytree.tree_flatten(x)
        self.others, self.call = pytree.tree_flatten((args, kwargs))
        tensors = [*self.carries, *(t for p in (*self.parameters, *self.buffers) for t in p.values())]
        if not self.carries or any(not isinstance(t, Tensor) for t in self.carries):
            raise Refused("the layers' input is no tensor, nor a container of tensors alone")
        device = self.carries[0].device
        if device.type != "tpu" or any(t.device != device for t in tensors):
            raise Refused(f"not all of the layers' input, parameters and buffers are on one tpu ({device})")
        self.autocast = (torch.is_autocast_enabled("tpu"), torch.get_autocast_dtype("tpu"))
        # Where the tensors of the arguments are. They are not held here: autograd holds this as long as the result, and
        # what is held at a step's end is no part of a program that repeats.
        self.places = [i for i, t in enumerate(self.others) if isinstance(t, Tensor)]
        self.arguments = [self.others[i] for i in self.places]
        self.others = [None if isinstance(t, Tensor) else t for t in self.others]
        self.count = len(self.carries)
        # Carried values that have gradients.
        self.moving = [i for i, t in enumerate(self.carries) if t.is_floating_point() or t.is_complex()]

    def stacked(self, of: list[dict[str, Tensor]], names: list[str]) -> list[Tensor]:
        return [torch.stack([layer[name].detach() for layer in of]) for name in names]

    def run(self, carried: Sequence[Tensor], given: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor]:
        """One layer on placeholders."""
        values = dict(zip((*self.names, *self.buffer_names), given, strict=True))
        before = dict(values)
        others = list(self.others)
        for place, t in zip(self.places, arguments, strict=True):
            others[place] = t
        args, kwargs = pytree.tree_unflatten(others, self.call)
        x = pytree.tree_unflatten(list(carried), self.form)
        with torch.autocast("tpu", dtype=self.autocast[1], enabled=self.autocast[0], cache_enabled=False):
            result = functional_call(self.layers[0], values, (x, *args), kwargs)
        flat, kind = pytree.tree_flatten(result)
        if kind != self.form:
            raise Refused("a layer returns another kind of container than it is given")
        for name, value in values.items():
            if value is not before[name]:
                raise Refused(f"a layer assigns its {name} anew")
        for given_, made in zip(carried, flat, strict=True):
            if not isinstance(made, Tensor) or (made.shape, made.dtype, made.device) != (
                given_.shape,
                given_.dtype,
                given_.device,
            ):
                what = f"{made.dtype} of {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
                raise Refused(f"a layer is given {given_.dtype} of {tuple(given_.shape)} and returns {what}")
        return flat


def _as_loop(layers: list[nn.Module], x: Any, args: tuple, kwargs: dict, remat: bool) -> Any:
    made = _Layers(layers, x, args, kwargs, remat)
    _step.note_modules(layers)
    carries, arguments = made.carries, made.arguments
    made.carries, made.arguments = [], []
    parameters = [layer[name] for name in made.names for layer in made.parameters]
    inputs = (*carries, *arguments, *parameters)
    if torch.is_grad_enabled() and any(t.requires_grad for t in inputs):
        outputs = _Scan.apply(made, *inputs)
    else:
        outputs = _forward(made, carries, arguments, [], None)[0]
    return pytree.tree_unflatten(list(outputs), made.form)


class _Body:
    """What a recorded layer leaves for its gradients."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        # Tensors that are not the layer's own.
        self.outside: list[Tensor] = []
        self.saved: Saved | None = None


def _leaves(tensors: Sequence[Tensor], wanted: Iterable[bool]) -> list[Tensor]:
    return [t.detach().requires_grad_(w) for t, w in zip(tensors, wanted, strict=True)]


def _forward(
    made: _Layers, carries: Sequence[Tensor], arguments: Sequence[Tensor], wanted: Sequence[bool], body: _Body | None
) -> tuple[list[Tensor], list[Tensor], list[Tensor], int]:
    """The last layer's results, the stacked parameters and buffers, what is stacked for backward, and the loop's number
    where backward draws its random numbers again. ``wanted`` tells of arguments and parameters which have gradients.
    """
    with torch.no_grad():
        given = [*made.stacked(made.parameters, made.names), *made.stacked(made.buffers, made.buffer_names)]
        with Recording(made.length, carries, given) as loop, contextlib.ExitStack() as held:
            parameters, buffers = loop.taken[: len(made.names)], loop.taken[len(made.names) :]
            kept: list[Tensor] = []
            if body is None:
                outputs = made.run(loop.carried, loop.taken, arguments)
            else:
                saved = held.enter_context(contextlib.closing(Saved(loop)))
                with torch.enable_grad(), saved.hooks():
                    inputs = _inputs(made, loop.carried, loop.taken, arguments, wanted)
                    outputs = made.run(*inputs)
                if made.remat:
                    kept = loop.carried
                else:
                    body.inputs = [t for part in inputs for t in part if t.requires_grad]
                    body.outputs, body.saved, body.outside = outputs, saved, saved.outside
                    kept = saved.stacked
            for t in (*loop.carried, *parameters):
                if loop.known(t) == "written":
                    raise Refused("a layer writes to its input or to a parameter in place")
            changed = [i for i, b in enumerate(buffers) if loop.known(b) == "written"]
            last, stacks = loop.end(outputs, [*kept, *(buffers[i] for i in changed)])
            if body is not None and body.saved is not None:
                for leaf in inputs[-1]:
                    # Autograd's graph needs the leaf and not what it holds.
                    leaf.data = torch.empty_like(leaf)
        for i, stack in zip(changed, stacks[len(kept) :], strict=True):
            for layer, value in zip(made.buffers, stack.unbind(), strict=True):
                layer[made.buffer_names[i]].copy_(value)
    return last, given, stacks[: len(kept)], loop.number if made.remat and loop.draws else 0


def _inputs(
    made: _Layers,
    carried: Sequence[Tensor],
    taken: Sequence[Tensor],
    arguments: Sequence[Tensor],
    wanted: Sequence[bool],
) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Carried values, parameters and buffers, and arguments, as leaves of one layer's graph."""
    ours = [*wanted[len(arguments) :], *(False for _ in made.buffer_names)]
    return (
        _leaves(carried, [i in made.moving for i in range(made.count)]),
        _leaves(taken, ours),
        _leaves(arguments, wanted[: len(arguments)]),
    )


class _Scan(torch.autograd.Function):
    """The layers on carried values, tensors among the arguments, and for each name the layers' parameters."""

    @staticmethod
    def forward(ctx: Any, made: _Layers, *inputs: Tensor) -> tuple[Tensor, ...]:
        n = made.count + len(made.places)
        arguments, firsts = inputs[made.count : n], inputs[n :: made.length]
        wanted = [t.requires_grad for t in (*arguments, *firsts)]
        ctx.made, ctx.wanted, ctx.body = made, wanted, _Body()
        last, given, stacks, ctx.like = _forward(made, inputs[: made.count], arguments, wanted, ctx.body)
        parts = (given, stacks, arguments, ctx.body.outside)
        ctx.body.outside = []
        ctx.parts = [len(part) for part in parts]
        ctx.save_for_backward(*(t for part in parts for t in part))
        ctx.mark_non_differentiable(*(t for i, t in enumerate(last) if i not in made.moving))
        return tuple(last)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        made, body = ctx.made, ctx.body
        saved = iter(ctx.saved_tensors)
        given, stacks, arguments, outside = (list(itertools.islice(saved, n)) for n in ctx.parts)
        moving = made.moving
        sums = [i for i, w in enumerate(ctx.wanted[: len(arguments)]) if w]
        start = [*(gradients[i] for i in moving), *(torch.zeros_like(arguments[i]) for i in sums)]
        with Recording(made.length, start, [*given, *stacks], reverse=True, like=ctx.like) as loop:
            taken, kept = loop.taken[: len(given)], loop.taken[len(given) :]
            if made.remat:
                with torch.enable_grad():
                    inputs = _inputs(made, kept, taken, arguments, ctx.wanted)
                    outputs = made.run(*inputs)
                leaves = [t for part in inputs for t in part if t.requires_grad]
            else:
                leaves, outputs = body.inputs, body.outputs
                body.saved.bind(taken, kept, outside)
            pairs = [(outputs[i], g) for i, g in zip(moving, loop.carried, strict=False) if outputs[i].requires_grad]
            found: Sequence[Tensor | None] = [None] * len(leaves)
            if pairs:
                found = torch.autograd.grad(
                    [o for o, _ in pairs], leaves, [g for _, g in pairs], retain_graph=True, allow_unused=True
                )
            names = [i for i, w in enumerate(ctx.wanted[len(arguments) :]) if w]
            ahead, of_parameters = found[: len(moving)], found[len(moving) : len(moving) + len(names)]
            of_arguments = found[len(moving) + len(names) :]
            carried = [torch.zeros_like(p) if g is None else g for g, p in zip(ahead, loop.carried, strict=False)]
            for total, g in zip(loop.carried[len(moving) :], of_arguments, strict=True):
                carried.append(total if g is None else total + g)
            put = [(i, g) for i, g in zip(names, of_parameters, strict=True) if g is not None]
            last, stacked = loop.end(carried, [g for _, g in put])
            if body.saved is not None:
                body.saved.bind((), (), ())
        out: list[Tensor | None] = [None] * (made.count + len(arguments) + len(made.names) * made.length)
        for i, g in zip(moving, last, strict=False):
            out[i] = g
        for i, g in zip(sums, last[len(moving) :], strict=True):
            out[made.count + i] = g
        for (i, _), stack in zip(put, stacked, strict=True):
            first = made.count + len(arguments) + i * made.length
            # Views, as those of torch.stack are: copies would be as many kernels as there are parameters.
            out[first : first + made.length] = stack.unbind()
        return (None, *out)
