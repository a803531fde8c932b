"""torch_tpu.compile_step against the same step run by Python, on the CPU or on the device."""

from collections.abc import Callable

import pytest
import torch
import torch_tpu
from torch import Tensor, nn
from torch.nn import functional as F

OPTIMIZERS: dict[str, Callable] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "adamw, fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2),
}


class Count:
    """How often something ran, where a step is not watched: two objects deep."""

    n = 0


class Training:
    """A small model, its optimizer and a step that counts how often Python runs it."""

    def __init__(self, device: str, make: Callable = OPTIMIZERS["sgd"], dropout: float = 0.0) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4)
        ).to(device)
        self.optimizer = make(self.model.parameters())
        self.runs = Count()

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.runs.n += 1
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def gradients(self) -> list[Tensor]:
        return [p.grad.cpu() for p in self.model.parameters()]

    def parameters(self) -> list[Tensor]:
        return [p.detach().cpu() for p in self.model.parameters()]


def batches(count: int, size: int = 16) -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(size, 8), torch.randint(4, (size,))) for _ in range(count)]


def pair(make: Callable = OPTIMIZERS["sgd"]) -> tuple[Training, Training, Callable]:
    ours = Training("tpu", make)
    return Training("cpu", make), ours, torch_tpu.compile_step(ours.step)


