"""Nested tensors, which tpu does not have."""

from torch import Tensor
from torch.library import Library

_library: Library | None = None


def _left_aligned(_tensor: Tensor, _mask: Tensor) -> bool:
    """Whether a padding mask lets nn.TransformerEncoder pack its input as a nested tensor: no, so it stays dense."""
    return False


def install() -> None:
    """Registers what keeps torch from making nested tensors of tpu ones."""
    global _library
    _library = Library("aten", "IMPL")
    _library.impl("_nested_tensor_from_mask_left_aligned", _left_aligned, "PrivateUse1")
