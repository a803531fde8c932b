"""What each op does to padding: the rules by which a graph with symbolic sizes runs on padded tensors.

An op without a rule, or in a way that its rule does not cover, raises ``Unsupported``: the graph then has one program
for each set of sizes.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_tpu._ragged import Dim, Ragged, Sizes, Unsupported, dim_of, joined, product, ragged, regroup, single

aten = torch.ops.aten
Rule = Callable[..., Any]
RULES: dict[Any, Rule] = {}


class Call:
    """A call of an op: the graph's sizes, and what the op's first result is to be."""

    def __init__(self, op: Any, sizes: Sizes, meta: Any) -> None:
        self.op = op
        self.sizes = sizes
        self.meta = meta

    def shape(self) -> list[Any]:
        """Symbolic sizes of the (first) result."""
        meta = self.meta[0] if isinstance(self.meta, tuple | list) else self.meta
        return [expression(s) for s in meta.shape]


def expression(size: Any) -> Any:
    """A size as a sympy expression."""
    return size.node.shape_env.simplify(size.node.expr) if isinstance(size, torch.SymInt) else size


def rule(*packets: Any) -> Callable[[Rule], Rule]:
    """Registers the rule of these ops."""

    def register(function: Rule) -> Rule:
        for packet in packets:
            RULES[packet] = function
        return function

    return register


def _axis(axis: int, rank: int) -> int:
    return axis % rank if rank else 0


def _axes(axes: Any, rank: int) -> list[int]:
    if axes is None or axes == [] or axes == ():
        return list(range(rank))
    return [_axis(a, rank) for a in ([axes] if isinstance(axes, int) else axes)]


def _kept(dims: Sequence[Dim], axes: Sequence[int], keep: bool) -> tuple[Dim, ...]:
    return tuple(() if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)


def pointwise(call: Call, *args: Any, **kwargs: Any) -> Ragged:
    """Padding becomes padding."""
    if any(isinstance(v, Ragged) for v in kwargs.values()):
        raise Unsupported(f"{call.op} of a symbolic number")
    dims = joined([a.dims for a in args if isinstance(a, Ragged)])
    plain = [a.value if isinstance(a, Ragged) else a for a in args]
    return Ragged(call.op(*plain, **kwargs), dims)


@rule(aten.div, aten.floor_divide, aten.remainder, aten.fmod)
def _division(call: Call, x: Any, y: Any, **kwargs: Any) -> Ragged:
    if isinstance(y, Ragged) and not y.static and not y.value.dtype.is_floating_point:
        # Dividing an integer by the padding's zeros is an error.
        y = Ragged(call.sizes.filled(y, 1), y.dims)
    return pointwise(call, x, y, **kwargs)


@rule(
    aten.clone, aten.alias, aten.detach, aten.lift_fresh_copy, aten._to_copy, aten.full_like, aten.zeros_like,
    aten.ones_like, aten.empty_like,
)  # fmt: skip
def _same(call: Call, x: Ragged, *args: Any, **kwargs: Any) -> Ragged:
    if "device" in kwargs:
        kwargs["device"] = x.value.device
    return Ragged(call.op(x.value, *args, **kwargs), x.dims)


@rule(aten.full, aten.zeros, aten.ones, aten.empty)
def _new(call: Call, _size: Any, *args: Any, **kwargs: Any) -> Ragged:
    shape = call.shape()
    kwargs["device"] = call.sizes.device
    if args and isinstance(args[0], Ragged):
        lengths = [call.sizes.bound(s) for s in shape]
        return Ragged(args[0].value.to(call.meta.dtype).expand(lengths).clone(), tuple(map(dim_of, shape)))
    return Ragged(call.op([call.sizes.bound(s) for s in shape], *args, **kwargs), tuple(map(dim_of, shape)))


@rule(aten.new_full, aten.new_zeros, aten.new_ones, aten.new_empty)
def _new_like(call: Call, x: Ragged, _size: Any, *args: Any, **kwargs: Any) -> Ragged:
    shape = call.shape()
    kwargs.pop("device", None)
    return Ragged(call.op(x.value, [call.sizes.bound(s) for s in shape], *args, **kwargs), tuple(map(dim_of, shape)))


@rule(aten.scalar_tensor)
def _scalar_tensor(call: Call, number: Any, **kwargs: Any) -> Ragged:
    if isinstance(number, Ragged):
        return Ragged(number.value.to(call.meta.dtype), ())
    kwargs["device"] = call.sizes.device
    return Ragged(call.op(number, **kwargs), ())


@rule(aten.arange)
def _arange(call: Call, *args: Any, **_kwargs: Any) -> Ragged:
    start = args[0] if len(args) > 1 else 0
    step = args[2] if len(args) > 2 else 1
    (size,) = call.shape()
    if call.meta.dtype.is_floating_point or isinstance(step, Ragged):
        raise Unsupported("arange of a symbolic step, or of floating-point numbers")
    out = call.sizes.positions(call.sizes.bound(size)) * step + (start.value if isinstance(start, Ragged) else start)
    return Ragged(out.to(call.meta.dtype), (dim_of(size),))


@rule(aten.view, aten._unsafe_view, aten.reshape, aten._reshape_copy, aten.flatten, aten.unflatten, aten.view_copy)
def _view(call: Call, x: Ragged, *_args: Any) -> Ragged:
    if call.op is aten.view.dtype:
        raise Unsupported("a view as another dtype")
    dims = regroup(x.dims, call.shape())
    return Ragged(x.value.reshape([call.sizes.bound(product(d)) if d else 1 for d in _bounded(call, dims)]), dims)


def _bounded(call: Call, dims: Sequence[Dim]) -> list[Dim]:
    # A dimension of several parts is as long as its padded parts are together.
    return [tuple(dim_of(math.prod(call.sizes.bound(p) for p in d))) for d in dims]


@rule(aten.expand)
def _expand(call: Call, x: Ragged, _size: Any, **_kwargs: Any) -> Ragged:
    shape = call.shape()
    new = len(shape) - len(x.dims)
    dims = tuple(x.dims[i - new] if i >= new and x.dims[i - new] else dim_of(size) for i, size in enumerate(shape))
    lengths = [math.prod(call.sizes.bound(p) for p in d) for d in dims]
    return Ragged(x.value.expand(lengths), dims)


@rule(aten.permute)
def _permute(call: Call, x: Ragged, order: Sequence[int]) -> Ragged:
    return Ragged(call.op(x.value, order), tuple(x.dims[_axis(i, len(x.dims))] for i in order))


@rule(aten.transpose, aten.t)
def _transpose(call: Call, x: Ragged, a: int = 0, b: int = 1) -> Ragged:
    dims = list(x.dims)
    if len(dims) < 2:
        return x
    a, b = _axis(a, len(dims)), _axis(b, len(dims))
    dims[a], dims[b] = dims[b], dims[a]
    return Ragged(x.value.transpose(a, b), tuple(dims))


@rule(aten.unsqueeze)
def _unsqueeze(call: Call, x: Ragged, axis: int) -> Ragged:
    axis = axis % (len(x.dims) + 1)
    return Ragged(call.op(x.value, axis), (*x.dims[:axis], (), *x.dims[axis:]))


@rule(aten.squeeze)
def _squeeze(call: Call, x: Ragged, axes: Any = None) -> Ragged:
    gone = [i for i in _axes(axes, len(x.dims)) if not x.dims[i]]
    # Padded to 1 is not of size 1.
    return Ragged(x.value.squeeze(tuple(gone)), _kept(x.dims, gone, False)) if gone else x


@rule(aten.tril, aten.triu)
def _triangle(call: Call, x: Ragged, diagonal: Any = 0) -> Ragged:
    single(x.dims[-1]), single(x.dims[-2])
    if isinstance(diagonal, Ragged):
        raise Unsupported("a symbolic diagonal")
    return Ragged(call.op(x.value, diagonal), x.dims)


def _taken(call: Call, x: Ragged, axis: int, start: Tensor, size: Any) -> Ragged:
    """``size`` elements from ``start`` on."""
    length = call.sizes.bound(size)
    places = (call.sizes.positions(length) + start).clamp(0, x.value.shape[axis] - 1)
    dims = (*x.dims[:axis], dim_of(size), *x.dims[axis + 1 :])
    return Ragged(x.value.index_select(axis, places), dims)


def _start(call: Call, x: Ragged, axis: int, index: Any) -> Tensor:
    """A position as a tensor, counted from the front."""
    if isinstance(index, Ragged):
        # Whether it is negative is known while tracing only: its size then says so.
        return torch.where(index.value < 0, index.value + call.sizes.tensor(single(x.dims[axis])), index.value)
    size = single(x.dims[axis])
    return call.sizes.tensor(index if index >= 0 else size + index)


@rule(aten.slice)
def _slice(call: Call, x: Ragged, axis: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Ragged:
    axis = _axis(axis, len(x.dims))
    size, now = call.shape()[axis], product(x.dims[axis])
    if size == now and step == 1:
        return x
    told = not isinstance(start, Ragged) and not isinstance(end, Ragged)
    if told and not ragged(dim_of(size)) and not ragged(x.dims[axis]):
        dims = (*x.dims[:axis], dim_of(size), *x.dims[axis + 1 :])
        return Ragged(call.op(x.value, axis, start, end, step), dims)
    if step != 1:
        raise Unsupported("a slice with a step along a padded dimension")
    single(x.dims[axis])
    if start is None or (isinstance(start, int) and start == 0):
        length = call.sizes.bound(size)
        if length <= x.value.shape[axis]:
            return Ragged(x.value.narrow(axis, 0, length), (*x.dims[:axis], dim_of(size), *x.dims[axis + 1 :]))
        start = 0
    first = _start(call, x, axis, start).clamp(min=0)
    return _taken(call, x, axis, first, size)


@rule(aten.select)
def _select(call: Call, x: Ragged, axis: int, index: Any) -> Ragged:
    axis = _axis(axis, len(x.dims))
    dims = _kept(x.dims, [axis], False)
    if not isinstance(index, Ragged) and (index >= 0 or not ragged(x.dims[axis])):
        single(x.dims[axis])
        return Ragged(call.op(x.value, axis, index), dims)
    return Ragged(_taken(call, x, axis, _start(call, x, axis, index), 1).value.squeeze(axis), dims)


@rule(aten.split, aten.split_with_sizes, aten.unbind)
def _split(call: Call, x: Ragged, *args: Any) -> list[Ragged]:
    at = 0 if call.op.overloadpacket is aten.unbind else 1
    axis = _axis(args[at] if len(args) > at else 0, len(x.dims))
    if ragged(x.dims[axis]) or any(isinstance(s, Ragged) for a in args for s in (a if isinstance(a, list) else [a])):
        raise Unsupported("a split along a padded dimension")
    parts = call.op(x.value, *args)
    if at == 0:
        return [Ragged(p, _kept(x.dims, [axis], False)) for p in parts]
    return [Ragged(p, (*x.dims[:axis], dim_of(p.shape[axis]), *x.dims[axis + 1 :])) for p in parts]


def _paste(call: Call, out: Tensor, part: Ragged, axis: int, start: Tensor) -> Tensor:
    """``out`` with a tensor laid over it from ``start`` on; what is padding there stays."""
    places = call.sizes.positions(out.shape[axis]) - start
    inside = (places >= 0) & (places < call.sizes.tensor(single(part.dims[axis])))
    moved = part.value.index_select(axis, places.clamp(0, part.value.shape[axis] - 1))
    return torch.where(inside.view([-1 if i == axis else 1 for i in range(out.ndim)]), moved, out)


@rule(aten.cat)
def _cat(call: Call, tensors: Sequence[Ragged], axis: int = 0) -> Ragged:
    tensors = [t for t in tensors if t.value.ndim > 1 or t.dims != (dim_of(0),)]
    axis = _axis(axis, len(tensors[0].dims))
    others = joined([_kept(t.dims, [axis], True) for t in tensors])
    size = call.shape()[axis]
    dims = (*others[:axis], dim_of(size), *others[axis + 1 :])
    if not any(ragged(t.dims[axis]) for t in tensors):
        return Ragged(torch.cat([t.value for t in tensors], axis), dims)
    if len({t.value.dtype for t in tensors}) > 1:
        raise Unsupported("cat of several dtypes")
    shape = list(tensors[0].value.shape)
    shape[axis] = call.sizes.bound(size)
    out = torch.zeros(shape, dtype=tensors[0].value.dtype, device=tensors[0].value.device)
    start = call.sizes.tensor(0)
    for t in tensors:
        out = _paste(call, out, t, axis, start)
        start = start + call.sizes.tensor(single(t.dims[axis]))
    return Ragged(out, dims)


@rule(aten.stack)
def _stack(call: Call, tensors: Sequence[Ragged], axis: int = 0) -> Ragged:
    dims = joined([t.dims for t in tensors])
    axis = axis % (len(dims) + 1)
    return Ragged(call.op([t.value for t in tensors], axis), (*dims[:axis], dim_of(len(tensors)), *dims[axis:]))


@rule(aten.flip)
def _flip(call: Call, x: Ragged, axes: Sequence[int]) -> Ragged:
    if any(ragged(x.dims[i]) for i in _axes(list(axes), len(x.dims)) if axes):
        raise Unsupported("flip along a padded dimension")
    return Ragged(call.op(x.value, axes), x.dims)


@rule(aten.select_scatter)
def _select_scatter(call: Call, x: Ragged, part: Ragged, axis: int, index: Any) -> Ragged:
    axis = _axis(axis, len(x.dims))
    dims = (*part.dims[:axis], (), *part.dims[axis:])
    joined([dims, _kept(x.dims, [axis], True)])
    laid = Ragged(part.value.unsqueeze(axis), dims)
    return Ragged(_paste(call, x.value, laid, axis, _start(call, x, axis, index)), x.dims)


@rule(aten.slice_scatter)
def _slice_scatter(
    call: Call, x: Ragged, part: Ragged, axis: int = 0, start: Any = None, _end: Any = None, step: int = 1
) -> Ragged:
    axis = _axis(axis, len(x.dims))
    joined([_kept(part.dims, [axis], True), _kept(x.dims, [axis], True)])
    if step != 1:
        raise Unsupported("a write with a step along a padded dimension")
    first = _start(call, x, axis, 0 if start is None else start).clamp(min=0)
    return Ragged(_paste(call, x.value, part, axis, first), x.dims)


@rule(aten.copy)
def _copy(call: Call, x: Ragged, y: Ragged, *_args: Any) -> Ragged:
    joined([x.dims, y.dims])
    return Ragged(call.op(x.value, y.value), x.dims)


@rule(aten.constant_pad_nd)
def _pad(call: Call, x: Ragged, pad: Sequence[Any], value: Any = 0) -> Ragged:
    dims = list(x.dims)
    for i in range(len(pad) // 2):
        axis, (before, after) = len(dims) - 1 - i, pad[2 * i : 2 * i + 2]
        if before == 0 and after == 0:
            continue
        if ragged(dims[axis]) or isinstance(before, Ragged) or isinstance(after, Ragged):
            raise Unsupported("pad along a padded dimension")
        dims[axis] = dim_of(product(dims[axis]) + before + after)
    return Ragged(call.op(x.value, pad, value), tuple(dims))


@rule(aten.sum, aten.any, aten.all, aten.amax, aten.amin, aten.prod, aten.logsumexp, aten.max, aten.min)
def _reduction(call: Call, x: Ragged, axes: Any = None, keep: bool = False, **kwargs: Any) -> Any:
    packet = call.op.overloadpacket
    if isinstance(axes, Ragged):
        # max and min of two tensors.
        return pointwise(call, x, axes)
    along = _axes(axes, len(x.dims))
    dims = _kept(x.dims, along, keep)
    fill = {
        aten.sum: lambda _: 0, aten.any: lambda _: 0, aten.all: lambda _: 1, aten.prod: lambda _: 1,
        aten.amax: _lowest, aten.max: _lowest, aten.logsumexp: _lowest, aten.amin: _highest, aten.min: _highest,
    }[packet]  # fmt: skip
    value = call.sizes.filled(x, fill(x.value.dtype), along)
    if packet in (aten.max, aten.min) and axes is not None:
        single(x.dims[along[0]])
    args = [a for a, given in ((axes, axes is not None), (keep, axes is not None)) if given]
    out = call.op(value, *args, **kwargs)
    return [Ragged(o, dims) for o in out] if isinstance(out, tuple) else Ragged(out, dims)


def _lowest(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return False
    return -math.inf if dtype.is_floating_point else torch.iinfo(dtype).min


def _highest(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return True
    return math.inf if dtype.is_floating_point else torch.iinfo(dtype).max


@rule(aten.argmax, aten.argmin)
def _argmax(call: Call, x: Ragged, axis: int | None = None, keep: bool = False) -> Ragged:
    if axis is None:
        if len(x.dims) > 1:
            raise Unsupported("argmax of a whole padded tensor")
        axis = 0
    along = _axis(axis, len(x.dims))
    single(x.dims[along])
    fill = _lowest if call.op.overloadpacket is aten.argmax else _highest
    value = call.sizes.filled(x, fill(x.value.dtype), [along])
    # Of equal elements the first counts, and padding comes last.
    return Ragged(call.op(value, along, keep), _kept(x.dims, [along], keep))


def _count(call: Call, dims: Sequence[Dim]) -> Tensor:
    out = call.sizes.tensor(1)
    for dim in dims:
        for part in dim:
            out = out * call.sizes.tensor(part)
    return out


@rule(aten.mean)
def _mean(call: Call, x: Ragged, axes: Any = None, keep: bool = False, *, dtype: Any = None) -> Ragged:
    along = _axes(axes, len(x.dims))
    wide = _wide(call.meta.dtype)
    value = call.sizes.filled(x, 0, along).to(wide)
    total = value.sum(along, keep) if along else value
    out = total / _count(call, [x.dims[i] for i in along]).to(wide)
    return Ragged(out.to(call.meta.dtype), _kept(x.dims, along, keep))


def _wide(dtype: torch.dtype) -> torch.dtype:
    """What halves are added in."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


