"""Errors come from the call that is wrong, with the class that the CPU raises, and leave the arguments as they were."""

import torch
from torch.nn import functional as F

from cases.util import raises, same


@same
def test_sizes_that_do_not_fit(dev):
    x, y = torch.ones(2, 3, device=dev), torch.ones(2, 4, device=dev)
    return (
        [
            raises(run)
            for run in (
                lambda: x + y,
                lambda: x @ y,
                lambda: torch.cat([x, y]),
                lambda: torch.stack([x, y]),
                lambda: x.view(4, 2),
                lambda: x.reshape(-1, 4),
                lambda: x.expand(3, 3),
                lambda: torch.where(x > 0, x, y),
                lambda: torch.bmm(x, x),
                lambda: F.linear(x, y),
                lambda: x.copy_(y),
                lambda: x.add_(torch.ones(2, 2, 3, device=dev)),
                lambda: torch.dot(x[0], y[0]),
                lambda: x.t().view(6),
                lambda: x.split([1, 2]),
                lambda: torch.einsum("ij,jk->ik", x, y),
            )
        ],
        x,
        y,
    )


@same
def test_layers_that_do_not_fit(dev):
    x = torch.ones(1, 3, 5, 5, device=dev)
    return [
        raises(run)
        for run in (
            lambda: F.conv2d(x, torch.ones(2, 4, 3, 3, device=dev)),
            lambda: F.conv2d(x, torch.ones(2, 3, 7, 7, device=dev)),
            lambda: F.max_pool2d(x, 7),
            lambda: F.layer_norm(x, (4,)),
            lambda: F.batch_norm(x, torch.ones(2, device=dev), torch.ones(2, device=dev)),
            lambda: F.cross_entropy(x[0, 0], torch.ones(3, dtype=torch.int64, device=dev)),
            lambda: F.nll_loss(x[0, 0], torch.ones(5, device=dev)),
            lambda: F.pad(x, (1,)),
            lambda: F.group_norm(x, 2),
            lambda: F.mse_loss(x, x[..., :2]),
            lambda: F.pixel_shuffle(x, 2),
            lambda: F.scaled_dot_product_attention(x, x[..., :2], x),
        )
    ]


@same
def test_indices_out_of_range(dev):
    x = torch.ones(2, 3, device=dev)
    far = torch.tensor([0, 7], device=dev)
    return [
        raises(run)
        for run in (
            lambda: x[5],
            lambda: x[:, 3],
            lambda: x[0, 0, 0],
            lambda: x.select(0, -3),
            lambda: x.narrow(1, 2, 2),
            lambda: x.unbind(4),
            lambda: x[far].cpu(),
            lambda: x.index_select(0, far).cpu(),
            lambda: x.gather(0, far[:, None]).cpu(),
            lambda: x.unsqueeze(5),
            lambda: x.squeeze(2),
            lambda: x[torch.ones(3, dtype=torch.bool, device=dev)],
            lambda: x[x],
            lambda: x[[0, 1], [0, 1, 2]],
        )
    ]


@same
def test_values_that_are_wrong(dev):
    x = torch.ones(3, 3, device=dev)
    return [
        raises(run)
        for run in (
            lambda: x.item(),
            lambda: bool(x),
            lambda: F.dropout(x, 1.5),
            lambda: x.bernoulli_(2.0),
            lambda: x.normal_(0, -1.0),
            lambda: x.random_(5, 5),
            lambda: torch.randint(3, 1, (2,), device=dev),
            lambda: torch.arange(0, 3, -1, device=dev),
            lambda: torch.zeros(-1, device=dev),
            lambda: x.topk(4),
            lambda: x.kthvalue(0),
            lambda: torch.randperm(-1, device=dev),
            lambda: x.chunk(0),
            lambda: x.sum((0, 0)),
            lambda: x.permute(0, 0),
            lambda: x.flip(0, 0),
            lambda: torch.div(x, x, rounding_mode="up"),
            lambda: x.to("nowhere"),
        )
    ]


@same
def test_factorizations_that_do_not_exist(dev):
    singular = torch.zeros(2, 2, device=dev)
    return [
        raises(run)
        for run in (
            lambda: torch.linalg.inv(singular).cpu(),
            lambda: torch.linalg.cholesky(-torch.eye(2, device=dev)).cpu(),
            lambda: torch.linalg.solve(singular, torch.ones(2, device=dev)).cpu(),
            lambda: torch.linalg.det(torch.ones(2, 3, device=dev)),
            lambda: torch.linalg.eigh(torch.ones(2, 3, device=dev)),
        )
    ]


@same
def test_a_failed_write_changes_nothing(dev):
    x = torch.arange(4.0, device=dev)
    version = x._version
    failures = [
        raises(lambda: x.add_(torch.ones(3, device=dev))),
        raises(lambda: x.mul_(1j)),
        raises(lambda: x[9].zero_()),
    ]
    x.add_(1)
    return failures, x, x._version > version


@same
def test_errors_in_backward(dev):
    x = torch.ones(2, device=dev, requires_grad=True)
    y = (x * 2).sum()
    y.backward()

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    return (
        raises(lambda: y.backward()),
        raises(lambda: (x * 2).backward()),
        raises(lambda: Fails.apply(x).sum().backward()),
        x.grad,
    )


def test_two_devices_in_one_call():
    """An op names both devices at the call, and writes nothing."""
    x, y = torch.ones(2, 2, device="tpu"), torch.ones(2, 2)
    for run in (
        lambda: x + y,
        lambda: x @ y,
        lambda: torch.cat([x, y]),
        lambda: F.linear(x, y),
        lambda: x.add_(y),
        lambda: torch.where(x > 0, x, y),
    ):
        assert raises(run) == "raises RuntimeError", raises(run)
    assert (x + torch.tensor(1.0)).tolist() == [[2, 2], [2, 2]]
    assert x[torch.tensor([0])].tolist() == [[1, 1]]
    assert x.tolist() == [[1, 1], [1, 1]]
