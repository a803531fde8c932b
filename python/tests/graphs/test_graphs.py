"""torch.compile(backend="tpu"): one program a graph, and results as in eager mode."""

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from .conftest import compiled, programs


def test_a_graph_is_one_program() -> None:
    f = compiled(lambda x, y: (x @ y).relu().sum(0) / 3)
    x, y = torch.randn(4, 5, device="tpu"), torch.randn(5, 6, device="tpu")
    wanted = (x @ y).relu().sum(0) / 3
    torch.testing.assert_close(f(x, y), wanted)
    torch.testing.assert_close(f(x, y), wanted)
    (one,) = programs(lambda: f(x, y))
    assert "dot_general" in one and "divide" in one


def test_training_is_a_program_each_way() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 4)).to("tpu")
    other = copy.deepcopy(model)
    fast = torch.compile(model, backend="tpu")
    x, y = torch.randn(6, 8, device="tpu"), torch.randint(4, (6,), device="tpu")

    def step(function: Callable, parameters: Iterator[Tensor]) -> tuple[Tensor, list[Tensor]]:
        loss = nn.functional.cross_entropy(function(x), y)
        return loss, list(torch.autograd.grad(loss, list(parameters)))

    wanted = step(other, other.parameters())
    for _ in range(3):
        torch.testing.assert_close(step(fast, model.parameters()), wanted)
    assert len(programs(lambda: torch.autograd.grad(fast(x).sum(), list(model.parameters())))) <= 6


def test_inputs_are_changed_and_outputs_share_them() -> None:
    def f(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        a.add_(1)
        b[0].mul_(a.sum())
        return torch.sin(a) + b, a[1], b, a.view(-1)[2:]

    def run(device: str, g: Callable) -> list[Tensor]:
        a, b = torch.ones(3, 4, device=device), torch.arange(12.0, device=device).view(3, 4)
        out = []
        for _ in range(3):
            results = g(a, b)
            assert results[2] is b
            results[1].mul_(2)
            out += [t.cpu().clone() for t in (*results, a, b)]
        return out

    torch.testing.assert_close(run("tpu", compiled(f)), run("cpu", f))


def test_the_same_tensor_twice_and_views_of_one() -> None:
    f = compiled(lambda a, b: a.mul_(2) + b)
    x = torch.ones(4, device="tpu")
    assert f(x, x).tolist() == [4] * 4
    y = torch.arange(6.0, device="tpu")
    for _ in range(2):
        y.copy_(torch.arange(6.0))
        assert f(y[:4], y[2:]).tolist() == [0 + 4, 2 + 6, 4 + 4, 6 + 5]


def test_other_offsets_and_layouts() -> None:
    f = compiled(lambda a: (a * 2).sum(-1))
    x = torch.arange(24.0, device="tpu").view(4, 6)
    for part in (x[0:2], x[1:3], x[2:4], x[:, 1:3], x.t()[:2], x[0:2]):
        assert f(part).tolist() == (part.cpu() * 2).sum(-1).tolist()


def test_random_numbers_differ_and_follow_the_seed() -> None:
    f = compiled(lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x))
    x = torch.ones(64, device="tpu")
    f(x)
    torch.manual_seed(7)
    a, b = f(x), f(x)
    assert not torch.equal(a, b)
    torch.manual_seed(7)
    assert torch.equal(f(x), a) and torch.equal(f(x), b)


def test_bad_indices_raise_in_each_call() -> None:
    table = nn.Embedding(5, 3).to("tpu")
    f = torch.compile(table, backend="tpu")
    good, bad = torch.tensor([0, 4], device="tpu"), torch.tensor([0, 5], device="tpu")
    for _ in range(2):
        torch.testing.assert_close(f(good), table(good))
        with pytest.raises(IndexError):
            f(bad)


def test_numbers_and_host_tensors_keep_their_values() -> None:
    f = torch.compile(lambda x, n, t: x * n + t, backend="tpu")
    x = torch.ones(3, device="tpu")
    for n in (2, 3.5, 7, 2):
        for t in (1.0, 4.0):
            assert f(x, n, torch.tensor(t)).tolist() == [n + t] * 3