@rule(aten._softmax, aten._log_softmax, aten._safe_softmax)
def _softmax(call: Call, x: Ragged, axis: int, *args: Any, **kwargs: Any) -> Ragged:
    along = _axis(axis, len(x.dims))
    return Ragged(call.op(call.sizes.filled(x, -math.inf, [along]), axis, *args, **kwargs), x.dims)


@rule(aten.cumsum, aten.cumprod)
def _cumulative(call: Call, x: Ragged, axis: int, **kwargs: Any) -> Ragged:
    # Nothing flows from the end, where the padding is, to the front.
    if x.dims:
        single(x.dims[_axis(axis, len(x.dims))])
    return Ragged(call.op(x.value, axis, **kwargs), x.dims)


@rule(aten.mm, aten.bmm)
def _matmul(call: Call, x: Ragged, y: Ragged) -> Ragged:
    inner = joined([[x.dims[-1]], [y.dims[-2]]])
    batch = joined([x.dims[:-2], y.dims[:-2]])
    a, b = x.value, y.value
    if ragged(inner[0]):
        # Both: anything times 0 may be NaN.
        a = call.sizes.filled(x, 0, [len(x.dims) - 1])
        b = call.sizes.filled(y, 0, [len(y.dims) - 2])
    return Ragged(call.op(a, b), (*batch, x.dims[-2], y.dims[-1]))


