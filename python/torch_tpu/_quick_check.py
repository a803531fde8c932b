"""Spares the first matmul of a process the import of torch's compiler.

`torch._check`, which many of torch's Meta kernels call, imports `torch.fx.experimental.symbolic_shapes`, and with it
torch._dynamo and sympy: a second or more. For a condition that is a plain bool nothing of it is needed.
"""

import functools

import torch


def install() -> None:
    """Wraps `torch._check_with`; what it does stays the same."""
    original = torch._check_with
    if getattr(original, "_torch_tpu", False):
        return

    @functools.wraps(original)
    def check_with(error_type: type[BaseException], cond: object, message: object) -> None:
        if cond is True:
            return
        original(error_type, cond, message)

    check_with._torch_tpu = True
    torch._check_with = check_with
