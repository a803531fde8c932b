"""What tests of compiled graphs share."""

from collections.abc import Callable, Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable) -> Callable:
    """The function as one graph."""
    return torch.compile(function, backend="tpu", fullgraph=True)
