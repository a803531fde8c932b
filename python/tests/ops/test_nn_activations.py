"""Activations and their gradients."""

import functools
import math

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, HALF, check_grads, numbers
from ops.util import check

ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 0.7),
    "celu": lambda x: F.celu(x, 0.7),
    "selu": F.selu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.8),
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "softplus": lambda x: F.softplus(x, 2, 3),
    "softshrink": lambda x: F.softshrink(x, 0.4),
    "hardshrink": lambda x: F.hardshrink(x, 0.4),
    "tanhshrink": F.tanhshrink,
    "softsign": F.softsign,
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    # CPU torch gives a contiguous result whatever the input's strides.
    "logsigmoid": lambda x: F.logsigmoid(x).contiguous(),
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "rrelu_eval": lambda x: F.rrelu(x, 0.1, 0.3),
}


EDGES = [0.0, -0.0, math.nan, 0.5, -3.0, 3.0, 6.0, 100.0, -100.0, math.inf, -math.inf]
CASES = [
    *((name, dtype) for name in ACTIVATIONS for dtype in (torch.float32, torch.bfloat16)),
    *((name, dtype) for name in ("gelu", "softshrink", "softplus", "tanh") for dtype in (torch.float64, torch.float16)),
]


@pytest.mark.parametrize("name, dtype", CASES, ids=str)
def test_activation(name, dtype):
    f = ACTIVATIONS[name]
    # CPU torch's vectorized gelu is NaN, not infinity, at infinity.
    edges = torch.tensor(EDGES[:-2] if name == "gelu" else EDGES, dtype=dtype)
    check(f, edges)
    check_grads(f, numbers(len(edges), dtype=dtype, scale=2))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("eps", [None, 0.01])
def test_logit(eps, dtype):
    x = torch.tensor([0.0, 1.0, 0.5, 0.001, 0.2, 0.7, 0.97, math.nan], dtype=dtype)
    if dtype not in HALF:
        check_grads(lambda x: torch.logit(x, eps), x)
        return
    # Of halves CPU torch rounds 1 - x and x / (1 - x); so do we.
    check(lambda x: torch.logit(x, eps), x)


@pytest.mark.parametrize("name", ["relu", "gelu", "softplus", "logsigmoid", "hardtanh"])
def test_shapes(name):
    f = ACTIVATIONS[name]
    check_grads(f, numbers())
    check_grads(f, numbers(0, 3))
    check_grads(lambda x: f(x.t()[::2]), numbers(4, 6))


@pytest.mark.parametrize(
    "name",
    [
        "relu",
        "elu",
        "selu",
        "celu",
        "leaky_relu",
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "silu",
        "mish",
        "threshold",
        "rrelu",
    ],
)
def test_in_place(name):
    arguments = {"threshold": (0.1, 20.0)}.get(name, ())
    check(lambda x: getattr(F, name)(x.clone(), *arguments, inplace=True), numbers(3, 4))


def test_integers():
    check(F.relu, torch.tensor([-2, 0, 3]))
    check(lambda x: F.hardtanh(x, -1, 2), torch.tensor([-2, 0, 3]))
    check(lambda x: F.threshold(x, 1, 7), torch.tensor([-2, 0, 3]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_glu_and_prelu(dtype):
    for dim in [0, -1]:
        check_grads(lambda x, dim=dim: F.glu(x, dim), numbers(4, 6, 2, dtype=dtype))
    check_grads(F.prelu, numbers(2, 3, 4, dtype=dtype), numbers(3, dtype=dtype, seed=1))
    check_grads(F.prelu, numbers(2, 3, dtype=dtype), numbers(1, dtype=dtype, seed=1))


@pytest.mark.parametrize("dim", [0, -1])
def test_glu_moves_forward(dim):
    x, dx, ddx = (numbers(4, 6, seed=seed) for seed in range(3))

    def tangents(x, dx, ddx):
        f = functools.partial(F.glu, dim=dim)
        slope = torch.func.grad(lambda x: f(x).square().sum())
        return [*torch.func.jvp(f, (x,), (dx,)), *torch.func.jvp(slope, (x,), (ddx,))]

    check(tangents, x, dx, ddx)


def test_rrelu_draws_slopes():
    x = -torch.ones(1000, device="tpu", requires_grad=True)
    y = F.rrelu(x, 0.1, 0.3, training=True)
    (g,) = torch.autograd.grad(y.sum(), x)
    # XLA computes the slope once for each of the two, and may round it otherwise.
    torch.testing.assert_close(g, -y.detach())
    assert 0.1 <= g.min().item() < 0.12 and 0.28 < g.max().item() <= 0.3
    assert torch.equal(F.rrelu(-x, 0.1, 0.3, training=True), -x)


def test_second_gradients():
    def run(x):
        x = x.detach().requires_grad_()
        y = F.gelu(x) + F.silu(x) + F.softplus(x) + torch.tanh(x) + F.elu(x)
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(g.pow(2).sum(), x)[0]

    check(run, numbers(3, 4))
