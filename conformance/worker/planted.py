"""Faults that a test of the harness plants, to see them reported.

``TORCH_TPU_CONFORMANCE_PLANT`` names tests: ``hang=TEST``, ``abort=TEST`` and ``wrong=TEST``, separated by commas.
Nothing but this file reads it.
"""

import os
import sys
import time

import torch
from torch import Tensor

_PLANTED = [tuple(one.split("=", 1)) for one in os.environ.get("TORCH_TPU_CONFORMANCE_PLANT", "").split(",") if one]
# The test whose results are made wrong while it runs.
_current = ""


def strike(test: str) -> None:
    """Does what is planted in a test before it runs."""
    global _current
    _current = test
    for fault, where in _PLANTED:
        if where != test:
            continue
        if fault == "hang":
            print("planted: this test hangs", file=sys.stderr, flush=True)
            time.sleep(1e6)
        elif fault == "abort":
            print("planted: this test aborts", file=sys.stderr, flush=True)
            os.abort()


def perturbed(result: Tensor) -> Tensor:
    """A result of the device as the comparison is to see it: as it is, unless it is planted wrong."""
    if ("wrong", _current) not in _PLANTED or not result.numel():
        return result
    return ~result if result.dtype == torch.bool else result + 1
