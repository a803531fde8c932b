"""What tests of compiled graphs share."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch_tpu import _core


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing compiled before."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function: Callable) -> Callable:
    """The function as one graph."""
    return torch.compile(function, backend="tpu", fullgraph=True)


def programs(call: Callable[[], object]) -> list[str]:
    """The programs that a call runs."""
    _core.record_programs(True)
    try:
        call()
        return _core.take_programs()
    finally:
        _core.record_programs(False)
