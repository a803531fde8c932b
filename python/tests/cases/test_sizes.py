"""Tensors without elements and without dimensions."""

import torch
from torch import nn
from torch.nn import functional as F

from cases.util import raises, same


@same
def test_reductions_of_nothing(dev):
    x = torch.empty(0, 3, device=dev)
    return (
        x.sum(),
        x.sum(0),
        x.prod(),
        x.mean(),
        x.all(),
        x.any(0),
        x.norm(),
        x.logsumexp(0),
        raises(x.max),
        raises(lambda: x.amax(0)),
        raises(lambda: x.argmin(0)),
        x.amax(1),
        x.std(0),
        x.int().sum(1),
    )


@same
def test_products_of_nothing(dev):
    a, b = torch.empty(2, 0, device=dev), torch.empty(0, 3, device=dev)
    return (
        a @ b,
        b @ torch.ones(3, 2, device=dev),
        torch.addmm(torch.ones(3, device=dev), a, b),
        torch.bmm(a[None], b[None]),
        a[0] @ b[:, 0],
        torch.einsum("ij,jk->ik", a, b),
    )


@same
def test_joining_and_splitting_nothing(dev):
    e, x = torch.empty(0, device=dev), torch.ones(2, 3, device=dev)
    return (
        torch.cat([e, x]),
        torch.cat([e, e]),
        torch.stack([e, e]),
        x[:0].chunk(2),
        x.split([0, 2]),
        F.pad(x[:0], (1, 1)),
        x.repeat(0, 1),
        x.expand(0, 2, 3),
        x[:0].flatten(),
    )


@same
def test_searching_nothing(dev):
    e = torch.empty(0, device=dev)
    index = torch.empty(0, dtype=torch.int64, device=dev)
    return (
        e.sort(),
        e.topk(0),
        e.unique(),
        e.nonzero().shape,
        index.bincount(minlength=3),
        e.cumsum(0),
        torch.searchsorted(torch.ones(2, device=dev), e),
        e.flip(0),
        e.roll(1),
        e.diff(),
    )


@same
def test_writing_nothing(dev):
    x = torch.arange(3.0, device=dev)
    index = torch.empty(0, dtype=torch.int64, device=dev)
    x[index] = 9
    x[x > 100] = 9
    x.index_add_(0, index, x[:0])
    x.scatter_(0, index, 5.0)
    x[1:1].fill_(7)
    x[3:].copy_(x[:0])
    return x, x[index], x[x > 100], x[None][:, index]


@same
def test_layers_on_empty_batches(dev):
    x = torch.empty(0, 3, 4, 4, device=dev, requires_grad=True)
    conv = nn.Conv2d(3, 2, 3).to(dev)
    y = F.avg_pool2d(F.relu(conv(x)), 2)
    y.sum().backward()
    z = torch.empty(0, 4, device=dev)
    return (
        y,
        x.grad,
        conv.weight.grad,
        F.layer_norm(z, (4,)),
        F.softmax(z, 1),
        F.dropout(z),
        F.embedding(torch.empty(0, dtype=torch.int64, device=dev), z.new_ones(3, 2)),
        F.mse_loss(z, z),
        F.cross_entropy(z, z.new_empty(0, dtype=torch.int64)),
    )


@same
def test_scalars_as_tensors(dev):
    s = torch.tensor(3.0, device=dev)
    return (
        s.sum(),
        s.sum(0),
        s.max(-1),
        s.sort(),
        s.cumsum(0),
        s.softmax(0),
        s.unsqueeze(0),
        s.expand(2, 2),
        s.view(1, 1),
        s.reshape(-1),
        s.t(),
        s.topk(1),
        s.nonzero(),
        s.flatten(),
        torch.stack([s, s]),
        s[None],
        s[...],
        s[s > 1],
        raises(lambda: s[0]),
        raises(lambda: s.sum(1)),
        raises(lambda: len(s)),
        s.argmax(),
        s.std(correction=0),
    )


@same
def test_scalars_that_index_and_select(dev):
    x, k = torch.arange(6.0, device=dev).view(2, 3), torch.tensor(1, device=dev)
    y = x.clone()
    y[k] = torch.tensor(9.0, device=dev)
    return (
        x[k],
        x[:, k],
        x[k, k],
        x.index_select(1, k),
        x.take(k),
        x.gather(1, k.view(1, 1)),
        y,
        torch.tensor(2.0, device=dev).index_select(0, k * 0),
        [1, 2, 3][k],
    )


@same
def test_gradients_of_nothing_and_of_scalars(dev):
    x = torch.empty(0, 2, device=dev, requires_grad=True)
    s = torch.tensor(2.0, device=dev, requires_grad=True)
    (x.sum() + s**3 + x.exp().mean(0).nansum()).backward()
    return x.grad, s.grad


@same
def test_converting_nothing(dev):
    e = torch.empty(0, 2, device=dev)
    return (
        e.half(),
        e.cpu().numpy().shape,
        e.tolist(),
        e.clone(),
        e.transpose(0, 1),
        e.new_zeros(2, 0),
        torch.equal(e, e),
        e.is_contiguous(),
        raises(e.item),
        raises(lambda: bool(e.sum(1))),
        e.element_size(),
    )
