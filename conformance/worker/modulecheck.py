"""A module of torch's database: forward, gradients and buffers, on the device and on the CPU."""

import copy
import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.testing._internal.common_modules import ModuleInfo, ModuleInput, module_db
from torch.utils._pytree import tree_flatten

from .compare import check
from .moving import NARROW, as_on_cpu, copied, mover, narrowed, widened
from .opcheck import DEVICE, Outcome, chosen, seed_of


@dataclasses.dataclass(frozen=True)
class _Case:
    """A module as it is made and called."""

    module: torch.nn.Module
    dtype: torch.dtype
    args: tuple
    kwargs: dict
    text: str

    def results(self, device: str, *, double: bool = False) -> "_Results":
        """Runs copies of the module and its inputs on a device, or in double precision, rounded to its type."""
        module = copy.deepcopy(self.module)
        args, kwargs = copied((self.args, self.kwargs))
        if hasattr(module, "options"):
            # An option of its own, which torch chooses otherwise for an accelerator.
            module.options = as_on_cpu((args, module.options))[1]
        if double:
            module = module.to(NARROW[self.dtype])
            args, kwargs = widened((args, kwargs))
        module = module.to(device)
        args, kwargs = mover(device)((args, kwargs))
        forward = module(*args, **kwargs)
        inputs = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor) and t.requires_grad]
        leaves = [*module.parameters(), *inputs]
        outputs = [t for t in tree_flatten(forward)[0] if isinstance(t, Tensor) and t.requires_grad]
        gradients: tuple = ()
        if leaves and outputs:
            given = [seed_of(t, i, self.dtype).to(device) for i, t in enumerate(outputs)]
            gradients = torch.autograd.grad(outputs, leaves, given, allow_unused=True)
        results = (forward, gradients, list(module.buffers()))
        return _Results(*(narrowed(results, self.dtype) if double else results))


@dataclasses.dataclass(frozen=True)
class _Results:
    forward: object
    gradients: tuple
    buffers: list[Tensor]


def run(info: ModuleInfo, dtype: torch.dtype, limit: int | None, seed: int) -> Outcome:
    """Each of the module's inputs, in each mode."""
    outcome = Outcome()
    for training, given in chosen(_inputs(info, dtype), limit, seed):
        case = _case(info, dtype, training, given)
        try:
            torch.manual_seed(1)
            theirs = case.results("cpu")
        except (RuntimeError, NotImplementedError):
            # What the CPU cannot run is no measure.
            continue
        outcome.samples += 1
        try:
            _judge(case, outcome, theirs)
        except Exception as e:
            outcome.fail(case.text, e)
    return outcome


def _judge(case: _Case, outcome: Outcome, theirs: _Results) -> None:
    ours, values = case.results(DEVICE), _repeats(case, theirs)

    def exact() -> float:
        return _compare(ours, case.results("cpu", double=True), values)

    outcome.judge(lambda: _compare(ours, theirs, values), exact if values and case.dtype in NARROW else None)


def _compare(ours: _Results, theirs: _Results, values: bool) -> float:
    return max(
        check(ours.forward, theirs.forward, values=values),
        check(ours.gradients, theirs.gradients, values=values, strides=False),
        check(ours.buffers, theirs.buffers, values=values),
    )


def _repeats(case: _Case, first: _Results) -> bool:
    """Whether the module gives the same from another seed: a random one has sizes to compare, and no values."""
    torch.manual_seed(2)
    try:
        check(case.results("cpu").forward, first.forward)
    except AssertionError:
        return False
    return True


def _inputs(info: ModuleInfo, dtype: torch.dtype) -> list[tuple[bool, ModuleInput]]:
    every = []
    for training in (True, False):
        torch.manual_seed(0)
        made = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        every += [(training, one) for one in made]
    return every


def _case(info: ModuleInfo, dtype: torch.dtype, training: bool, given: ModuleInput) -> _Case:
    torch.manual_seed(0)
    made, called = given.constructor_input, given.forward_input
    module = info.module_cls(*made.args, **made.kwargs).to(dtype).train(training)
    arguments = ", ".join([*map(str, made.args), *(f"{k}={v}" for k, v in made.kwargs.items())])
    mode = "training" if training else "evaluation"
    text = f"{info.name}({arguments}) {given.desc} in {mode}"[:300]
    return _Case(module, dtype, tuple(called.args), dict(called.kwargs), text)


def pairs() -> Iterator[tuple[str, str, str, ModuleInfo, torch.dtype]]:
    """Every test of the database: kind, name, dtype, module and dtype."""
    for info in module_db:
        for dtype in sorted(info.supported_dtypes("cpu"), key=str):
            yield "module", info.name, str(dtype).removeprefix("torch."), info, dtype