@rule(aten.addmm, aten.baddbmm)
def _addmm(call: Call, bias: Ragged, x: Ragged, y: Ragged, *, beta: Any = 1, alpha: Any = 1) -> Ragged:
    inner = joined([[x.dims[-1]], [y.dims[-2]]])
    dims = (*joined([x.dims[:-2], y.dims[:-2]]), x.dims[-2], y.dims[-1])
    joined([dims, bias.dims])
    a, b = x.value, y.value
    if ragged(inner[0]):
        a = call.sizes.filled(x, 0, [len(x.dims) - 1])
        b = call.sizes.filled(y, 0, [len(y.dims) - 2])
    return Ragged(call.op(bias.value, a, b, beta=beta, alpha=alpha), dims)


@rule(aten.native_layer_norm)
def _layer_norm(call: Call, x: Ragged, shape: Sequence[Any], weight: Any, bias: Any, eps: float) -> list[Ragged]:
    along = range(len(x.dims) - len(shape), len(x.dims))
    if any(ragged(x.dims[i]) for i in along):
        raise Unsupported("layer_norm over a padded dimension")
    plain = [t.value if isinstance(t, Ragged) else t for t in (weight, bias)]
    dims = _kept(x.dims, along, True)
    out, mean, scale = call.op(x.value, [x.value.shape[i] for i in along], *plain, eps)
    return [Ragged(out, x.dims), Ragged(mean, dims), Ragged(scale, dims)]


