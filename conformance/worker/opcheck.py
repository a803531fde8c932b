"""An operator of torch's database: run on CPU torch and on the device, and compared."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils._pytree import tree_flatten, tree_map

from .compare import Differs, check, comparing
from .invariants import comparable, ordered, tied
from .moving import NARROW, copied, mover, narrow_type, narrowed, turned, widened

DEVICE = "tpu"

# The database seeds the generators of random ops before each call, which hides that they are random.
common_methods_invocations.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)
MESSAGES = 4
# What these return was never written.
_UNINITIALIZED = (
    "empty",
    "new_empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty_strided",
    "resize_",
    "resize_as_",
)

# Random without this argument, though two seeds may choose alike: nothing is an argument that no call has.
_RANDOM_UNLESS = {
    "bernoulli": "",
    "multinomial": "",
    "nn.functional.fractional_max_pool2d": "_random_samples",
    "nn.functional.fractional_max_pool3d": "_random_samples",
}

# These read their indices on the host: a tensor of them must lie there.
_SECOND_ON_CPU = ("tensor_split",)


@dataclasses.dataclass
class Outcome:
    """How a test went."""

    samples: int = 0
    failed: int = 0
    ulps: float = 0.0
    # Comparisons that the CPU's own rounding decided: the result is not within the tolerance of what the CPU gives in
    # the tested type, but of what it gives in double precision.
    by_double: int = 0
    messages: list[str] = dataclasses.field(default_factory=list)

    def judge(self, plain: Callable[[], float], double: Callable[[], float] | None) -> None:
        """Takes the error that a comparison with the CPU in the tested type returns, or where that raises the one with
        the CPU in double precision; where neither is met, raises what the first did.
        """
        try:
            ulps = plain()
        except AssertionError as differs:
            if double is None:
                raise
            try:
                ulps = double()
            except Exception:
                # What the CPU cannot do in double precision is no measure.
                raise differs from None
            self.by_double += 1
        self.ulps = max(self.ulps, ulps)

    def fail(self, where: str, why: object) -> None:
        """Counts a failure; the first few are told. Where nothing is compared, a difference is none."""
        if isinstance(why, Differs) and not comparing():
            return
        self.failed += 1
        if len(self.messages) < MESSAGES:
            text = str(why) if isinstance(why, Differs) else f"{type(why).__name__}: {why}"
            self.messages.append(f"{where}: {text}"[:1500])


@dataclasses.dataclass(frozen=True)
class Call:
    """A sample, as a function is called with it."""

    input: object
    args: tuple
    kwargs: dict

    @staticmethod
    def of(sample: SampleInput) -> "Call":
        return Call(sample.input, tuple(sample.args), dict(sample.kwargs))

    def to(self, device: str) -> "Call":
        """On a device."""
        moved = Call(*mover(device)((self.input, self.args, self.kwargs)))
        if moved.kwargs.get("device") in ("cpu", torch.device("cpu")):
            moved.kwargs["device"] = device
        return moved

    def fresh(self) -> "Call":
        """With copies of all tensors."""
        return Call(*copied((self.input, self.args, self.kwargs)))

    def in_double(self) -> "Call":
        """With floats in double precision."""
        return Call(*widened((self.input, self.args, self.kwargs)))

    def turned(self) -> "Call":
        """With the values of all tensors in the opposite order."""
        return Call(*turned((self.input, self.args, self.kwargs)))

    def plain(self) -> "Call":
        """With nothing that needs a gradient."""
        return Call(
            *tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, (self.input, self.args, self.kwargs))
        )

    def run(self, function: Callable, **more: object) -> object:
        return function(self.input, *self.args, **self.kwargs, **more)

    def __str__(self) -> str:
        def short(value: object) -> object:
            if isinstance(value, Tensor):
                strides = "" if value.layout != torch.strided or value.is_contiguous() else f" strides {value.stride()}"
                return _Text(f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}{strides}")
            return value

        parts = [repr(tree_map(short, self.input)), *(repr(tree_map(short, a)) for a in self.args)]
        parts += [f"{k}={tree_map(short, v)!r}" for k, v in self.kwargs.items()]
        return f"({', '.join(parts)})"


def moved(op: OpInfo, call: Call) -> Call:
    """A call on the device, but for arguments that every accelerator wants on the CPU."""
    ours = call.to(DEVICE)
    if op.name in _SECOND_ON_CPU:
        return Call(ours.input, call.args, ours.kwargs)
    return ours


class _Text(str):
    def __repr__(self) -> str:
        return str(self)


def chosen(samples: Iterable, limit: int | None, seed: int) -> list:
    """All samples, or ``limit`` of them spread over the list from a start that the seed decides.

    The first of few is one that tells much, where there is one: a sample with axes and arguments finds a wrong axis, an
    empty one, or one that takes all axes, does not.
    """
    every = list(samples)
    if limit is None or len(every) <= limit:
        return every
    step = len(every) / limit
    few = [every[int(seed + i * step) % len(every)] for i in range(limit)]
    most = max(map(_tells, every))
    if most > max(map(_tells, few)):
        telling = [s for s in every if _tells(s) == most]
        few[0] = telling[seed % len(telling)]
    return few


def _tells(sample: object) -> int:
    """How much a sample tells: of several elements along several axes, with arguments, with some of the axes."""
    if not isinstance(sample, SampleInput):
        return 0
    first = next((t for t in tree_flatten(sample.input)[0] if isinstance(t, Tensor)), None)
    more = (*sample.args, *sample.kwargs.values())
    if first is None or first.dim() < 2 or first.numel() < 2 or not more:
        return 0
    return 2 if any(_some_axes(value, first.dim()) for value in more) else 1


def _some_axes(value: object, rank: int) -> bool:
    axes = (value,) if type(value) is int else value
    if not isinstance(axes, tuple | list) or not all(type(a) is int and -rank <= a < rank for a in axes):
        return False
    return 0 < len({a % rank for a in axes}) < rank


def samples_of(op: OpInfo, dtype: torch.dtype, *, grad: bool, limit: int | None, seed: int) -> list[SampleInput]:
    """Samples on the CPU, the same ones at each call."""
    torch.manual_seed(0)
    return chosen(op.sample_inputs("cpu", dtype, requires_grad=grad), limit, seed)


def run_op(op: OpInfo, dtype: torch.dtype, limit: int | None, seed: int, *, brief: bool = False) -> Outcome:
    """Forward: the function, the method, in place and with ``out=``; the function only where the time is short."""
    outcome = Outcome()
    for number, sample in enumerate(samples_of(op, dtype, grad=False, limit=limit, seed=seed)):
        call = Call.of(sample)
        outcome.samples += 1
        variants = _variants(op, Check(op, dtype, call, outcome), sample, number)
        for name, one in itertools.islice(variants, 1 if brief else None):
            try:
                one()
            except Exception as e:  # whatever an op raises is the result of its test
                outcome.fail(f"{name}{call}", e)
                break
    return outcome


@dataclasses.dataclass(frozen=True)
class Check:
    """A sample of an op, and where its outcome goes."""

    op: OpInfo
    dtype: torch.dtype
    call: Call
    outcome: Outcome

    def judge(
        self, theirs: object, check_with: Callable[[object], float], run: Callable[[Call], object] | None
    ) -> None:
        """Compares with what the CPU gave, and where that differs with what ``run`` gives there in double precision,
        rounded to the tested type.
        """

        def exact() -> float:
            return check_with(narrowed(run(self.call.in_double()), self.dtype))

        self.outcome.judge(lambda: check_with(theirs), exact if run and self.dtype in NARROW else None)

    def agree(self, function: Callable, result: object, theirs: object, *, values: bool, strides: bool = True) -> None:
        """Judges a result of the function."""

        def check_with(right: object) -> float:
            return check(*comparable(self.op, self.call, result, right), values=values, strides=strides)

        # Of random numbers only sizes are compared.
        self.judge(theirs, check_with, (lambda call: call.run(function)) if values else None)


def _variants(op: OpInfo, one: Check, sample: SampleInput, number: int) -> Iterator[tuple[str, Callable[[], None]]]:
    functions = [("", op.get_op())]
    if op.method_variant is not None and number == 0:
        functions.append(("method", op.method_variant))
    for name, function in functions:
        yield name, lambda f=function: _forward(one, f)
    if op.inplace_variant is not None and not sample.broadcasts_input and isinstance(one.call.input, Tensor):
        yield "in place ", lambda: _forward(one, op.inplace_variant)
    if op.supports_out:
        yield "out= ", lambda: _out(one)


def on_cpu(op: OpInfo, function: Callable, call: Call) -> tuple[object, bool]:
    """The result on the CPU, and whether its values mean something."""
    torch.manual_seed(1)
    first = call.fresh().run(function)
    if op.name in _UNINITIALIZED or (op.name in _RANDOM_UNLESS and _RANDOM_UNLESS[op.name] not in call.kwargs):
        return first, False
    try:
        # Of few elements two seeds often choose alike.
        for other in (2, 3, 4):
            torch.manual_seed(other)
            check(call.fresh().run(function), first)
    except (AssertionError, RuntimeError):
        return first, False
    return first, True


def _forward(one: Check, function: Callable) -> None:
    op, call = one.op, one.call
    ours = moved(op, call)
    if function is op.inplace_variant:
        ours = ours.fresh()
    try:
        theirs, values = on_cpu(op, function, call)
    except Exception as refused:
        _refused(lambda: ours.run(function), refused)
        return
    result = ours.run(function)
    if function is op.inplace_variant and isinstance(result, Tensor) and result.data_ptr() != ours.input.data_ptr():
        raise Differs("the result is not the tensor that was to be changed")
    one.agree(function, result, theirs, values=values)


def _refused(ours: Callable, theirs: Exception) -> None:
    """What the CPU refuses, the device refuses in the same class; or it can do more than the CPU."""
    if isinstance(theirs, NotImplementedError | RuntimeError) and "not implemented" in str(theirs):
        return
    try:
        ours()
    except Exception as e:
        if type(e) is type(theirs):
            return
        raise Differs(f"raises {type(e).__name__} ({e}), the CPU {type(theirs).__name__} ({theirs})") from None
    raise Differs(f"is accepted, the CPU raises {type(theirs).__name__}: {theirs}")


def _out(one: Check) -> None:
    op, call = one.op, one.call
    function = op.get_op()
    try:
        theirs, values = on_cpu(op, function, call)
        outs = tree_map(lambda t: torch.empty_like(t) if isinstance(t, Tensor) else t, theirs)
        if not all(isinstance(t, Tensor) for t in tree_flatten(theirs)[0]):
            return
        outs = outs if isinstance(outs, Tensor) else tuple(outs)
        theirs = call.fresh().run(function, out=outs)
    except Exception:
        # Not every sample can be called so.
        return
    given = mover(DEVICE)(outs)
    result = moved(op, call).run(function, out=given)
    if theirs is None:
        # The copies of several views return nothing.
        one.outcome.judge(lambda: check(*comparable(op, call, given, outs), values=values), None)
        return
    pairs = zip(tree_flatten(result)[0], tree_flatten(given)[0], strict=True)
    if any(a is not b for a, b in pairs):
        raise Differs("the result is not the tensor given as out")
    one.agree(function, result, theirs, values=values)


def run_grad(op: OpInfo, dtype: torch.dtype, limit: int | None, seed: int, *, twice: bool) -> Outcome:
    """Gradients, or with ``twice`` gradients of gradients, for given ones of the results.

    Of one sample with several differentiable arguments each gradient is also asked for alone: a kernel may leave out
    the others.
    """
    outcome = Outcome()
    separately = not twice
    for sample in samples_of(op, dtype, grad=True, limit=limit, seed=seed):
        # Leaves of its own: those of a sample may be parts of others, which no gradient reaches.
        call = Call.of(sample).fresh()
        one = Check(op, dtype, call, outcome)
        try:
            with torch.no_grad():
                _, values = on_cpu(op, op.get_op(), call.plain())
            if not values or tied(op, call):
                continue
            theirs = gradients(op, call, sample, twice, "cpu", dtype)
        except Exception:
            # What the CPU cannot differentiate is no measure.
            continue
        if theirs is None:
            continue
        outcome.samples += 1
        try:
            ours = gradients(op, moved(op, call), sample, twice, DEVICE, dtype)
            agree_gradients(one, sample, ours, theirs, twice=twice)
            if separately and len(theirs) > 1:
                separately = False
                _agree_one_by_one(one, sample, theirs)
        except Exception as e:
            outcome.fail(f"{'double backward' if twice else 'backward'}{call}", e)
    return outcome


def agree_gradients(one: Check, sample: SampleInput, ours: object, theirs: object, *, twice: bool = False) -> None:
    """Judges gradients of the op."""

    def check_with(right: object) -> float:
        try:
            return check(ours, right, strides=False)
        except AssertionError:
            if not twice or right is not theirs:
                raise
        # In which order three contributions to a gradient are added shows in halves, and torch promises none.
        return check(ours, gradients(one.op, one.call, sample, twice, "cpu", one.dtype, apart=True), strides=False)

    one.judge(theirs, check_with, lambda call: gradients(one.op, call, sample, twice, "cpu", one.dtype))


def _agree_one_by_one(one: Check, sample: SampleInput, theirs: tuple) -> None:
    op, call, dtype = one.op, one.call, one.dtype
    for number, wanted in enumerate(theirs):
        if wanted is not None:
            only = dataclasses.replace(one, call=_with_leaf(call, number))
            ours = gradients(op, _with_leaf(moved(op, call), number), sample, False, DEVICE, dtype)
            agree_gradients(only, sample, ours, (wanted,))


def _with_leaf(call: Call, number: int) -> Call:
    """A call of which only that leaf has a gradient."""
    leaf = _leaves(call)[number]
    return Call(
        *tree_map(
            lambda x: x.detach() if isinstance(x, Tensor) and x.requires_grad and x is not leaf else x,
            (call.input, call.args, call.kwargs),
        )
    )


def _leaves(call: Call) -> list[Tensor]:
    flat = tree_flatten((call.input, call.args, call.kwargs))[0]
    unique: dict[int, Tensor] = {id(t): t for t in flat if isinstance(t, Tensor) and t.requires_grad}
    return list(unique.values())


def gradients(
    op: OpInfo, call: Call, sample: SampleInput, twice: bool, device: str, dtype: torch.dtype, *, apart: bool = False
) -> tuple | None:
    """Gradients, or those of gradients. With ``apart`` the first are computed by a thread of their own, as they are on
    an accelerator: the engine visits nodes by numbers that each thread counts, so it adds contributions in that order.
    """
    leaves = _leaves(call)
    result = ordered(op, sample.output_process_fn_grad(call.run(op.get_op())))
    outputs = [t for t in tree_flatten(result)[0] if isinstance(t, Tensor) and t.requires_grad]
    if not leaves or not outputs:
        return None
    given = [seed_of(t, i, dtype).to(device).requires_grad_(twice) for i, t in enumerate(outputs)]
    with ThreadPoolExecutor(1) as thread:
        run = (lambda f: thread.submit(f).result()) if apart else (lambda f: f())
        first = run(lambda: torch.autograd.grad(outputs, leaves, given, create_graph=twice, allow_unused=True))
    if not twice:
        return first
    again = [t for t in first if t is not None and t.requires_grad]
    if not again:
        return None
    seeds = [seed_of(t, 100 + i, dtype).to(device) for i, t in enumerate(again)]
    return torch.autograd.grad(again, [*leaves, *given], seeds, allow_unused=True)


def seed_of(tensor: Tensor, number: int, dtype: torch.dtype) -> Tensor:
    """:func:`like`, rounded to the tested type: a reference in double precision begins with the same numbers."""
    return like(tensor, number).to(narrow_type(tensor.dtype, dtype)).to(tensor.dtype)


def like(tensor: Tensor, number: int) -> Tensor:
    """A gradient for a result, the same for both devices."""
    generator = torch.Generator().manual_seed(number)
    real = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    if tensor.is_complex():
        real = torch.complex(real, torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    return real.to(tensor.dtype)


def run_errors(op: OpInfo, limit: int | None, seed: int) -> Outcome:
    """Wrong calls raise what they raise on the CPU."""
    outcome = Outcome()
    torch.manual_seed(0)
    errors = op.error_inputs("cpu") if op.error_inputs_func is not None else ()
    for error in chosen(errors, limit, seed):
        call = Call.of(error.sample_input)
        outcome.samples += 1
        try:
            call.fresh().run(op.get_op())
        except Exception as refused:
            theirs = refused
        else:
            continue
        try:
            _refused(lambda c=call: moved(op, c).run(op.get_op()), theirs)
        except Exception as e:
            outcome.fail(f"{call}", e)
    return outcome


def dtypes_of(op: OpInfo, kind: str) -> list[torch.dtype]:
    """Dtypes of the CPU in which an op is tested."""
    if kind == "op":
        return sorted(op.supported_dtypes("cpu"), key=str)
    if kind == "error":
        return [torch.float32] if op.error_inputs_func is not None else []
    if not op.supports_autograd or (kind == "gradgrad" and not op.supports_gradgrad):
        return []
    differentiable = op.supported_backward_dtypes("cpu")
    return sorted((d for d in differentiable if d.is_floating_point or d.is_complex), key=str)


def name_of(op: OpInfo) -> str:
    """The op's name in the database, with its variant."""
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def pairs() -> Iterator[tuple[str, str, str, OpInfo, torch.dtype]]:
    """Every test of the database: kind, name, dtype, op and dtype."""
    for op, kind in itertools.product(common_methods_invocations.op_db, ("op", "grad", "gradgrad", "error")):
        for dtype in dtypes_of(op, kind):
            yield kind, name_of(op), str(dtype).removeprefix("torch."), op, dtype
