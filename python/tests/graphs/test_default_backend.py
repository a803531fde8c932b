"""torch.compile without backend=: each graph goes where its tensors are."""

from unittest import mock

import pytest
import torch
from torch import Tensor

from .conftest import programs


def f(x: Tensor) -> Tensor:
    return (x * 2 + 1).relu().sum()


@pytest.mark.parametrize("how", [{}, {"mode": "reduce-overhead"}, {"fullgraph": True, "dynamic": False}])
def test_tpu_graphs_become_programs(how: dict) -> None:
    g = torch.compile(f, **how)
    x = torch.ones(4, device="tpu")
    assert g(x).item() == 12
    assert len(programs(lambda: g(x))) == 1


def test_other_graphs_go_to_inductor_with_mode_and_options() -> None:
    seen = []

    def compile_fx(module: torch.fx.GraphModule, _inputs: list, config_patches: dict, **_: object) -> object:
        seen.append(config_patches)
        return module.forward

    torch.compile(lambda x: x)  # the default is in place from the first call on
    with mock.patch("torch._inductor.compile_fx.compile_fx", compile_fx):
        assert torch.compile(f, mode="max-autotune-no-cudagraphs")(torch.ones(4)).item() == 12
        torch._dynamo.reset()
        assert torch.compile(f, options={"max_autotune": True})(torch.ones(4)).item() == 12
    assert [patches["max_autotune"] for patches in seen] == [True, True]


def test_a_graph_that_only_makes_tpu_tensors() -> None:
    g = torch.compile(lambda: torch.arange(4.0, device="tpu").mul(2).sum())
    assert g().item() == 12


def test_inductor_by_name_is_refused_for_tpu_tensors() -> None:
    with pytest.raises(Exception, match='use backend="tpu"'):
        torch.compile(f, backend="inductor")(torch.ones(4, device="tpu"))


def test_modules_and_decorators() -> None:
    model = torch.nn.Linear(3, 2).to("tpu")
    x = torch.ones(1, 3, device="tpu")
    wanted = model(x)
    torch.testing.assert_close(torch.compile(model)(x), wanted)
    model.compile()
    torch.testing.assert_close(model(x), wanted)

    @torch.compile
    def g(x: Tensor) -> Tensor:
        return x.sin().cos()

    @torch.compile(dynamic=True)
    def h(x: Tensor) -> Tensor:
        return x.sin().cos()

    for n in (3, 4, 5):
        y = torch.linspace(0, 1, n, device="tpu")
        torch.testing.assert_close(g(y), y.sin().cos())
        torch.testing.assert_close(h(y), y.sin().cos())
