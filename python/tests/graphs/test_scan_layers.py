"""torch_tpu.scan_layers against the plain loop on the CPU, and what becomes of the program."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_tpu
from torch import Tensor, nn
from torch.nn import functional as F

from .conftest import programs

OPTIMIZERS: dict[str, Callable] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-4, fused=True),
}
WAYS = pytest.mark.parametrize("remat", [False, True], ids=["kept", "remat"])


class Block(nn.Module):
    """Attention and a wide layer, as GPT has them."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16), nn.Dropout(dropout))

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(self.norms[0](x)).chunk(3, dim=-1))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.out(a)
        x = x if bias is None else x + bias
        return x + self.wide(self.norms[1](x))


class Model(nn.Module):
    """A stack of layers between two others."""

    def __init__(self, layers: list[nn.Module], remat: bool = False) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.layers = nn.ModuleList(layers)
        self.remat = remat

    def forward(self, x: Tensor, *args: Any) -> Tensor:
        return torch_tpu.scan_layers(self.layers, self.first(x), *args, remat=self.remat)


def pair(make: Callable[[], nn.Module], depth: int = 3, remat: bool = False) -> tuple[Model, Model]:
    torch.manual_seed(0)
    cpu = Model([make() for _ in range(depth)], remat)
    return cpu, copy.deepcopy(cpu).to("tpu")


def training(model: Model, optimizer: torch.optim.Optimizer) -> Callable:
    def step(x: Tensor, *args: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x, *args).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.cpu() for name, p in model.named_parameters()}


def loops(run: Callable[[], Any]) -> int:
    """Loops in the programs that a call runs."""
    return sum(text.count("stablehlo.while") for text in programs(run))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """What scan_layers logs."""
    from torch_tpu import _scan

    monkeypatch.setattr(_scan, "_told", set())
    caplog.set_level(logging.WARNING, logger="torch_tpu._scan")
    return caplog


@WAYS
@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_step_does_what_the_plain_loop_does(depth: int, remat: bool, told: pytest.LogCaptureFixture) -> None:
    cpu, ours = pair(Block, depth, remat)
    make = OPTIMIZERS["sgd"]
    expected, step = training(cpu, make(cpu.parameters())), training(ours, make(ours.parameters()))
    step = torch_tpu.compile_step(step)
    torch.manual_seed(1)
    for number in range(4):
        x = torch.randn(2, 4, 6)
        got: list[Tensor] = []
        count = loops(lambda x=x, got=got: got.append(step(x.to("tpu"))))
        torch.testing.assert_close(got[0].cpu(), expected(x).detach())
        assert count == (2 if depth > 1 else 0), number
        torch.testing.assert_close(gradients(ours), gradients(cpu), rtol=1e-4, atol=1e-5)
    assert not told.records
    assert list(ours.state_dict()) == list(cpu.state_dict())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_need_not_know(name: str) -> None:
    cpu, ours = pair(Block)
    make = OPTIMIZERS[name]
    expected, step = training(cpu, make(cpu.parameters())), training(ours, make(ours.parameters()))
    step = torch_tpu.compile_step(step)
    torch.manual_seed(1)
    for _ in range(4):
        x = torch.randn(2, 4, 6)
        expected(x)
        step(x.to("tpu"))
    there = {name: p.cpu() for name, p in ours.state_dict().items()}
    torch.testing.assert_close(there, dict(cpu.state_dict()), rtol=1e-4, atol=1e-5)


@WAYS
def test_python_rests_once_the_step_repeats(remat: bool) -> None:
    _, ours = pair(Block, remat=remat)
    ours.bias = nn.Parameter(torch.zeros(16, device="tpu"))
    inner = training(ours, torch.optim.SGD(ours.parameters(), lr=0.1))
    # Two objects deep, where a step is not watched.
    runs = [[0]]

    def step(x: Tensor) -> Tensor:
        runs[0][0] += 1
        # The layers look at a tensor that the step makes.
        return inner(x, ours.bias.cos())

    compiled = torch_tpu.compile_step(step)
    x = torch.randn(2, 4, 6, device="tpu")
    losses = [compiled(x).item() for _ in range(5)]
    assert runs == [[2]]
    assert losses == sorted(losses, reverse=True)


