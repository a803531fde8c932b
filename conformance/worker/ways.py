"""How the device runs an op, and with which programs: asked of the runtime."""

import contextlib
from collections.abc import Iterator, Sequence

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch_tpu import _core, _decompose

DEVICE = "tpu"


class _Seen(TorchDispatchMode):
    """Notes which ops reach the device; what a kernel calls in its turn does not come here."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: set[str] = set()

    def __torch_dispatch__(
        self, func: torch._ops.OpOverload, types: Sequence[type], args: tuple = (), kwargs: dict | None = None
    ) -> object:
        name, overload = func._schema.name, func._schema.overload_name
        self.ops.add(f"{name}.{overload}" if overload else name)
        return func(*args, **(kwargs or {}))


def of(op: OpInfo, dtype: torch.dtype, limit: int | None, seed: int) -> str:
    """``lowering``, ``decomposition`` or ``fallback``: the farthest from a lowering of what the first sample needs.

    Empty where no sample runs.
    """
    from .opcheck import Call, samples_of

    before = dict(_core.fallbacks())
    seen = _Seen()
    try:
        # The one that is compared first: its programs are used again.
        sample = samples_of(op, dtype, grad=False, limit=limit, seed=seed)[0]
        call = Call.of(sample).to(DEVICE)
        with seen:
            call.run(op.get_op())
    except Exception as e:
        # Why it does not run is for the comparison to tell; here only a refused fallback counts.
        return "fallback" if "TORCH_TPU_FALLBACK" in str(e) else ""
    if _core.fallbacks() != before:
        return "fallback"
    return "decomposition" if seen.ops.intersection(_decompose.registered()) else "lowering"


@contextlib.contextmanager
def programs(wanted: bool) -> Iterator[list[str]]:
    """The programs that run meanwhile, as StableHLO, once the context is left."""
    found: list[str] = []
    if not wanted:
        yield found
        return
    # Forgets what ran before.
    _core.record_programs(True)
    try:
        yield found
    finally:
        torch.tpu.synchronize()
        # Sorted: the order of costs is part of the report.
        found.extend(sorted(set(_core.take_programs())))
        _core.record_programs(False)
