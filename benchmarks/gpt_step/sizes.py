"""The sizes of the model and the batch, for the torch side and the JAX side."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """The GPT step that is timed."""

    vocabulary: int = 256
    width: int = 128
    heads: int = 4
    layers: int = 4
    length: int = 64
    batch: int = 8


# The GPT-2 step that is costed for the v6e.
GPT2 = Config(vocabulary=50304, width=768, heads=12, layers=2, length=1024, batch=8)
