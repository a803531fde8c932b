"""The sizes of the models and batches, and what trains them, for the torch side and the JAX side."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """A GPT's step. Trained by AdamW with torch's defaults."""

    vocabulary: int = 256
    width: int = 128
    heads: int = 4
    layers: int = 4
    length: int = 64
    batch: int = 8


# The GPT-2 step that is costed for the v6e.
GPT2 = Config(vocabulary=50304, width=768, heads=12, layers=2, length=1024, batch=8)


@dataclass(frozen=True)
class Pictures:
    """A classifier's step. Trained by SGD with momentum."""

    batch: int
    channels: int
    size: int
    classes: int = 10
    learning_rate: float = 0.01
    momentum: float = 0.9
    decay: float = 5e-4


MLP = Pictures(batch=128, channels=1, size=28)
MLP_WIDTHS = (1024, 1024, 512)
# Small steps: batch normalization makes a young network magnify rounding, and the sides' losses are compared.
RESNET = Pictures(batch=16, channels=3, size=32, learning_rate=1e-3)
RESNET_BLOCKS = (2, 2, 2, 2)
RESNET_WIDTH = 64
