"""torch.compile with the device's backend: aliasing, mutation, breaks, sizes that change."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.util import compiled, raises, same


@same
def test_inputs_that_are_written(dev):
    x, y = torch.zeros(2, 3, device=dev), torch.ones(3, device=dev)

    def run(a, b):
        a[0].add_(b)
        a.t_()
        b = b.mul_(2)
        return b, a.sum()

    return compiled(run, dev)(x, y), x, y


@same
def test_outputs_that_alias(dev):
    x = torch.arange(4.0, device=dev)
    a, b, c = compiled(lambda t: (t, t[1:], t * 1), dev)(x)
    b.add_(10)
    return a, b, c, x, a is x


@same
def test_training_with_dropout_off_and_buffers(dev):
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(), nn.Linear(3, 1))
    for k, p in enumerate(model.parameters()):
        nn.init.constant_(p, 0.1 * (k + 1))
    model.to(dev)
    run = compiled(model, dev)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        loss = (run(torch.arange(6.0, device=dev).view(3, 2)) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.detach(), [p.detach() for p in model.parameters()], dict(model.named_buffers())


@same
def test_sizes_that_change(dev):
    run = compiled(lambda t: t.view(-1, 2).sum(0) * t.shape[0] + torch.arange(2, device=t.device), dev, dynamic=True)
    return [run(torch.arange(n * 2.0, device=dev).view(n, 2)) for n in (3, 4, 1, 7)]


@same
def test_values_that_decide(dev):
    def run(x):
        if x.sum().item() > 3:
            return x[x > 1] * 2
        return x.nonzero().float() - 1

    run = compiled(run, dev)
    return (
        run(torch.arange(4.0, device=dev)),
        run(torch.tensor([0.0, 1.0], device=dev)),
        raises(lambda: compiled(lambda t: t.view(5), dev)(torch.ones(4, device=dev))),
    )


@same
def test_dtypes_and_constants_inside(dev):
    def run(x, scale):
        mask = (
            torch.ones(3, dtype=torch.bool, device=x.device).triu()
            if x.dim() == 0
            else torch.full((3,), 2, device=x.device) > 1
        )
        return (
            (x.bfloat16() * scale).float(),
            torch.where(mask, x, torch.zeros((), device=x.device)),
            x.new_tensor([1, 2, 3]) + x,
            torch.empty_like(x, dtype=torch.int8).zero_(),
        )

    f = compiled(run, dev)
    x = torch.tensor([0.1, 0.2, 0.3], device=dev)
    return f(x, 3), f(x, 2.5)


@same
def test_attention_and_norm_under_autocast(dev):
    q = torch.arange(24.0, device=dev).view(1, 2, 3, 4) / 24
    w = torch.ones(4, 4, device=dev, requires_grad=True)

    def run(t):
        with torch.autocast(t.device.type, dtype=torch.bfloat16):
            return F.layer_norm(F.scaled_dot_product_attention(t @ w, t, t, is_causal=True).float(), (4,))

    y = compiled(run, dev)(q)
    y[..., 0].sum().backward()
    return y.detach().shape, y.dtype, w.grad.shape, w.grad.isfinite().all()
