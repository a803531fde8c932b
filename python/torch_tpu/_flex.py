"""flex_attention on tpu tensors: torch's own formula of it, which a compiled graph makes part of its program.

torch refuses devices that it has no kernel for, in a function of a module that is imported late and takes a second to
import: so the function is wrapped when the module is imported.
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

NAME = "torch.nn.attention.flex_attention"


def _accept(module: ModuleType) -> None:
    original: Callable[..., None] = module._validate_device  # type: ignore[attr-defined]

    def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
        if query.device.type != "tpu":
            original(query, key, value)

    module._validate_device = _validate_device  # type: ignore[attr-defined]


class _Finder(importlib.abc.MetaPathFinder):
    """Has the module wrapped after its code has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        _accept(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)


def _autocast(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Any:
    dtype = torch.get_autocast_dtype("tpu")
    q, k, v = (t.to(dtype) if t.dtype in (torch.float32, torch.float16) else t for t in (query, key, value))
    excluded = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    with torch._C._ExcludeDispatchKeyGuard(excluded):
        return torch.ops.higher_order.flex_attention(q, k, v, *args, **kwargs)


def install() -> None:
    """Has torch take tpu tensors, also under autocast."""
    op, key = torch.ops.higher_order.flex_attention, torch._C.DispatchKey.AutocastPrivateUse1
    if key not in op.py_kernels:
        op.py_impl(key)(_autocast)
    if NAME in sys.modules:
        _accept(sys.modules[NAME])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
