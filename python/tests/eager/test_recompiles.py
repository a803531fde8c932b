"""torch_tpu.explain_recompiles."""

import re

import torch
import torch_tpu


def told(**options: bool) -> list[torch_tpu.Compilation]:
    return torch_tpu.explain_recompiles(reset=True, **options)


def test_the_part_that_changed_and_the_line() -> None:
    first = torch.ones(3, 61, device="tpu")
    torch.logcumsumexp(first, 0)
    told()
    torch.logcumsumexp(first, 1)
    torch.logcumsumexp(first[:2], 1)
    torch.logcumsumexp(first.t(), 1)
    torch.logcumsumexp(first.double(), 1)
    found = [one for one in told() if one.op == "aten::logcumsumexp"]
    assert [one.changed[0] for one in found] == [
        "dim: 0 -> 1",
        "sizes of self: [3, 61] -> [2, 61]",
        "sizes of self: [3, 61] -> [61, 3]",
        "dtype of self: f32 -> f64",
    ]
    lines = [int(one.line.rsplit(":", 1)[1]) for one in found]
    assert lines == [lines[0] + i for i in range(4)]
    assert all(one.line.startswith(__file__) for one in found)


def test_what_compiles_nothing_is_not_told() -> None:
    x = torch.ones(5, 67, device="tpu")
    for number in (1.5, 2.5):
        _ = x * number
        _ = x[int(number)] + 1
    told(first=True)
    for number in (3.5, 4.5):
        _ = x * number
        _ = x[int(number) - 2] + 1
    assert told(first=True) == []


def test_the_report_is_readable() -> None:
    for length in range(71, 75):
        torch.sinc(torch.zeros(length, device="tpu"))
    report = str(torch_tpu.explain_recompiles())
    assert "aten::sinc at " in report
    # Which of the equally similar programs before is named does not matter.
    assert re.search(r"sizes of self: \[[\d, ]*\] -> \[74\]", report)
    assert str(torch_tpu.explain_recompiles(reset=True)) == report
    assert str(torch_tpu.explain_recompiles()) == "nothing was compiled"
