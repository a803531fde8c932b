"""Programs in the cache: what differs in the answer differs in the key, what does not differ is compiled once."""

import torch
import torch_tpu
from torch import nn
from torch.nn import functional as F

from cases.util import same


def misses_of(steps, run):
    """How many programs each further step compiles, after the first two."""
    run(0), run(1)
    before = torch_tpu.cache.stats()["misses"]
    for step in range(2, steps):
        run(step)
    return torch_tpu.cache.stats()["misses"] - before


@same
def test_attributes_that_change_the_answer(dev):
    x = torch.arange(16.0, device=dev).view(1, 1, 4, 4)
    return (
        [x.sum(d, keepdim=k) for d in (2, 3) for k in (False, True)],
        [x.softmax(d) for d in (2, 3)],
        [x.flip(d) for d in (2, 3)],
        [x.roll(s, 3) for s in (1, -1)],
        [x[0, 0].triu(k) for k in (-1, 0, 1)],
        [x[0, 0].diagonal(k) for k in (-1, 1)],
        [F.max_pool2d(x, 2, stride=s) for s in (1, 2)],
        [F.avg_pool2d(x, 3, padding=1, count_include_pad=c) for c in (True, False)],
        [x.var(3, correction=c) for c in (0, 1)],
        [x.cumsum(d) for d in (2, 3)],
        [torch.div(x, 3, rounding_mode=m) for m in (None, "floor", "trunc")],
        [F.gelu(x, approximate=a) for a in ("none", "tanh")],
        [F.pad(x, (1, 1, 0, 0), mode=m) for m in ("constant", "reflect", "replicate", "circular")],
    )


@same
def test_dtypes_and_strides_that_change_the_answer(dev):
    x = torch.arange(6, device=dev).view(2, 3)
    return (
        [
            (x.to(d) / 4 * 3, x.to(d).t().contiguous().view(6), x.to(d).sum(0))
            for d in (torch.int32, torch.int64, torch.float32, torch.bfloat16)
        ],
        x.view(3, 2).sum(0),
        x.t().sum(0),
        x.t() + x.view(3, 2),
    )


@same
def test_scalars_of_other_types_and_signs(dev):
    x = torch.tensor([1, 2], device=dev)
    return (
        [x + s for s in (1, 1.0, True, -1, 0.0, -0.0)],
        [x * s for s in (2, 2.0, 2**40)],
        [(x.float() * s, 1 / (x.float() * s)) for s in (0.0, -0.0)],
        [torch.full((1,), s, device=dev) for s in (1, 1.0, True)],
    )


@same
def test_one_tensor_as_both_arguments(dev):
    x, y = torch.tensor([1.0, 2.0], device=dev), torch.tensor([3.0, 4.0], device=dev)
    first, second = x + y, x + x
    x.mul_(y)
    y.mul_(y)
    x.add_(x)
    return first, second, x, y


def test_other_numbers_compile_nothing():
    """Scalars that change each step are arguments of the program."""
    x = torch.ones(5, device="tpu")

    def step(k):
        y = x * (k + 0.5) + k
        y.add_(x, alpha=1 / (k + 1)).clamp_(0, k + 3).pow_(2).div_(k + 2)
        y.mul_(torch.tensor(float(k))).fill_(k)
        return y

    assert misses_of(6, step) == 0


def test_a_learning_rate_schedule_compiles_nothing():
    """Optimizers with a schedule, weight decay and clipping, step after step."""
    for kind in (torch.optim.AdamW, torch.optim.SGD, torch.optim.RMSprop):
        model = nn.Linear(3, 2).to("tpu")
        optimizer = kind(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        x = torch.ones(4, 3, device="tpu")

        def step(_, model=model, optimizer=optimizer, schedule=schedule, x=x):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

        assert misses_of(6, step) == 0, kind.__name__


def test_seeds_and_draws_compile_nothing():
    """A seed and a place in the stream are arguments."""

    def step(k):
        torch.manual_seed(k)
        return (
            F.dropout(torch.rand(8, device="tpu"), 0.5),
            torch.randn(8, device="tpu"),
            torch.randint(5, (8,), device="tpu"),
        )

    assert misses_of(5, step) == 0


def test_moving_slices_compile_nothing():
    """A loop over the rows of a batch, and batches from the host."""
    x = torch.arange(48.0, device="tpu").view(8, 6)

    def step(k):
        total = x[k].sum() + x[k, k % 5]
        x[k] = total
        return torch.full((2, 2), float(k)).to("tpu") + 1, total.item()

    assert misses_of(8, step) == 0
