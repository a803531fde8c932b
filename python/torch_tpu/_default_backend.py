"""torch.compile without ``backend=``: graphs with tpu tensors go to the backend "tpu", all others to inductor.

torch has one default backend a process and none a device, and naming it imports torch._dynamo, which takes a second.
So torch.compile is wrapped until it is first called.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch


def _on_tpu(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "tpu"


def _uses_tpu(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether a graph takes, holds or makes a tpu tensor."""
    if any(map(_on_tpu, inputs)):
        return True
    return any(_on_tpu(node.meta.get("example_value")) for node in module.graph.nodes)


def auto(module: torch.fx.GraphModule, inputs: Sequence[Any], **how: Any) -> Any:
    """The default backend: decides by the graph, and leaves ``mode`` and ``options`` to inductor where it is meant."""
    if _uses_tpu(module, inputs):
        from torch_tpu._compile import tpu

        return tpu(module, list(inputs), **how)
    options, mode = how.get("options"), how.get("mode")
    return torch._TorchCompileInductorWrapper(mode, options, None)(module, inputs)


def _refuse_tpu(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def checked(self: Any, module: Any, inputs: Any, **more: Any) -> Any:
        if _uses_tpu(module, inputs):
            raise RuntimeError(
                'torch.compile(backend="inductor") was asked to compile a graph with tpu tensors, for which inductor '
                'has no code. Leave backend out, or use backend="tpu".'
            )
        return call(self, module, inputs, **more)

    return checked


def install() -> None:
    """Wraps torch.compile until its first call."""
    original = torch.compile

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        if torch.compile is compile:
            torch.compile = original
            from torch._dynamo.backends import registry

            # A default that the user set stays.
            if registry.get_default_backend() == "inductor":
                registry.set_default_backend(auto)
            wrapper = torch._TorchCompileInductorWrapper
            wrapper.__call__ = _refuse_tpu(wrapper.__call__)
        return original(*args, **kwargs)

    torch.compile = compile