@WAYS
def test_arguments_have_gradients_and_gradients_can_be_clipped(remat: bool) -> None:
    def step(model: Model, bias: nn.Parameter, x: Tensor) -> Tensor:
        model.zero_grad()
        bias.grad = None
        loss = model(x, bias * 2).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_([*model.parameters(), bias], 0.1)
        return loss

    cpu, ours = pair(Block, remat=remat)
    there, here = nn.Parameter(torch.linspace(-1, 1, 16)), nn.Parameter(torch.linspace(-1, 1, 16).to("tpu"))
    compiled = torch_tpu.compile_step(lambda x: (step(ours, here, x), here.grad))
    x = torch.randn(2, 4, 6)
    expected = step(cpu, there, x)
    for _ in range(3):
        loss, grad = compiled(x.to("tpu"))
        torch.testing.assert_close(loss.cpu(), expected.detach())
        torch.testing.assert_close(grad.cpu(), there.grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(gradients(ours), gradients(cpu), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Callable) -> None:
    cpu, ours = pair(Block)
    x = torch.randn(2, 4, 6)
    with mode():
        step = torch_tpu.compile_step(lambda x: ours(x))
        for _ in range(3):
            got: list[Tensor] = []
            assert loops(lambda got=got: got.append(step(x.to("tpu")))) == 1
            torch.testing.assert_close(got[0].cpu(), cpu(x))


@WAYS
def test_random_numbers_are_those_of_the_plain_loop(remat: bool, told: pytest.LogCaptureFixture) -> None:
    _, ours = pair(lambda: Block(dropout=0.5), 4, remat)
    plain = copy.deepcopy(ours)
    plain.forward = lambda x: nn.Sequential(*plain.layers)(plain.first(x))
    results = []
    for model in (ours, plain):
        step = torch_tpu.compile_step(training(model, torch.optim.SGD(model.parameters(), lr=0.0)))
        torch.tpu.manual_seed(7)
        x = torch.ones(2, 4, 6, device="tpu")
        losses = [step(x).item() for _ in range(4)]
        assert len(set(losses)) == 4
        results.append((losses, gradients(model)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    assert not told.records


class Two(nn.Module):
    """Two carried values, one of them a count."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, both: dict[str, Tensor]) -> dict[str, Tensor]:
        x, n = both["x"], both["n"]
        return {"x": torch.tanh(self.linear(x)) * (n + 1).unsqueeze(-1), "n": n + 1}


@WAYS
def test_containers_are_carried(remat: bool) -> None:
    torch.manual_seed(0)
    cpu = nn.ModuleList(Two() for _ in range(4))
    ours = copy.deepcopy(cpu).to("tpu")
    x, n = torch.randn(3, 6), torch.arange(3)

    def step(layers: nn.ModuleList, x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        layers.zero_grad()
        out = torch_tpu.scan_layers(layers, {"x": x, "n": n}, remat=remat)
        out["x"].sum().backward()
        return out["x"], out["n"]

    compiled = torch_tpu.compile_step(lambda x, n: step(ours, x, n))
    expected = step(cpu, x, n)
    for _ in range(3):
        got: list[Any] = []
        assert loops(lambda got=got: got.extend(compiled(x.to("tpu"), n.to("tpu")))) == 2
        torch.testing.assert_close([t.cpu() for t in got], [t.detach() for t in expected])
        torch.testing.assert_close(gradients(ours), gradients(cpu), rtol=1e-4, atol=1e-5)


class Normed(nn.Module):
    """A layer whose buffers are written."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(16), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x)).relu()


@WAYS
def test_buffers_are_written(remat: bool) -> None:
    cpu, ours = pair(Normed, 4)
    ours.remat = remat
    expected = training(cpu, torch.optim.SGD(cpu.parameters(), lr=0.1))
    step = torch_tpu.compile_step(training(ours, torch.optim.SGD(ours.parameters(), lr=0.1)))
    torch.manual_seed(1)
    for _ in range(4):
        x = torch.randn(8, 6)
        assert loops(lambda x=x: step(x.to("tpu"))) == 2
        expected(x)
    there = {name: t.cpu() for name, t in ours.state_dict().items()}
    torch.testing.assert_close(there, dict(cpu.state_dict()), rtol=1e-4, atol=1e-5)


def test_under_autocast() -> None:
    _, ours = pair(Block)

    def step(x: Tensor, scan: bool) -> Tensor:
        ours.zero_grad()
        with torch.autocast("tpu", dtype=torch.bfloat16):
            h = ours.first(x).float()
            out = torch_tpu.scan_layers(ours.layers, h) if scan else nn.Sequential(*ours.layers)(h)
        loss = out.square().mean()
        loss.backward()
        return loss

    x = torch.randn(2, 4, 6, device="tpu")
    results = []
    for scan in (True, False):
        loss = torch_tpu.compile_step(lambda x, scan=scan: step(x, scan))(x)
        results.append((loss.cpu(), gradients(ours)))
    torch.testing.assert_close(*results, rtol=2e-2, atol=2e-3)


def test_the_program_does_not_grow_with_the_layers() -> None:
    def size(depth: int) -> int:
        model = pair(Block, depth)[1]

        def step(x: Tensor) -> Tensor:
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        text = torch_tpu.aot.program(step, (torch.randn(2, 4, 6),))
        assert text.count("stablehlo.while") == 2
        return len(text)

    # A layer more is a name in the list of what is stacked, an input and a result for each parameter.
    assert (size(12) - size(4)) / 8 < 0.02 * size(4)


class Odd(nn.Module):
    """A layer that no loop can have, in one way or another."""

    def __init__(self, number: int, way: str) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.way = way
        self.scale = float(number + 1) if way == "number" else 1.0
        if way == "hook" and number == 2:
            self.register_forward_hook(lambda *_: None)
        if way == "frozen" and number == 1:
            self.linear.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "value" and x.sum().item() > 1e6:
            return x
        if self.way == "parameter":
            with torch.no_grad():
                self.linear.bias.add_(0.125)
        x = x + self.scale * self.linear(x)
        if self.way == "index":
            x = x[:, torch.tensor([3, 2, 1, 0], device=x.device)]
        return x[:, :-1] if self.way == "shape" else x


ODD = {
    "number": "layers 0 and 1 differ in scale: 1.0, 2.0",
    "hook": "a layer has hooks",
    "frozen": "differ in sizes, dtype and requires_grad of linear.bias",
    "value": "looks at a value",
    "parameter": "to a parameter in place",
    "index": "checks its data",
    "shape": "is given torch.float32 of (2, 4, 16) and returns torch.float32 of (2, 3, 16)",
}


@pytest.mark.parametrize("way", ODD)
def test_what_no_loop_can_have_runs_one_by_one(way: str, told: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    cpu = Model([Odd(n, way) for n in range(3)])
    ours = copy.deepcopy(cpu).to("tpu")
    expected = training(cpu, torch.optim.SGD(cpu.parameters(), lr=0.01))
    step = torch_tpu.compile_step(training(ours, torch.optim.SGD(ours.parameters(), lr=0.01)))
    torch.manual_seed(1)
    for _ in range(2):
        x = torch.randn(2, 4, 6)
        torch.testing.assert_close(step(x.to("tpu")).cpu(), expected(x).detach(), rtol=1e-4, atol=1e-5)
    there = {name: t.cpu() for name, t in ours.state_dict().items()}
    torch.testing.assert_close(there, dict(cpu.state_dict()), rtol=1e-4, atol=1e-5)
    assert len(told.records) == 1
    assert ODD[way] in told.records[0].getMessage()


def test_a_layers_tensor_is_not_used_outside() -> None:
    class Kept(Block):
        def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
            self.seen = super().forward(x, bias)
            return self.seen * 1

    _, ours = pair(Kept)
    step = torch_tpu.compile_step(lambda x: ours(x).sum() + ours.layers[0].seen.sum())
    with torch.no_grad(), pytest.raises(RuntimeError, match="is used outside it"):
        step(torch.randn(2, 4, 6, device="tpu"))


def test_training_of_any_layer_is_watched() -> None:
    _, ours = pair(lambda: Block(dropout=0.5))
    step = torch_tpu.compile_step(lambda x: ours(x).sum())
    x = torch.ones(2, 4, 6, device="tpu")
    with torch.no_grad():
        for _ in range(3):
            step(x)
        ours.eval()
        assert step(x).item() == step(x).item()


def test_eager_and_compiled_it_is_the_plain_loop() -> None:
    cpu, ours = pair(Block)
    x = torch.randn(2, 4, 6)
    expected = cpu(x)
    for function in (ours, torch.compile(ours, backend="tpu")):
        ours.zero_grad()
        got = function(x.to("tpu"))
        torch.testing.assert_close(got.cpu(), expected)
        got.sum().backward()
    cpu.zero_grad()
    expected.sum().backward()
    torch.testing.assert_close(gradients(ours), gradients(cpu), rtol=1e-4, atol=1e-5)
