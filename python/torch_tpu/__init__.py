"""A native PyTorch backend for TPUs, with a Rust core.

Importing this package does not import torch.
"""

from torch_tpu import cache
from torch_tpu._conflict import warn_of_conflict
from torch_tpu._fallbacks import decompositions, fallbacks, reset_fallbacks
from torch_tpu._recompiles import Compilation, explain_recompiles
from torch_tpu._version import __version__

__all__ = [
    "Compilation",
    "__version__",
    "aot",
    "cache",
    "compile_step",
    "decompositions",
    "explain_recompiles",
    "fallbacks",
    "reset_fallbacks",
    "scan_layers",
]

warn_of_conflict()


def __getattr__(name: str) -> object:
    if name == "compile_step":
        # It needs torch.
        from torch_tpu._step import compile_step

        return compile_step
    if name == "scan_layers":
        from torch_tpu._scan import scan_layers

        return scan_layers
    if name == "aot":
        import importlib

        return importlib.import_module("torch_tpu.aot")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
