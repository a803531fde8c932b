"""Saving, copying and moving: tensors, modules and optimizers that come back as they went."""

import copy
import io
import pickle

import torch
from torch import nn

from cases.util import raises, same


def round_trip(value, **options):
    """What `torch.save` wrote, loaded again."""
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


@same
def test_saved_views_share_a_storage(dev):
    x = torch.arange(6.0, device=dev)
    a, b, c = round_trip([x, x[2:4], x.view(2, 3).t()])
    b.fill_(9)
    return a, b, c, c.device.type == dev, b.storage_offset(), a.data_ptr() == c.data_ptr()


@same
def test_saved_dtypes_and_kinds(dev):
    values = {
        str(d): torch.ones(2, device=dev).to(d)
        for d in (torch.bool, torch.uint8, torch.bfloat16, torch.float64, torch.complex64)
    }
    values["parameter"] = nn.Parameter(torch.ones(1, device=dev), requires_grad=False)
    values["grad"] = torch.ones(1, device=dev, requires_grad=True)
    values["empty"], values["scalar"] = torch.empty(0, 2, device=dev), torch.tensor(5, device=dev)
    loaded = round_trip(values)
    return loaded, type(loaded["parameter"]).__name__, {v.device.type == dev for v in loaded.values()}


@same
def test_map_location_both_ways(dev):
    x = {"w": torch.arange(3.0, device=dev)}
    home = round_trip(x, map_location="cpu")["w"]
    there = round_trip(
        {"w": home}, map_location=lambda storage, place: storage if dev == "cpu" else storage.to(device=dev)
    )["w"]
    table = round_trip(x, map_location={"cpu": dev, "tpu:0": "cpu"})["w"]
    return home.device.type, there.device.type == dev, table.device.type, home, there.cpu()


@same
def test_pickle_and_deepcopy_keep_attributes(dev):
    x = torch.ones(2, device=dev, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    z = pickle.loads(pickle.dumps(x))
    y.grad.add_(1)
    w = copy.copy(x)
    return (
        y,
        y.grad,
        x.grad,
        z,
        z.device.type == dev,
        w.data_ptr() == x.data_ptr(),
        raises(lambda: copy.deepcopy(x * 2)),
    )


@same
def test_training_goes_on_from_a_checkpoint(dev):
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).state_dict()

    def make():
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)).to(dev)
        model.load_state_dict(start)
        return model, torch.optim.AdamW(model.parameters(), lr=0.05)

    def train(model, optimizer, steps):
        x = torch.arange(8.0, device=dev).view(4, 2)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = (model(x) - x[:, :1]).pow(2).mean()
            loss.backward()
            optimizer.step()
        return loss.detach()

    model, optimizer = make()
    train(model, optimizer, 2)
    saved = round_trip({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, map_location="cpu")
    straight = train(model, optimizer, 2)
    model, optimizer = make()
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    resumed = train(model, optimizer, 2)
    return (
        straight,
        resumed,
        torch.equal(straight, resumed),
        optimizer.state[model[0].weight]["exp_avg"].device.type == dev,
    )


@same
def test_moving_a_module(dev):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 3), nn.Linear(3, 4, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("count", torch.zeros(2, dtype=torch.int64))
            self.register_buffer("scratch", torch.ones(1), persistent=False)

    model = Tied()
    weight = model.head.weight
    weight.grad = torch.ones(4, 3)
    model.to(dev).to(torch.bfloat16)
    devices = {t.device.type == dev for t in (*model.parameters(), *model.buffers(), weight.grad)}
    back = model.cpu()
    return (
        model.head.weight is model.embed.weight,
        model.head.weight is weight,
        devices,
        model.count.dtype,
        weight.dtype,
        weight.grad.dtype,
        list(model.state_dict()),
        {p.device.type for p in back.parameters()},
    )


@same
def test_meta_and_assigned_states(dev):
    with torch.device("meta"):
        model = nn.Linear(2, 2)
    model.to_empty(device=dev)
    model.load_state_dict({"weight": torch.eye(2), "bias": torch.ones(2)})
    other = nn.Linear(2, 2)
    other.load_state_dict({"weight": torch.eye(2, device=dev), "bias": torch.ones(2, device=dev)}, assign=True)
    with torch.device(dev):
        third = nn.Linear(2, 2)
        inner = torch.zeros(2)
    return (
        model(torch.ones(1, 2, device=dev)),
        other.weight,
        third.weight.device.type == dev,
        inner,
        raises(lambda: model.load_state_dict({"weight": torch.eye(3)})),
    )


@same
def test_conversions_to_python_and_numpy(dev):
    x = torch.tensor([[1, 2], [3, 4]], device=dev)
    f = torch.tensor(2.5, device=dev)
    return (
        x.tolist(),
        x.cpu().numpy().tolist(),
        [int(v) for v in x.flatten()],
        float(f),
        f"{f:.1f}",
        f"{x[0, 0]:03d}",
        [row.tolist() for row in x],
        (2 in x),
        sum(x).tolist(),
        torch.tensor([f, f]),
        torch.as_tensor([1.5], device=dev),
        torch.from_numpy(x.cpu().numpy()).to(dev),
        max(x[0]).item(),
        range(x[0, 1])[-1],
    )


@same
def test_printing(dev):
    values = [
        torch.tensor([1.5, float("nan")], device=dev),
        torch.zeros(0, 2, device=dev),
        torch.tensor(3, device=dev),
        torch.ones(30, 30, device=dev),
        torch.tensor([True], device=dev),
        torch.tensor([1 + 1j], device=dev),
        torch.ones(2, dtype=torch.bfloat16, device=dev, requires_grad=True),
    ]
    return [repr(v).replace(", device='tpu:0'", "") for v in values]


@same
def test_moves_that_need_no_copy(dev):
    x = torch.ones(2, device=dev)
    return (
        x.to(dev) is x,
        x.to(x) is x,
        x.to(torch.float32) is x,
        x.to(dev, copy=True) is x,
        x.type(torch.float16).dtype,
        x.to(torch.zeros(1, dtype=torch.int8, device=dev)).dtype,
        x.new_tensor([1]).device == x.device,
        x.cpu().device.type,
        x.to("cpu", torch.float64),
    )


@same
def test_parametrizations_and_hooks(dev):
    model = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    for p in model.parameters():
        nn.init.constant_(p, 0.5)
    model.to(dev)
    seen = []
    model.register_forward_hook(lambda m, a, out: seen.append(out.detach()) or out * 2)
    model.register_full_backward_hook(lambda m, gi, go: seen.append(go[0]))
    x = torch.ones(1, 2, device=dev, requires_grad=True)
    x.register_hook(lambda g: g * 10)
    model(x).sum().backward()
    return seen, x.grad, [p.grad for p in model.parameters()]
