"""An optimizer of torch's database: some steps on small parameters, on the device and on the CPU, in each way."""

import copy
import dataclasses
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.testing._internal.common_optimizers import OptimizerInfo, optim_db

from .compare import Differs, check
from .opcheck import DEVICE, Outcome, chosen

STEPS = 4
DTYPES = (torch.float32, torch.float64)
# Muon takes matrices only.
_MATRICES = ((4, 3), (3, 5))
_SHAPES = ((3, 4), (5,), (2, 1, 3), ())


@dataclasses.dataclass(frozen=True)
class _Case:
    """An optimizer with its arguments."""

    info: OptimizerInfo
    dtype: torch.dtype
    kwargs: dict
    text: str

    def results(self, device: str) -> tuple[list[Tensor], list[dict]]:
        """Parameters and state after some steps on a device."""
        generator = torch.Generator().manual_seed(7)

        def random(shape: tuple[int, ...]) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)

        shapes = _MATRICES if self.info.name == "Muon" else _SHAPES
        parameters = [torch.nn.Parameter(random(shape).to(device)) for shape in shapes]
        wanted = [random(shape).to(device) for shape in shapes]
        optimizer = self.info.optim_cls(parameters, **copy.deepcopy(self.kwargs))

        def loss() -> Tensor:
            optimizer.zero_grad()
            value = sum(((p - w) ** 2).sum() for p, w in zip(parameters, wanted, strict=True))
            value.backward()
            return value

        for _ in range(STEPS):
            if self.info.step_requires_closure:
                optimizer.step(loss)
                continue
            for parameter, shape in zip(parameters, shapes, strict=True):
                gradient = random(shape)
                if self.info.only_supports_sparse_grads:
                    gradient = gradient.to_sparse()
                parameter.grad = gradient.to(device)
            optimizer.step()
        state = [optimizer.state[p] for p in parameters if p in optimizer.state]
        return [p.detach() for p in parameters], [_numbers(one) for one in state]


def _numbers(state: dict) -> dict:
    """Of a state what is compared: where the steps are counted, and as what, is the optimizer's choice."""
    return {name: value for name, value in state.items() if isinstance(value, Tensor) and name != "step"}


def run(info: OptimizerInfo, dtype: torch.dtype, limit: int | None, seed: int) -> Outcome:
    """Each of the optimizer's arguments, in each of its implementations."""
    outcome = Outcome()
    for case in chosen(_cases(info, dtype), limit, seed):
        outcome.samples += 1
        try:
            outcome.ulps = max(outcome.ulps, _one(case))
        except Exception as e:
            outcome.fail(case.text, e)
    return outcome


def _one(case: _Case) -> float:
    try:
        theirs = case.results("cpu")
    except Exception as refused:
        try:
            case.results(DEVICE)
        except type(refused):
            return 0.0
        raise Differs(f"is accepted, the CPU raises {type(refused).__name__}: {refused}") from None
    return check(case.results(DEVICE), theirs, strides=False)


def _cases(info: OptimizerInfo, dtype: torch.dtype) -> list[_Case]:
    ways: list[tuple[str, dict]] = [("one by one", {"foreach": False} if "foreach" in info.supported_impls else {})]
    ways += [(way, {way: True}) for way in ("foreach", "fused") if way in info.supported_impls]
    cases = []
    for given in info.optim_inputs_func(device="cpu", dtype=dtype):
        for way, more in ways:
            kwargs = {**given.kwargs, **more}
            cases.append(_Case(info, dtype, kwargs, f"{info.name} {given.desc or given.kwargs}, {way}"))
    return cases


def pairs() -> Iterator[tuple[str, str, str, OptimizerInfo, torch.dtype]]:
    """Every test of the database: kind, name, dtype, optimizer and dtype."""
    for info in optim_db:
        for dtype in DTYPES:
            yield "optim", info.name, str(dtype).removeprefix("torch."), info, dtype
