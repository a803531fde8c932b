"""Autocast, gradient scaling, data loaders, optimizers, threads and what runs behind the program's back."""

import gc
import threading
import weakref

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from cases.util import raises, same


@same
def test_autocast_chooses_dtypes(dev):
    x, w = torch.ones(2, 4, device=dev) / 3, torch.ones(4, 4, device=dev)
    with torch.autocast(dev, dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast(dev, enabled=False):
            z = x @ w
        results = [
            y,
            F.linear(x, w),
            torch.bmm(x[None], w[None]),
            y + x,
            F.relu(y),
            F.conv1d(x[None], torch.ones(2, 2, 1, device=dev)),
            torch.addmm(x, x, w),
        ]
        inner = torch.is_autocast_enabled(dev)
    return [r.dtype for r in results], z.dtype, y, inner, torch.is_autocast_enabled(dev), torch.get_autocast_dtype(dev)


@same
def test_autocast_keeps_float32_where_it_must(dev):
    x = torch.ones(2, 4, device=dev, dtype=torch.bfloat16)
    with torch.autocast(dev, dtype=torch.bfloat16):
        return (
            F.mse_loss(x, x).dtype,
            (x @ x.t()).dtype,
            torch.cat([x, x.float()]).dtype,
        )


@same
def test_autocast_trains_float32_weights(dev):
    model = nn.Linear(3, 2)
    nn.init.constant_(model.weight, 0.25)
    nn.init.zeros_(model.bias)
    model.to(dev)
    x = torch.arange(6.0, device=dev).view(2, 3)
    for _ in range(2):
        with torch.autocast(dev, dtype=torch.bfloat16):
            loss = model(x).float().pow(2).mean()
        loss.backward()
    return loss.detach(), model.weight.grad, model.bias.grad.dtype


@same
def test_scaler_with_clipping_and_growth(dev):
    p = nn.Parameter(torch.tensor([3.0, 4.0], device=dev))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler(dev, init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, 1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scaler.scale((p * factor).sum()).backward()
        scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_([p], 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append((scaler.get_scale(), norm.isfinite().item()))
    return p.detach(), scales, scaler.state_dict()["_growth_tracker"]


@same
def test_optimizers_that_are_seldom_used(dev):
    results = {}
    for name in ("Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop", "RMSprop"):
        p = nn.Parameter(torch.tensor([1.0, -2.0], device=dev))
        optimizer = getattr(torch.optim, name)([p], lr=0.1)
        for k in range(2):
            p.grad = torch.tensor([0.5, -1.0], device=dev) * (k + 1)
            optimizer.step()
        results[name] = p.detach()
    return results


@same
def test_momentum_groups_and_closures(dev):
    a, b = (nn.Parameter(torch.full((2,), v, device=dev)) for v in (1.0, 2.0))
    optimizer = torch.optim.SGD(
        [{"params": [a]}, {"params": [b], "lr": 0.5, "weight_decay": 0.1}], lr=0.1, momentum=0.9, nesterov=True
    )
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        (a * b).sum().backward()
        optimizer.step()
    c = nn.Parameter(torch.tensor([2.0], device=dev))
    search = torch.optim.LBFGS([c], lr=0.5, max_iter=3)

    def closure():
        search.zero_grad()
        loss = (c - 1).pow(2).sum()
        loss.backward()
        return loss

    return search.step(closure).detach(), c.detach(), a.detach(), b.detach()


@same
def test_loader_and_transfers_that_do_not_block(dev):
    data = TensorDataset(torch.arange(10.0).view(10, 1), torch.arange(10))
    sums = []
    for x, y in DataLoader(
        data, batch_size=4, pin_memory=dev != "cpu", generator=torch.Generator().manual_seed(0), shuffle=True
    ):
        x, y = x.to(dev, non_blocking=True), y.to(dev, non_blocking=True)
        sums.append((x.sum(), y.sum(), x.shape, torch.equal(x[:, 0].long(), y)))
    return sums


@same
def test_accumulated_and_checkpointed_gradients(dev):
    w = torch.ones(3, device=dev, requires_grad=True)
    x = torch.arange(6.0, device=dev).view(2, 3)
    for row in x:
        torch.utils.checkpoint.checkpoint(lambda t: (t * w).exp().sum(), row, use_reentrant=False).backward()
    twice = torch.autograd.grad((w**3).sum(), w, create_graph=True)[0]
    second = torch.autograd.grad(twice.sum(), w)[0]
    return w.grad, twice.detach(), second, torch.autograd.functional.jacobian(lambda t: t**2, w.detach())


@same
def test_a_function_of_ones_own(dev):
    class Clip(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, bound):
            ctx.save_for_backward(x)
            ctx.bound = bound
            return x.clamp(-bound, bound)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * (x.abs() < ctx.bound) * 10, None

    x = torch.tensor([-2.0, 0.5, 3.0], device=dev, requires_grad=True)
    with torch.no_grad():
        quiet = Clip.apply(x, 1.0)
    Clip.apply(x * 1, 1.0).sum().backward()
    with torch.inference_mode():
        frozen = x * 2
    return quiet, x.grad, frozen.is_inference(), raises(lambda: frozen.requires_grad_())


@same
def test_threads_that_train(dev):
    results = [None] * 4

    def work(k):
        x = torch.full((3,), float(k), device=dev, requires_grad=True)
        for _ in range(3):
            (x * x).sum().backward()
        results[k] = x.grad

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


@same
def test_results_outlive_their_inputs(dev):
    def make():
        x = torch.arange(1000.0, device=dev)
        watch = weakref.ref(x)
        y = x * 2 + 1
        part = y[10:12]
        return part, watch

    part, watch = make()
    gc.collect()
    host = torch.ones(4)
    sent = host.to(dev, non_blocking=True)
    del host
    return part, watch() is None, sent


@same
def test_functional_transforms(dev):
    x = torch.arange(6.0, device=dev).view(2, 3)
    return (
        torch.func.grad(lambda t: (t**3).sum())(x),
        torch.func.vmap(lambda t: t.cumsum(0) * t.sum())(x),
        torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),)),
        torch.func.vmap(torch.func.grad(lambda t: t.exp().sum()))(x),
    )