def both(cpu: Training, step: Callable, batch: tuple[Tensor, Tensor]) -> None:
    expected = cpu.step(*batch)
    torch.testing.assert_close(step(*(t.to("tpu") for t in batch)).cpu(), expected.detach())


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_a_step_does_what_python_does(make: Callable) -> None:
    cpu, ours, step = pair(make)
    for number, batch in enumerate(batches(8)):
        if number == 5:
            for training in (cpu, ours):
                training.optimizer.param_groups[0]["lr"] *= 0.5
        both(cpu, step, batch)
    torch.testing.assert_close(ours.gradients(), cpu.gradients(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.parameters(), cpu.parameters(), rtol=1e-4, atol=1e-5)


def test_python_rests_once_the_step_repeats_and_a_new_rate_compiles_nothing() -> None:
    cpu, ours, step = pair()
    for batch in batches(6):
        both(cpu, step, batch)
    assert ours.runs.n < 6
    runs, before = ours.runs.n, torch_tpu.cache.stats()["misses"]
    for training in (cpu, ours):
        training.optimizer.param_groups[0]["lr"] *= 0.5
    for batch in batches(4):
        both(cpu, step, batch)
    assert runs < ours.runs.n < runs + 4
    assert torch_tpu.cache.stats()["misses"] == before


def test_another_batch_size_is_another_program() -> None:
    cpu, _, step = pair()
    for size in (16, 16, 16, 5, 16, 5, 5, 5, 16):
        both(cpu, step, batches(1, size)[0])


def test_replaced_parameters_and_modes_are_seen() -> None:
    cpu, ours, step = pair()
    data = iter(batches(20))

    def steps(count: int) -> None:
        for _ in range(count):
            both(cpu, step, next(data))

    steps(4)
    for training in (cpu, ours):
        weight = training.model[0].weight
        weight.data = torch.ones_like(weight)
    steps(4)
    for training in (cpu, ours):
        training.model[4].weight.requires_grad_(False)
    steps(4)
    for training in (cpu, ours):
        training.model[4].weight.requires_grad_(True)
        for group in training.optimizer.param_groups:
            group["momentum"] = 0.0
    steps(4)
    torch.testing.assert_close(ours.parameters(), cpu.parameters(), rtol=1e-4, atol=1e-5)


def test_train_and_eval_differ() -> None:
    ours = Training("tpu", dropout=0.9)
    step = torch_tpu.compile_step(ours.step)
    x, y = (t.to("tpu") for t in batches(1)[0])
    for group in ours.optimizer.param_groups:
        group["lr"] = 0.0
    noisy = {step(x, y).item() for _ in range(6)}
    assert len(noisy) == 6, "each run draws its own mask"
    ours.model.eval()
    assert len({step(x, y).item() for _ in range(6)}) == 1


def test_random_numbers_are_those_of_eager() -> None:
    losses = []
    for compiled in (False, True):
        ours = Training("tpu", dropout=0.5)
        step = torch_tpu.compile_step(ours.step) if compiled else ours.step
        torch.manual_seed(7)
        losses.append([step(*(t.to("tpu") for t in batch)).item() for batch in batches(6)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_what_the_step_keeps_is_not_written_again() -> None:
    ours = Training("tpu")
    history: list[Tensor] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = ours.step(x, y)
        history.append(loss.detach() * 1)
        return loss

    compiled = torch_tpu.compile_step(step)
    returned = [compiled(*(t.to("tpu") for t in batch)) for batch in batches(6)]
    assert [t.item() for t in returned] == [t.item() for t in history]
    assert len({t.item() for t in returned}) == 6


def test_a_number_that_the_step_counts_is_counted() -> None:
    cpu, ours = Training("cpu"), Training("tpu")
    counts = {"cpu": 0, "tpu": 0}
    nonlocal_count = 0

    def scaled(training: Training, number: int, x: Tensor, y: Tensor) -> Tensor:
        training.optimizer.zero_grad()
        loss = F.cross_entropy(training.model(x), y) * (1 + number // 3)
        loss.backward()
        training.optimizer.step()
        return loss

    def step(x: Tensor, y: Tensor) -> Tensor:
        nonlocal nonlocal_count
        nonlocal_count += 1
        return scaled(ours, nonlocal_count, x, y)

    compiled = torch_tpu.compile_step(step)
    for batch in batches(10):
        counts["cpu"] += 1
        expected = scaled(cpu, counts["cpu"], *batch)
        torch.testing.assert_close(compiled(*(t.to("tpu") for t in batch)).cpu(), expected.detach())
    assert nonlocal_count == 10


def test_gradients_that_add_up() -> None:
    results = []
    for device in ("cpu", "tpu"):
        training = Training(device)

        def accumulate(x: Tensor, y: Tensor, training: Training = training) -> Tensor:
            loss = F.cross_entropy(training.model(x), y)
            loss.backward()
            return loss

        step = torch_tpu.compile_step(accumulate) if device == "tpu" else accumulate
        for batch in batches(6):
            step(*(t.to(device) for t in batch))
        results.append(training.gradients())
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


def test_a_value_read_in_between() -> None:
    cpu, ours = Training("cpu"), Training("tpu")
    seen: list[float] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = ours.step(x, y)
        seen.append(loss.item())
        return loss

    compiled = torch_tpu.compile_step(step)
    expected = []
    for batch in batches(5):
        compiled(*(t.to("tpu") for t in batch))
        expected.append(cpu.step(*batch).item())
    assert seen == pytest.approx(expected, rel=1e-5)


def test_a_value_read_before_anything_else() -> None:
    def step(x: Tensor, sign: Tensor) -> Tensor:
        return x * 2 if sign.item() > 0 else x * 3

    compiled = torch_tpu.compile_step(step)
    x = torch.ones(3, device="tpu")
    signs = (1.0, 1.0, 1.0, 1.0, -1.0, 1.0)
    found = [compiled(x, torch.tensor(sign, device="tpu"))[0].item() for sign in signs]
    assert found == [2.0, 2.0, 2.0, 2.0, 3.0, 2.0]


def test_containers_go_in_and_out_and_what_was_there_stays_itself() -> None:
    weight = nn.Parameter(torch.ones(3, device="tpu"))

    def step(batch: dict[str, Tensor], scale: float = 1.0) -> dict[str, object]:
        out = batch["x"] * weight * scale
        return {"out": out, "weight": weight, "x": batch["x"], "first": out[:1], "n": 3, "none": None}

    compiled = torch_tpu.compile_step(step)
    for number in range(5):
        x = torch.full((3,), float(number), device="tpu")
        for scale in (1.0, 2.0):
            result = compiled({"x": x}, scale=scale)
            assert result["weight"] is weight
            assert result["x"] is x
            assert result["n"] == 3
            assert result["none"] is None
            assert result["out"].tolist() == [number * scale] * 3
            assert result["first"].tolist() == [number * scale]


def test_what_lies_in_several_storages_goes_in_and_out() -> None:
    def training(device: str) -> tuple[torch.nn.Module, Callable]:
        torch.manual_seed(0)
        table = torch.nn.Embedding(10, 4, sparse=True).to(device)
        optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)

        def step(rows: Tensor) -> tuple[Tensor, Tensor]:
            optimizer.zero_grad()
            table(rows).square().sum().backward()
            gradient = table.weight.grad
            optimizer.step()
            return gradient.coalesce(), gradient.to_dense()

        return table, step

    (cpu, plain), (ours, step) = training("cpu"), training("tpu")
    compiled = torch_tpu.compile_step(step)
    for first in range(5):
        rows = torch.tensor([first, 3 * first % 10, 1])
        wanted, dense = plain(rows)
        sparse, also = compiled(rows.to("tpu"))
        torch.testing.assert_close(also.cpu(), dense)
        torch.testing.assert_close(sparse.to_dense().cpu(), wanted.to_dense())
        torch.testing.assert_close(ours.weight.detach().cpu(), cpu.weight.detach())


def test_an_exception_leaves_everything_usable() -> None:
    cpu, ours, step = pair()
    bad = torch_tpu.compile_step(lambda x, y: ours.step(x, y).no_such_attribute)
    batch = batches(1)[0]
    with pytest.raises(AttributeError, match="no_such_attribute"):
        bad(*(t.to("tpu") for t in batch))
    cpu.step(*batch)
    for batch in batches(4):
        both(cpu, step, batch)


def test_a_bad_label_is_told() -> None:
    ours = Training("tpu")
    step = torch_tpu.compile_step(ours.step)
    x, y = (t.to("tpu") for t in batches(1)[0])
    for _ in range(4):
        step(x, y)
    with pytest.raises(IndexError, match="Target 9 is out of bounds"):
        step(x, torch.full_like(y, 9))
    assert torch.isfinite(step(x, y)).item()


def test_steps_are_not_nested() -> None:
    inner = torch_tpu.compile_step(lambda x: x + 1)
    outer = torch_tpu.compile_step(lambda x: inner(x) * 2)
    x = torch.ones(2, device="tpu")
    with pytest.raises(RuntimeError, match="cannot be nested"):
        outer(x)
    assert inner(x).tolist() == [2, 2]


def test_autocast_and_a_scheduler() -> None:
    results = []
    for compiled in (False, True):
        ours = Training("tpu", OPTIMIZERS["adamw"])
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(ours.optimizer, T_max=10)

        def step(x: Tensor, y: Tensor, ours: Training = ours) -> Tensor:
            ours.optimizer.zero_grad()
            with torch.autocast("tpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(ours.model(x), y)
            loss.backward()
            ours.optimizer.step()
            return loss

        run = torch_tpu.compile_step(step) if compiled else step
        losses = []
        for batch in batches(8):
            losses.append(run(*(t.to("tpu") for t in batch)).item())
            scheduler.step()
        results.append(losses)
    assert results[0] == pytest.approx(results[1], rel=2e-2)


def test_views_at_other_places_are_other_programs_where_the_step_makes_them() -> None:
    layer = nn.Linear(6, 4, bias=False, device="tpu")
    weight = layer.weight
    data = torch.arange(40.0, device="tpu")
    place = [0]

    def step(x: Tensor) -> Tensor:
        made = x * 2
        layer(weight)
        (made[place[0] : place[0] + 2].sum() * weight[place[0]].sum()).backward()
        return made[place[0]]

    compiled = torch_tpu.compile_step(step)
    for number in (0, 0, 0, 1, 1, 1, 2, 0, 2):
        place[0] = number
        weight.grad = None
        x = data[number * 4 : number * 4 + 4]
        expected = torch.arange(40.0)[number * 4 : number * 4 + 4] * 2
        assert compiled(x).item() == expected[number].item()
        assert weight.grad[number].tolist() == [expected[number : number + 2].sum().item()] * 6
        assert weight.grad.count_nonzero().item() in (0, 6)
