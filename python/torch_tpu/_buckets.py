"""Graphs with symbolic sizes: one program for each power of two, not for each length.

Inputs are padded, outputs are cut, both on the host, so that no length has a program of its own; in between the graph's
ops run on padded tensors by the rules of _rules.py. Whether all of a graph's ops have rules is found out with tensors
of no data (``meta``) before the first run; a graph that has others, or any that draws random numbers, is not padded.
"""

import logging
import operator
from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch import SymBool, SymFloat, SymInt, Tensor
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

from torch_tpu._ragged import Ragged, Sizes, Unsupported, dim_of, ragged
from torch_tpu._rules import RULES, Call, expression, pointwise

_log = logging.getLogger(__name__)

# What floating-point inputs are padded with. Tests put NaN here: it must not show.
PADDING = 0.0


def bucket(size: int) -> int:
    """The padded size of a size: a power of two."""
    return 1 << max(size - 1, 1).bit_length()


class Padded:
    """A graph that can run on padded inputs."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        self.module = module
        self.places = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.metas = [n.meta.get("val") for n in self.places]
        # The input that tells each symbol.
        self.symbols: dict[sympy.Symbol, int] = {}
        for i, meta in enumerate(self.metas):
            if isinstance(meta, SymInt) and (symbol := expression(meta)).is_Symbol:
                self.symbols.setdefault(symbol, i)
        shapes = [e for n in module.graph.nodes for e in _sizes(n.meta.get("val"))]
        self.padded = {s for e in shapes if isinstance(e, sympy.Expr) for s in e.free_symbols}
        (output,) = (n for n in module.graph.nodes if n.op == "output")
        self.outputs = list(output.args[0])
        self.checked = False

    @staticmethod
    def of(module: torch.fx.GraphModule) -> "Padded | None":
        """The graph, if it has symbolic sizes and is one that padding does not change."""
        if not any(isinstance(n.meta.get("val"), SymInt) for n in module.graph.nodes if n.op == "placeholder"):
            return None
        try:
            made = Padded(module)
            # torch compiles under a mode that makes every tensor a fake one.
            with unset_fake_temporarily():
                made.check()
        except Unsupported as why:
            _log.info("a graph with symbolic sizes has a program for each set of sizes: %s", why)
            return None
        except Exception:
            # The graph is right without padding, whatever a rule did not foresee.
            _log.warning(
                "a graph with symbolic sizes has a program for each set of sizes (a bug of ours)", exc_info=True
            )
            return None
        return made

    def check(self) -> None:
        """Goes through the graph without data; raises Unsupported."""
        if not any(isinstance(meta, Tensor) for meta in self.metas):
            raise Unsupported("a graph that takes no tensor")
        for meta in self.metas:
            if not isinstance(meta, Tensor | SymInt):
                raise Unsupported(f"an input that is a {type(meta).__name__}")
            for e in _sizes(meta):
                if isinstance(e, sympy.Expr) and not (e.is_Integer or e.is_Symbol):
                    raise Unsupported(f"an input of size {e}")
        # Any will do: the rules look at symbols.
        buckets = dict.fromkeys(self.symbols, 64)
        blank = [torch.empty((), dtype=torch.int64, device="meta") for _ in self.symbols]
        sizes = Sizes(buckets, dict(zip(self.symbols, blank, strict=True)), torch.device("meta"))
        inputs = [
            torch.empty([sizes.bound(e) for e in _sizes(m)], dtype=m.dtype, device="meta")
            if isinstance(m, Tensor)
            else m
            for m in self.metas
        ]
        _Run(self, sizes).run(inputs)

    def buckets(self, inputs: Sequence[Any]) -> dict[sympy.Symbol, int] | None:
        """The bucket of each symbol; None where a size is too small to be padded."""
        found = {}
        for symbol, i in self.symbols.items():
            if symbol not in self.padded:
                # It is a number only: its value is an input.
                found[symbol] = 0
            elif inputs[i] < 2:
                return None
            else:
                found[symbol] = bucket(inputs[i])
        return found

    def pad(self, inputs: Sequence[Any], buckets: dict[sympy.Symbol, int]) -> list[Any]:
        """The inputs of the padded graph: what it takes, then the symbols' values, then the buckets."""
        out: list[Any] = []
        device = next(x.device for x in inputs if isinstance(x, Tensor))
        for x, meta in zip(inputs, self.metas, strict=True):
            if isinstance(x, Tensor):
                shape = [buckets.get(e, e) if isinstance(e, sympy.Expr) else e for e in _sizes(meta)]
                out.append(_padded(x, [int(n) for n in shape]))
            else:
                # The graph takes symbols' values as tensors, and has other sizes as constants.
                out.append(None)
        values = [torch.tensor(inputs[i]).to(device) for i in self.symbols.values()]
        return [*out, *values, *buckets.values()]

    def run(self, *inputs: Any) -> list[Any]:
        """Runs the graph's ops on padded inputs."""
        count, symbols = len(self.places), list(self.symbols)
        values = dict(zip(symbols, inputs[count : count + len(symbols)], strict=True))
        buckets = dict(zip(symbols, inputs[count + len(symbols) :], strict=True))
        device = next(x.device for x in inputs if isinstance(x, Tensor))
        return _Run(self, Sizes(buckets, values, device)).run(list(inputs[:count]))

    def cut(self, outputs: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
        """The graph's outputs, from those of the padded one."""
        known = {symbol: inputs[i] for symbol, i in self.symbols.items()}

        def number(size: Any) -> int:
            return int(size.subs(known)) if isinstance(size, sympy.Expr) else int(size)

        out = []
        for node, made in zip(self.outputs, outputs, strict=True):
            meta = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
            if isinstance(meta, SymInt):
                out.append(number(expression(meta)))
            elif not isinstance(made, Tensor):
                out.append(made)
            elif node in self.places:
                out.append(inputs[self.places.index(node)])
            elif any(isinstance(e, sympy.Expr) and not e.is_Integer for e in _sizes(meta)):
                shape, stride = [number(e) for e in _sizes(meta)], [number(expression(s)) for s in meta.stride()]
                out.append(_cut(made, shape, stride))
            else:
                out.append(made)
        return out


def _sizes(meta: Any) -> list[Any]:
    return [expression(s) for s in meta.shape] if isinstance(meta, Tensor) else []


def _padded(x: Tensor, shape: Sequence[int]) -> Tensor:
    if list(x.shape) == list(shape):
        return x
    fill = PADDING if x.dtype.is_floating_point else 0
    out = torch.full(list(shape), fill, dtype=x.dtype)
    out[tuple(slice(n) for n in x.shape)] = x.detach().cpu()
    return out.to(x.device)


def _cut(x: Tensor, shape: Sequence[int], stride: Sequence[int]) -> Tensor:
    if list(x.shape) == list(shape) and list(x.stride()) == list(stride):
        return x
    out = torch.empty_strided(list(shape), list(stride), dtype=x.dtype)
    out.copy_(x.cpu()[tuple(slice(n) for n in shape)])
    return out.to(x.device)


class _Run:
    """One pass over a graph's nodes."""

    def __init__(self, graph: Padded, sizes: Sizes) -> None:
        self.graph = graph
        self.sizes = sizes

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        known: dict[torch.fx.Node, Any] = {}
        for node, x, meta in zip(self.graph.places, inputs, self.graph.metas, strict=True):
            known[node] = Ragged(x, tuple(map(dim_of, _sizes(meta)))) if isinstance(x, Tensor) else x
        for node in self.graph.module.graph.nodes:
            if node.op == "output":
                return [self._output(known[o], o) if isinstance(o, torch.fx.Node) else o for o in self.graph.outputs]
            if node not in known or isinstance(node.meta.get("val"), SymInt):
                known[node] = self._node(node, known)
        raise Unsupported("a graph without outputs")

    def _output(self, value: Any, node: torch.fx.Node) -> Any:
        if not isinstance(value, Ragged):
            return None
        meta = node.meta["val"]
        if any(len(dim) > 1 and ragged(dim) for dim in value.dims):
            raise Unsupported("an output with merged padded dimensions")
        if node in self.graph.places or any(map(ragged, value.dims)):
            return value.value
        stride = [expression(s) for s in meta.stride()]
        if not all(isinstance(s, int) or s.is_Integer for s in stride):
            # A part of a padded tensor (the last position's): its strides would have a copy for each length.
            return value.value.contiguous()
        if list(value.value.stride()) == [int(s) for s in stride]:
            return value.value
        # The rules may lay a tensor out in another way.
        shape, made = value.value.shape, value.value
        return torch.empty_strided(shape, [int(s) for s in stride], dtype=made.dtype, device=made.device).copy_(made)

    def _node(self, node: torch.fx.Node, known: dict[torch.fx.Node, Any]) -> Any:
        meta = node.meta.get("val")
        if isinstance(meta, SymInt):
            e = expression(meta)
            return int(e) if isinstance(e, int) or e.is_Integer else Ragged(self.sizes.tensor(e), ())
        if isinstance(meta, SymFloat | SymBool):
            raise Unsupported("a number computed from sizes that is no integer")
        if node.op == "get_attr":
            value = getattr(self.graph.module, str(node.target))
            if not isinstance(value, Tensor):
                raise Unsupported("a graph in a graph")
            value = value.to("meta") if self.sizes.device.type == "meta" else value
            return Ragged(value, tuple(map(dim_of, value.shape)))
        if node.op != "call_function":
            raise Unsupported(f"a node of kind {node.op}")
        args = torch.fx.map_arg(node.args, lambda n: known[n])
        kwargs = torch.fx.map_arg(node.kwargs, lambda n: known[n])
        if node.target is operator.getitem:
            return args[0][args[1]]
        return self._call(node.target, meta, list(args), dict(kwargs))

    def _call(self, op: Any, meta: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if not isinstance(op, torch._ops.OpOverload):
            raise Unsupported(str(op))
        if torch.Tag.nondeterministic_seeded in op.tags:
            raise Unsupported(f"{op}: its numbers depend on the size")
        if "device" in kwargs:
            kwargs["device"] = self.sizes.device
        given = _flat([*args, *kwargs.values()])
        call = Call(op, self.sizes, meta)
        if op is torch.ops.aten.copy_.default:
            if not (args[0].static and args[1].static):
                raise Unsupported("a padded input is changed")
            args[0].value.copy_(args[1].value)
            return args[0]
        made = None
        if all(a.static for a in given) and not self._symbolic(meta, given):
            plain = torch.utils._pytree.tree_map_only(Ragged, lambda r: r.value, [args, kwargs])
            made = op(*plain[0], **plain[1])
            made = [_static(m) for m in made] if isinstance(made, tuple | list) else _static(made)
        elif (known := RULES.get(op.overloadpacket)) is not None:
            made = known(call, *args, **kwargs)
        elif torch.Tag.pointwise in op.tags and all(isinstance(a, Ragged | int | float | bool | None) for a in args):
            made = pointwise(_tensor_form(call, args), *args, **kwargs)
        else:
            raise Unsupported(f"{op} has no rule")
        self._hold(op, made, meta)
        return made

    def _symbolic(self, meta: Any, given: Sequence[Ragged]) -> bool:
        """Whether a size is among the numbers, or in the results."""
        metas = meta if isinstance(meta, tuple | list) else [meta]
        grown = any(isinstance(e, sympy.Expr) and not e.is_Integer for m in metas for e in _sizes(m))
        return grown or any(g.value is t for g in given for t in self.sizes._tensors.values())

    def _hold(self, op: Any, made: Any, meta: Any) -> None:
        """A rule must give what the op would: its sizes, with buckets for symbols, and its dtype."""
        pairs = zip(made, meta, strict=True) if isinstance(made, tuple | list) else [(made, meta)]
        for one, wanted in pairs:
            if not isinstance(one, Ragged) or not isinstance(wanted, FakeTensor):
                continue
            for dim, size in zip(one.dims, _sizes(wanted), strict=True):
                if sympy.expand(sympy.Mul(*dim) - size) != 0:
                    raise Unsupported(f"{op} gives {dim} for a size {size}")
            if wanted.device.type != "tpu":
                raise Unsupported(f"{op} gives a tensor on {wanted.device}")
            if one.value.dtype != wanted.dtype:
                raise Unsupported(f"{op} gives {one.value.dtype} for {wanted.dtype}")


def _static(value: Any) -> Any:
    return Ragged(value, tuple(map(dim_of, value.shape))) if isinstance(value, Tensor) else value


def _flat(values: Any) -> list[Ragged]:
    return [v for v in torch.utils._pytree.tree_leaves(values) if isinstance(v, Ragged)]


def _tensor_form(call: Call, args: Sequence[Any]) -> Call:
    """The overload that takes a tensor where a size is given as a number."""
    schema = call.op._schema.arguments
    numbers = any(isinstance(a, Ragged) and not isinstance(s.type, torch.TensorType | torch.OptionalType)
                  for a, s in zip(args, schema, strict=False))  # fmt: skip
    if not numbers:
        return call
    name = {"Scalar": "Tensor", "Tensor_Scalar": "Tensor_Tensor"}.get(call.op._overloadname, "")
    op = getattr(call.op.overloadpacket, name, None) if name else None
    if op is None:
        raise Unsupported(f"{call.op} of a symbolic number")
    return Call(op, call.sizes, call.meta)
