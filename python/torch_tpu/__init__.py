"""A native PyTorch backend for TPUs, with a Rust core.

Importing this package does not import torch.
"""

from torch_tpu import cache
from torch_tpu._conflict import warn_of_conflict
from torch_tpu._fallbacks import decompositions, fallbacks, reset_fallbacks
from torch_tpu._version import __version__

__all__ = ["__version__", "cache", "decompositions", "fallbacks", "reset_fallbacks"]

warn_of_conflict()
