"""Whether modules are alike: the code of one, run with the parameters of another, is the other."""

from typing import Any

import torch
from torch import Tensor, nn

from torch_tpu._loop import Refused

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# What every module has, beside its own.
_COMMON = frozenset(vars(nn.Module())) | {"_is_full_backward_hook"}
_VALUES = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size)

Form = dict[str, Any]


def form(module: nn.Module) -> Form:
    """What modules must have in common, by name. Raises Refused where there are hooks."""
    out: Form = {}
    for path, part in module.named_modules(remove_duplicate=False):
        name = path or "the layer"
        if any(vars(part).get(hooks) for hooks in _HOOKS):
            raise Refused(f"a layer has hooks ({name})")
        out[f"the class of {name}"] = type(part)
        out[f"training of {name}"] = part.training
        dot = f"{path}." if path else ""
        for key, p in (*part._parameters.items(), *part._buffers.items()):
            how = None if p is None else (tuple(p.shape), p.dtype, p.requires_grad)
            out[f"sizes, dtype and requires_grad of {dot}{key}"] = how
        for key, value in vars(part).items():
            if key not in _COMMON:
                out[f"{dot}{key}"] = value
    return out


def compare(first: Form, other: Form, number: int) -> None:
    """Raises Refused where a layer is not like the first one."""
    for name in first.keys() | other.keys():
        a, b = first.get(name, ...), other.get(name, ...)
        if not _same(a, b):
            shown = f": {_short(a)}, {_short(b)}" if not isinstance(a, Tensor) else ""
            raise Refused(f"layers 0 and {number} differ in {name}{shown}")


def _short(value: Any) -> str:
    text = getattr(value, "__name__", None) or repr(value)
    return "nothing" if value is ... else text if len(text) < 60 else f"another {type(value).__name__}"


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, _VALUES):
        return a == b
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(a, set | frozenset):
        return a == b
    return False
