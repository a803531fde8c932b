"""Numbers and columns for readers."""

import pytest
from torch_tpu._cli import text


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, "B", "-"),
        (0, "B", "0 B"),
        (999, "B", "999 B"),
        (999.7, "B", "1 kB"),
        (1000, "B", "1 kB"),
        (1536, "B", "1.54 kB"),
        (33.27e6, "", "33.3 M"),
        (918e12, "FLOP/s", "918 TFLOP/s"),
        (999_900_000, "B", "1 GB"),
        (12, "", "12"),
    ],
)
def test_si(value: float | None, unit: str, shown: str) -> None:
    assert text.si(value, unit) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (35.4, "35.4 s"), (0.019, "19 ms"), (0.9999, "1 s"), (2.7e-6, "2.7 us"), (5e-9, "5 ns"), (0, "0 ns")],
)
def test_duration(seconds: float | None, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_table_aligns_columns() -> None:
    assert text.table([("a", "1"), ("bcd", "22")], right=(1,)) == ["  a     1", "  bcd  22"]
    assert text.table([]) == []


def test_shortened_keeps_the_end() -> None:
    assert text.shortened("model/layer.py:12", 40) == "model/layer.py:12"
    assert text.shortened("a/long/way/to/layer.py:12", 14) == "...layer.py:12"
