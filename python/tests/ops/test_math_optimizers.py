"""foreach ops, fused optimizers and the gradient scaler: every optimizer of torch, on tpu as on CPU."""
# ruff: noqa: B023 (the functions are called at once, within the same turn of the loop)

import math

import pytest
import torch
from ops.util import check
from torch_tpu import _core

NAN, INF = math.nan, math.inf


def lists(dtype=torch.float32):
    a = [torch.tensor([[0.5, 2.0], [3.0, 4.5]]), torch.tensor([1.5, 0.25, 2.0]), torch.tensor(3.0)]
    return [x.to(dtype) for x in a]


UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


@pytest.mark.parametrize("name", UNARY)
def test_foreach_unary(name):
    for dtype in (torch.float32, torch.bfloat16) if name in ("abs", "exp", "round") else (torch.float32,):
        x = [t / 5 for t in lists(dtype)]
        check(lambda *a: getattr(torch, f"_foreach_{name}")(a), *x)

    def in_place(*a):
        a = [t.clone() for t in a]
        getattr(torch, f"_foreach_{name}_")(a)
        return a

    check(in_place, *[t / 5 for t in lists()])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
def test_foreach_binary(name):
    f, g = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = [t.ceil() for t in lists()] if dtype == torch.int64 else lists(dtype)
        x = [t.to(dtype) for t in x]
        check(lambda *a: f(a, [t + 1 for t in a]), *x)
        check(lambda *a: f(a, 2), *x)
        if dtype != torch.float32:
            continue
        check(lambda *a: f(a, [1, 2, 3]), *x)
        if name in ("add", "sub", "mul", "div"):
            check(lambda *a: f(a, 0.5), *x)
        if name in ("add", "mul", "div"):
            check(lambda *a: f(a, torch.tensor(1.5).to(a[0].device)), *x)

    def in_place(*a):
        a = [t.clone() for t in a]
        g(a, 0.5)
        g(a, [t * 2 for t in a])
        g(a, [0.5, 1.5, 2.0])
        return a

    check(in_place, *lists())
    if name in ("add", "sub"):
        check(lambda *a: f(a, [t * 3 for t in a], alpha=0.1), *lists())
    if name == "pow":
        check(lambda *a: torch._foreach_pow(0.9, a), *lists())


def test_foreach_of_three():
    x = lists()
    for name in ("addcmul", "addcdiv"):
        f = getattr(torch, f"_foreach_{name}")
        check(lambda *a: f(a, [t + 1 for t in a], [t + 2 for t in a], value=0.5), *x)
        check(lambda *a: f(a, [t + 1 for t in a], [t + 2 for t in a], [0.1, 0.2, 0.3]), *x)
    check(lambda *a: torch._foreach_lerp(a, [t + 1 for t in a], 0.25), *x)
    check(lambda *a: torch._foreach_lerp(a, [t + 1 for t in a], [t / 5 for t in a]), *x)


def test_foreach_rest():
    x = lists()
    for p in (1, 2, INF):
        check(lambda *a, p=p: torch._foreach_norm(a, p), *x)
    check(lambda *a: torch._foreach_norm(a, 2, dtype=torch.float32), *lists(torch.bfloat16))
    check(lambda *a: torch._foreach_max(a), *x)

    def zero_and_copy(*a):
        zeros, copies = [t.clone() for t in a], [t.clone() for t in a]
        torch._foreach_zero_(zeros)
        torch._foreach_copy_(copies, [t.double() * 2 for t in a])
        return [*zeros, *copies]

    check(zero_and_copy, *x)


def test_clip():
    for foreach in (False, True):

        def clipped(*grads, foreach=foreach):
            parameters = [torch.nn.Parameter(torch.zeros_like(g)) for g in grads]
            for p, g in zip(parameters, grads, strict=True):
                p.grad = g.clone()
            norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=foreach)
            torch.nn.utils.clip_grad_value_(parameters, 0.3, foreach=foreach)
            return [norm, *(p.grad for p in parameters)]

        check(clipped, *lists())