@rule(aten.embedding)
def _embedding(call: Call, table: Ragged, places: Ragged, *args: Any) -> Ragged:
    if ragged(table.dims[0]):
        raise Unsupported("an index along a padded dimension")
    # Padding is no index.
    return Ragged(call.op(table.value, call.sizes.filled(places, 0), *args), (*places.dims, *table.dims[1:]))


@rule(aten.index_select)
def _index_select(call: Call, x: Ragged, axis: int, places: Ragged) -> Ragged:
    axis = _axis(axis, len(x.dims))
    if ragged(x.dims[axis]):
        raise Unsupported("an index along a padded dimension")
    dims = (*x.dims[:axis], places.dims[0] if places.dims else (), *x.dims[axis + 1 :])
    return Ragged(call.op(x.value, axis, call.sizes.filled(places, 0)), dims)


@rule(aten.index)
def _index(call: Call, x: Ragged, places: Sequence[Any]) -> Ragged:
    at = [i for i, p in enumerate(places) if p is not None]
    if at != list(range(at[0], at[-1] + 1)) or any(places[i].value.dtype in (torch.bool, torch.uint8) for i in at):
        raise Unsupported("masks and separate positions as indices")
    if any(ragged(x.dims[i]) for i in at):
        raise Unsupported("an index along a padded dimension")
    dims = (*x.dims[: at[0]], *joined([places[i].dims for i in at]), *x.dims[at[-1] + 1 :])
    plain = [None if p is None else call.sizes.filled(p, 0) for p in places]
    return Ragged(call.op(x.value, plain), dims)
