"""How a process of torch becomes one side of a comparison. Runs in our environment and in torch_xla's."""

from collections.abc import Callable

# A side that has nothing to do then.
Call = Callable[[], object]


def begin(side: str) -> tuple[str, Call, Call, Call]:
    """The side's device, what ends a step on it, what waits for all that it runs, and what for its compiles.

    `cpu-...` is CPU torch, `xla-eager` and `xla-lazy` are torch_xla's modes. Any other is ours, strict but for `fused`.
    """
    if side.startswith("cpu"):
        return "cpu", nothing, nothing, nothing
    if side.startswith("xla"):
        import torch_xla
        import torch_xla.core.xla_model as xm

        torch_xla.experimental.eager_mode(side == "xla-eager")
        # What the lazy mode has recorded runs when it is told that the step ends.
        return "xla", torch_xla.sync if side == "xla-lazy" else nothing, xm.wait_device_ops, nothing
    import torch
    from torch_tpu import _core

    torch.tpu.eager_mode("fused" if side == "fused" else "strict")
    # The fused mode compiles on a thread of its own.
    return "tpu", nothing, torch.tpu.synchronize, lambda: _core.wait_for_fused(600.0)


def nothing() -> None:
    """Ends and waits where that is not needed."""