def test_graph_breaks_and_values_that_are_looked_at() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 2
        if y.sum().item() > 5:
            y = y + 1
        return y.nonzero().sum() + y.sum()

    g = torch.compile(f, backend="tpu")
    for x in (torch.ones(2), torch.ones(5), torch.zeros(4)):
        assert g(x.to("tpu")).item() == f(x).item()


@pytest.mark.parametrize("training", [False, True])
def test_a_value_that_is_looked_at_first_is_looked_at_in_each_call(training: bool) -> None:
    # Nothing is put off yet when the sizes of the result are read from the data.
    f = compiled(lambda x, n: torch.repeat_interleave(x, n, dim=0, output_size=6) * 2)
    for counts in ([0, 1, 2, 3], [3, 2, 1, 0], [0, 0, 0, 6]):
        x = torch.randn(4, 2, device="tpu", requires_grad=training)
        wanted = torch.repeat_interleave(x.detach().cpu(), torch.tensor(counts), dim=0) * 2
        out = f(x, torch.tensor(counts, device="tpu"))
        torch.testing.assert_close(out.detach().cpu(), wanted)
        if training:
            out.sum().backward()
            torch.testing.assert_close(x.grad.cpu(), torch.tensor(counts).mul(2.0)[:, None].expand(4, 2))


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_a_number_that_is_read_first_is_read_in_each_call() -> None:
    f = compiled(lambda scale, x: x * scale.item())
    for scale in (1.0, 2.0, 3.0):
        assert f(torch.tensor(scale, device="tpu"), torch.ones(2, device="tpu")).tolist() == [scale, scale]


def test_no_grad_inference_mode_and_autocast() -> None:
    model = nn.Linear(4, 4).to("tpu")
    f = torch.compile(model, backend="tpu")
    x = torch.randn(2, 4, device="tpu")
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(f(x), model(x))
    with torch.autocast("tpu", dtype=torch.bfloat16):
        out = f(x)
        assert out.dtype == torch.bfloat16
        torch.testing.assert_close(out, model(x))


def test_a_failed_graph_leaves_the_next_one_alone() -> None:
    class Odd(Exception):
        pass

    graph = torch.fx.symbolic_trace(lambda x: x + 1)

    def fail(*_: object) -> None:
        raise Odd

    from torch_tpu._compile import Graph

    broken = Graph(graph)
    broken.module = fail  # type: ignore[assignment]
    x = torch.ones(2, device="tpu")
    with pytest.raises(Odd):
        broken([x])
    assert (x + 1).tolist() == [2, 2]
    assert Graph(graph)([x]).tolist() == [2, 2]


LAZY = {
    "the inverse transform of reals": lambda x, z: torch.fft.ifft(x),
    "a conjugate": lambda x, z: (z * 2).conj(),
    "a negated part": lambda x, z: (z * 2).conj().imag,
    "an argument's conjugate": lambda x, z: z.conj(),
    "an argument's negation": lambda x, z: torch._neg_view(x),
    "a product": lambda x, z: z.conj().t() @ z,
}


@pytest.mark.parametrize("name", LAZY)
def test_conjugates_that_are_put_off_stay_conjugates(name: str) -> None:
    function = LAZY[name]
    compiled = torch.compile(function, dynamic=False)
    x, z = torch.randn(5, 6), torch.randn(4, 3, dtype=torch.complex64)
    for given in (z, z.conj(), z.t().contiguous().t()):
        there = given.resolve_conj().to("tpu")
        # Of the same value, and put off as it is.
        there = (there.conj() + 0).conj() if given.is_conj() else there
        for _ in range(2):
            result = compiled(x.to("tpu"), there)
            wanted = function(x, given)
            assert result.is_conj() == wanted.is_conj()
            assert result.is_neg() == wanted.is_neg()
            torch.testing.assert_close(result.cpu(), wanted.resolve_conj().resolve_neg(), check_stride=False)
