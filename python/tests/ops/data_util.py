"""What the tests of creation, indexing and shape ops share."""

import pytest
import torch
from ops.util import check

# One of each kind that is computed differently: for tests of many programs.
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool]
# For ops that only move elements.
MOVED = [torch.float32, torch.bool]


def values(dtype, *shape):
    """Distinct numbers, so that a wrong place shows; every third is True for booleans."""
    n = torch.Size(shape).numel()
    order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    if dtype == torch.bool:
        return (order % 3 == 0).reshape(shape)
    return order.to(dtype).reshape(shape)


def grads(f):
    """`f`, returning its result and the gradients of its floating arguments for a gradient that differs everywhere."""

    def run(*args):
        leaves = [a.detach().clone().requires_grad_() if differentiable(a) else a for a in args]
        result = f(*leaves)
        weights = torch.linspace(1, 2, result.numel(), dtype=torch.float64).reshape(result.shape).to(result)
        wanted = [a for a in leaves if differentiable(a)]
        return [result.detach(), *torch.autograd.grad(result, wanted, weights)]

    return run


def differentiable(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def check_grads(f, *args):
    """Values and gradients equal those of CPU torch."""
    check(grads(f), *args)


def check_raises(f, *args):
    """The device refuses what the CPU refuses, in the same class and words."""
    with pytest.raises(Exception) as wanted:
        f(*args)
    with pytest.raises(type(wanted.value)) as got:
        f(*(a.to("tpu") if isinstance(a, torch.Tensor) else a for a in args))
        torch.tpu.synchronize()
    assert str(wanted.value).split("\n")[0] in str(got.value)
