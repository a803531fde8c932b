"""A residual network that reads handwritten digits."""