OPTIMIZERS = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "maximize": True}),
    ("AdamW", {}),
    ("AdamW", {"amsgrad": True, "weight_decay": 0.2}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("ASGD", {"weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "momentum": 0.9, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Adafactor", {}),
    ("Muon", {}),
    ("LBFGS", {"max_iter": 4}),
]
FUSED = {"SGD", "Adam", "AdamW", "Adagrad"}
CAPTURABLE = {"Adam", "AdamW", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "RMSprop", "Rprop"}
NO_FOREACH = {"LBFGS", "Muon"}


def ways():
    for name, options in OPTIMIZERS:
        yield name, options
        if name not in NO_FOREACH:
            yield name, {**options, "foreach": False}
            yield name, {**options, "foreach": True}
        if name in FUSED:
            yield name, {**options, "fused": True}


def train(name, options, device, dtype=torch.float32, steps=4, rates=None):
    generator = torch.Generator().manual_seed(1)
    shapes = [(4, 3), (2, 5)] if name == "Muon" else [(4, 3), (3,), ()]
    start = [torch.randn(s, generator=generator).to(dtype) for s in shapes]
    targets = [torch.randn(s, generator=generator).to(dtype) for s in shapes]
    parameters = [torch.nn.Parameter(t.to(device)) for t in start]
    targets = [t.to(device) for t in targets]
    optimizer = getattr(torch.optim, name)(parameters, lr=0.05, **options)
    for i in range(steps):
        if rates:
            for group in optimizer.param_groups:
                group["lr"] = rates[i % len(rates)]

        def closure():
            optimizer.zero_grad()
            loss = sum(((p - t) ** 2).sum() for p, t in zip(parameters, targets, strict=True))
            loss.backward()
            return loss

        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    state = [v for p in parameters for v in optimizer.state[p].values() if isinstance(v, torch.Tensor)]
    return [p.detach().cpu() for p in parameters], [s.detach().cpu() for s in state]


@pytest.mark.parametrize(("name", "options"), list(ways()))
def test_optimizer(name, options):
    before = _core.fallbacks()
    torch.testing.assert_close(train(name, options, "tpu"), train(name, options, "cpu"), check_dtype=True)
    assert _core.fallbacks() == before


@pytest.mark.parametrize("name", sorted(CAPTURABLE))
@pytest.mark.parametrize("foreach", [False, True])
def test_capturable(name, foreach):
    options = {"capturable": True, "foreach": foreach}
    torch.testing.assert_close(train(name, options, "tpu"), train(name, {}, "cpu"))


@pytest.mark.parametrize("name", sorted(FUSED))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_fused_in_other_types(name, dtype):
    options = {"fused": True}
    torch.testing.assert_close(train(name, options, "tpu", dtype), train(name, options, "cpu", dtype))


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_learning_rate_as_tensor_and_changing(name):
    rates = [0.1, 0.05, 0.2]
    for options in ({"fused": True}, {"foreach": True}):
        torch.testing.assert_close(train(name, options, "tpu", rates=rates), train(name, options, "cpu", rates=rates))
    tensors = [torch.tensor(r) for r in rates]
    on_tpu = [t.to("tpu") for t in tensors]
    torch.testing.assert_close(
        train(name, {"fused": True}, "tpu", rates=on_tpu), train(name, {"fused": True}, "cpu", rates=tensors)
    )


@pytest.mark.parametrize("name", sorted(FUSED))
def test_fused_with_scaler(name):
    """A scaled step unscales the gradients; one with an infinite gradient changes nothing."""

    def steps(device):
        p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5], device=device))
        optimizer = getattr(torch.optim, name)([p], lr=0.1, fused=True)
        scale = torch.full((), 4.0, device=device)
        seen = []
        for factor, found in ((1.0, 0.0), (INF, 1.0), (2.0, 0.0)):
            p.grad = torch.tensor([4.0, 8.0, -2.0], device=device) * factor
            optimizer.grad_scale = scale
            optimizer.found_inf = torch.full((), found, device=device)
            optimizer.step()
            seen.append(p.detach().cpu().clone())
        return seen

    torch.testing.assert_close(steps("tpu"), steps("cpu"))


def test_unscale_and_update():
    def run(grads, scale):
        grads = [g.clone() for g in grads]
        found = torch.zeros(1, device=scale.device)
        tracker = torch.tensor([1], dtype=torch.int32, device=scale.device)
        scale = scale.clone()
        torch._amp_foreach_non_finite_check_and_unscale_(grads, found, torch.tensor([0.5], device=scale.device))
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)
        return [*grads, found, scale, tracker]

    scale = torch.tensor([8.0])
    check(lambda a, b, s: run([a, b], s), torch.ones(3), torch.ones(2, 2), scale)
    check(lambda a, b, s: run([a, b], s), torch.tensor([1.0, INF]), torch.ones(2), scale)
    check(lambda a, b, s: run([a, b], s), torch.ones(2), torch.tensor([NAN]), scale)
