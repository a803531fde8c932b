"""Losses and their gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from ops.nn_util import FLOATS, check_grads, check_raises, numbers
from ops.util import check

REDUCTIONS = ["none", "mean", "sum"]
PAIRS = {
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.7, **k),
    "smooth_l1_0": lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.0, **k),
    "huber": lambda x, t, **k: F.huber_loss(x, t, delta=0.7, **k),
    "soft_margin": lambda x, t, **k: F.soft_margin_loss(x, t.sign(), **k),
    "bce_logits": lambda x, t, **k: F.binary_cross_entropy_with_logits(x, t.sigmoid(), **k),
    "bce": lambda x, t, **k: F.binary_cross_entropy(x.sigmoid(), t.sigmoid(), **k),
    "kl": lambda x, t, **k: F.kl_div(x.log_softmax(0), t.softmax(0), **k),
    "poisson": F.poisson_nll_loss,
    "hinge": lambda x, t, **k: F.hinge_embedding_loss(x, t.sign(), **k),
}


@pytest.mark.parametrize(
    "name, reduction",
    [*((name, "mean") for name in PAIRS), *((n, r) for n in ("mse", "bce", "kl") for r in ("none", "sum"))],
)
def test_of_pairs(name, reduction):
    f = PAIRS[name]
    target = numbers(4, 5, seed=1)
    check_grads(lambda x: f(x, target.to(x), reduction=reduction), numbers(4, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["mse", "smooth_l1", "huber", "bce_logits"])
def test_dtypes_of_pairs(name, dtype):
    target = numbers(4, 5, seed=1)
    check_grads(lambda x: PAIRS[name](x, target.to(x)), numbers(4, 5, dtype=dtype))


def test_weights_of_binary_cross_entropy():
    w, t = numbers(4, 5, seed=1).abs(), numbers(4, 5, seed=2).sigmoid()
    check_grads(lambda x: F.binary_cross_entropy(x.sigmoid(), t.to(x), weight=w.to(x)), numbers(4, 5))
    p = numbers(5, seed=3).abs()
    check_grads(
        lambda x: F.binary_cross_entropy_with_logits(x, t.to(x), weight=w.to(x), pos_weight=p.to(x)), numbers(4, 5)
    )
    check(F.binary_cross_entropy, torch.tensor([0.0, 1.0, 0.5]), torch.tensor([1.0, 0.0, 0.5]))
    check_raises(F.binary_cross_entropy, torch.tensor([0.0, 1.5]), torch.tensor([1.0, 0.0]))


def targets(*shape, classes=5, seed=7):
    return torch.randint(0, classes, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "shape, reduction",
    [*(((4, 5), r) for r in REDUCTIONS), ((5,), "mean"), ((2, 5, 3), "none"), ((2, 5, 3, 4), "mean")],
    ids=str,
)
def test_nll(shape, reduction):
    t = targets(*(shape[:1] + shape[2:] if len(shape) > 1 else ()))
    k = {"reduction": reduction}
    w = numbers(5, seed=1).abs()
    check_grads(lambda x, t: F.nll_loss(x, t, **k), numbers(*shape), t)
    check_grads(lambda x, t: F.nll_loss(x, t, ignore_index=2, **k), numbers(*shape), t)
    check_grads(lambda x, t: F.nll_loss(x, t, w.to(x), **k), numbers(*shape), t)
    check_grads(lambda x, t: F.cross_entropy(x, t, w.to(x), label_smoothing=0.1, **k), numbers(*shape), t)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_cross_entropy(dtype):
    check_grads(F.cross_entropy, numbers(6, 5, dtype=dtype), targets(6))
    check_grads(lambda x, p: F.cross_entropy(x, p.softmax(1)), numbers(6, 5, dtype=dtype), numbers(6, 5, dtype=dtype))


def test_nll_at_the_edges():
    check(F.nll_loss, numbers(3, 5), torch.tensor([-100, -100, -100]))
    check(F.nll_loss, numbers(0, 5), targets(0))
    x = numbers(2, 3)
    x[0, 1] = -math.inf
    check_grads(lambda x: F.nll_loss(x, torch.tensor([0, 2], device=x.device)), x)
    check_raises(lambda x: F.nll_loss(x, torch.tensor([0, 3], device=x.device)), x)
    check_raises(lambda x: F.nll_loss(x, torch.tensor([-1, 1], device=x.device)), x)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(reduction):
    k = {"reduction": reduction}
    w = numbers(5, seed=1).abs()
    check_grads(lambda x, t: F.multi_margin_loss(x, t, **k), numbers(4, 5), targets(4))
    check_grads(lambda x, t: F.multi_margin_loss(x, t, p=2, margin=0.5, weight=w.to(x), **k), numbers(4, 5), targets(4))
    check_grads(lambda x, t: F.multi_margin_loss(x, t, **k), numbers(5), targets())
    labels = torch.tensor([[1, 3, -1, 2, 0], [0, -1, -1, 4, 4], [-1, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    check_grads(lambda x, t: F.multilabel_margin_loss(x, t, **k), numbers(4, 5), labels)
    check_grads(lambda x, t: F.multilabel_margin_loss(x, t, **k), numbers(5), labels[0])
    check_grads(lambda x, t: F.multilabel_soft_margin_loss(x, (t % 2).to(x), **k), numbers(4, 5), labels)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_of_triples(reduction):
    k = {"reduction": reduction}
    a, b, c = numbers(4, 6), numbers(4, 6, seed=1), numbers(4, 6, seed=2)
    check_grads(lambda a, b, c: F.triplet_margin_loss(a, b, c, **k), a, b, c)
    check_grads(lambda a, b, c: F.margin_ranking_loss(a, b, c.sign(), margin=0.1, **k), a, b, c)
    check_grads(lambda a, b, c: F.gaussian_nll_loss(a, b, c.abs() + 0.1, **k), a, b, c)
    check_grads(lambda a, b: F.cosine_embedding_loss(a, b, torch.tensor([1, -1, 1, -1], device=a.device), **k), a, b)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("zero_infinity", [True, False])
def test_ctc(flat, zero_infinity):
    time, classes = 12, 5
    labels = torch.tensor([[1, 2, 2, 3], [4, 4, 1, 0], [1, 2, 3, 4]])
    lengths, times = [4, 3, 2], [12, 7, 9]
    if flat:
        labels = torch.cat([row[:n] for row, n in zip(labels, lengths, strict=True)])

    def run(x, t):
        k = {"zero_infinity": zero_infinity}
        p = x.log_softmax(2)
        return F.ctc_loss(p, t, times, lengths, reduction="none", **k), F.ctc_loss(p, t, times, lengths, **k)

    check_grads(run, numbers(time, 3, classes), labels)


def test_ctc_with_too_little_time():
    def run(x, t):
        return F.ctc_loss(x.log_softmax(2), t, [2, 6], [3, 3], zero_infinity=True)

    check_grads(run, numbers(6, 2, 4), torch.tensor([[1, 1, 2], [3, 2, 1]]))
