"""What the tests of neural-network ops share."""

import pytest
import torch
from ops.util import check, on_tpu

HALF = [torch.bfloat16, torch.float16]
FLOATS = [torch.float32, torch.float64, *HALF]


def numbers(*shape, dtype=torch.float32, seed=0, scale=1.0):
    """Normal numbers, the same on every run."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * scale).to(dtype)


def with_grads(f):
    """`f`, returning its results and the gradients of all floating arguments for a gradient that differs everywhere."""

    def run(*args):
        leaves = [a.detach().clone().requires_grad_() if is_float(a) else a for a in args]
        results = f(*leaves)
        several = isinstance(results, (tuple, list))
        wanted = [r for r in (results if several else [results]) if is_float(r) and r.requires_grad]
        weights = [torch.linspace(-1, 1, r.numel(), dtype=torch.float64).reshape(r.shape).to(r) for r in wanted]
        inputs = [a for a in leaves if is_float(a)]
        grads = torch.autograd.grad(wanted, inputs, weights, allow_unused=True)
        flat = list(results) if several else [results]
        return [r.detach() for r in flat if isinstance(r, torch.Tensor)] + [
            g.contiguous() for g in grads if g is not None
        ]

    return run


def is_float(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def check_grads(f, *args):
    """Values and gradients equal those of CPU torch.

    In half precision each device's values round at other places on the way to a gradient, so gradients are held against
    exact ones.
    """
    if not any(is_float(a) and a.dtype in HALF for a in args):
        check(with_grads(f), *args)
        return
    check(lambda *a: f(*a), *args)
    check_precision(f, *args)


def check_precision(f, *args):
    """Values and gradients are no further from the exact ones than twice what CPU torch's are, and a rounding."""
    exact = with_grads(f)(*(a.double() if is_float(a) else a for a in args))
    want = with_grads(f)(*args)
    got = with_grads(f)(*(on_tpu(a) for a in args))
    for e, w, g in zip(exact, want, got, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if not is_float(w) or not w.numel():
            continue
        rounding = torch.finfo(w.dtype).eps * e.abs().max()
        assert (g.cpu() - e).abs().max() <= 2 * (w - e).abs().max() + rounding


def check_raises(f, *args):
    """CPU torch refuses the arguments; the TPU does with the same class and first line."""
    with pytest.raises(Exception) as want:
        f(*args)
    with pytest.raises(want.type) as got:
        f(*(on_tpu(a) for a in args)).cpu()
    assert str(got.value).split("\n")[0] == str(want.value).split("\n")[0]
