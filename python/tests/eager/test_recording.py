"""The texts of the programs that ran, which the conformance suite compiles for a TPU."""

import torch
from torch_tpu import _core


def test_each_program_that_runs_is_told_once() -> None:
    x = torch.ones(3, device="tpu")
    assert (x + 1).tolist() == [2, 2, 2]
    _core.record_programs(True)
    try:
        x + 1
        x + 2  # another number is the same program
        x * x
        add, multiply = _core.take_programs()
        assert "stablehlo.add" in add and "stablehlo.multiply" in multiply
        assert _core.take_programs() == []
        x + 1
        assert _core.take_programs() == [add]
    finally:
        _core.record_programs(False)
    x + 1
    assert _core.take_programs() == []


def test_alpha_of_one_is_no_input_and_others_are_one_program() -> None:
    x, y = torch.arange(3.0, device="tpu"), torch.ones(3, device="tpu")
    _core.record_programs(True)
    try:
        assert torch.add(x, y).tolist() == torch.add(x, y, alpha=1.0).tolist() == [1, 2, 3]
        assert torch.add(x, y, alpha=2).tolist() == [2, 3, 4]
        assert torch.add(x, y, alpha=3).tolist() == [3, 4, 5]
        programs = _core.take_programs()
    finally:
        _core.record_programs(False)
    scaled = ["%2: tensor" in program.split("->")[0] for program in programs]
    # An int and a float 1 have a program each.
    assert sorted(scaled) == [False, False, True]
