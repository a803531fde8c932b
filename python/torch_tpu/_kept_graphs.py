"""What AOTAutograd makes of a graph, kept on disk by torch's own cache, so that a second process need not trace it.

torch keeps what is an ``OutputCode`` and can be pickled. Ours is the graph itself, which is traced into a program at
its first run; that program comes from our own disk cache, by its text. torch's key holds its version, its settings, the
graph and the inputs; ours is added to it, since our kernels decide which ops a graph consists of.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._inductor.output_code import OutputCode

from torch_tpu import _core


class GraphCode(OutputCode):
    """A compiled graph that can be pickled."""

    def __init__(self, module: torch.fx.GraphModule, training: bool) -> None:
        super().__init__()
        # Of the instance: a wrapper of torch's copies its attributes.
        self._boxed_call = True
        self.module: torch.fx.GraphModule | None = module
        self.training = training
        self.pickled = b""
        self.call: Callable[[list[Any]], Any] | None = None

    def __call__(self, inputs: Any) -> Any:
        if self.call is None:
            raise RuntimeError("a graph from torch's cache was called before it was loaded (a bug of ours)")
        return self.call(inputs)

    def made(self) -> "GraphCode":
        """With what runs it."""
        from torch_tpu._compile import callable_of

        assert self.module is not None
        self.call = callable_of(self.module, self.training)
        return self

    def prepare_for_serialization(self) -> None:
        """Called on a copy: pickles the graph, with sizes where any of them is symbolic."""
        from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache
        from torch.fx._graph_pickler import GraphPickler, Options

        assert self.module is not None
        if any(
            isinstance(getattr(self.module, str(n.target)), torch.Tensor)
            for n in self.module.graph.find_nodes(op="get_attr")
        ):
            raise BypassAOTAutogradCache("the graph holds tensors")
        dynamic = any(isinstance(n.meta.get("val"), torch.SymInt) for n in self.module.graph.nodes)
        # Everything else in a node's metadata is for people and other compilers.
        options = Options(ops_filter=None, node_metadata_key_filter=lambda key: dynamic and key == "val")
        self.pickled = GraphPickler.dumps(self.module, options)
        self.module = self.call = None

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Called on what was unpickled."""
        if self.call is not None:
            return
        from torch._guards import detect_fake_mode
        from torch.fx._graph_pickler import GraphPickler

        module = GraphPickler.loads(self.pickled, detect_fake_mode(example_inputs))
        module.recompile()
        self.module = module
        self.made()

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """There are no kernels of triton's."""


def keeps() -> bool:
    """Whether graphs are to be kept: as programs are, and where torch keeps any."""
    return _core.cache_folder() is not None and torch._functorch.config.enable_autograd_cache


@functools.cache
def _identity() -> str:
    """Another one for each build and version of this package."""
    folder = Path(__file__).parent
    files = sorted([*folder.glob("*.py"), *folder.glob("*.so")])
    return " ".join(f"{(about := file.stat()).st_size}.{about.st_mtime_ns}" for file in files)


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """What torch's cache needs to know while a graph is compiled."""
    from torch.compiler import config

    tag = f"{config.cache_key_tag} torch_tpu {_identity()}"
    with (
        # Both directions in one file, which is written when both are there.
        torch._functorch.config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True),
        config.patch(cache_key_tag=tag),
    ):
        yield
