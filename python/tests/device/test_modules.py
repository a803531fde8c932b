"""Modules move as they do to CUDA: their parameters stay the same objects."""

import threading
import weakref

import pytest
import torch
from torch import nn


def test_parameters_keep_their_identity() -> None:
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    weight, reference, optimizer = model.weight, weakref.ref(model.weight), torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("tpu")
    assert model.weight is weight is reference()
    assert weight.is_tpu
    model(torch.ones(1, 1, device="tpu")).sum().backward()
    optimizer.step()
    assert weight.item() == 0
    assert weight.grad.is_tpu
    model.cpu()
    assert model.weight is weight
    assert not weight.is_tpu
    assert not weight.grad.is_tpu
    model(torch.ones(1, 1)).sum().backward()
    assert weight.grad.item() == 2
    assert not torch.__future__.get_swap_module_params_on_conversion()
    assert not torch.__future__.get_overwrite_module_params_on_conversion()


def test_data_can_be_assigned_across_devices() -> None:
    parameter = nn.Parameter(torch.ones(2))
    view = parameter.detach()
    parameter.data = parameter.data.to("tpu")
    assert parameter.is_tpu
    assert not view.is_tpu
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3, 3]
    assert parameter.grad.is_tpu
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        parameter.data = torch.ones(2, device="meta")


def test_tied_weights_and_buffers_move() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2), nn.Linear(2, 2, bias=False))
    model[2].weight = model[0].weight
    model.to("tpu", torch.float64)
    assert model[2].weight is model[0].weight
    assert model[1].running_mean.is_tpu
    assert model[1].running_mean.dtype == torch.float64
    assert model[1].num_batches_tracked.dtype == torch.int64
    assert model.to_empty(device="tpu")[0].weight.is_tpu


def test_a_hook_that_raises_leaves_the_device_usable() -> None:
    def fail(_: torch.Tensor) -> None:
        raise ValueError("from the hook")

    y = torch.ones(3, device="tpu", requires_grad=True)
    y.register_hook(fail)
    with pytest.raises(ValueError, match="from the hook"):
        (y * 2).sum().backward()
    model = nn.Linear(2, 2).to("tpu")
    handle = model.register_forward_hook(lambda *_: fail(y))
    with pytest.raises(ValueError, match="from the hook"):
        model(torch.ones(1, 2, device="tpu"))
    handle.remove()
    z = torch.ones(3, device="tpu", requires_grad=True)
    (z * 2).sum().backward()
    assert z.grad.tolist() == [2, 2, 2]


def test_threads_differentiate_at_once() -> None:
    found: dict[int, float] = {}

    def work(i: int) -> None:
        w = torch.full((3, 3), float(i), device="tpu", requires_grad=True)
        for _ in range(5):
            (w @ w).sum().backward()
        found[i] = w.grad.sum().item()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: 5 * 9 * 6.0 * i for i in range(6)}


def test_one_graph_is_shared_by_threads() -> None:
    w = torch.ones(4, device="tpu", requires_grad=True)
    threads = [threading.Thread(target=lambda: (w * 2).sum().backward()) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert w.grad.tolist() == [16] * 4


def test_checkpointed_dropout_repeats_its_mask() -> None:
    y = torch.ones(256, device="tpu", requires_grad=True)
    out = torch.utils.checkpoint.checkpoint(lambda t: nn.functional.dropout(t, 0.5), y, use_reentrant=False)
    out.sum().backward()
    assert torch.equal(y.grad, out.detach())
