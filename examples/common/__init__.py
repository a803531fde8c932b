"""What the examples share, so that each of them is a model, its data and a training loop."""

from examples.common.options import option_parser
from examples.common.run import Run

__all__ = ["Run", "option_parser"]
