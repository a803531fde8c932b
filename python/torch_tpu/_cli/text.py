"""Numbers and columns for readers."""

from collections.abc import Sequence

_SI = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def si(value: float | None, unit: str = "") -> str:
    """Three significant digits with an SI prefix; `-` for an unknown value."""
    if value is None:
        return "-"
    for factor, prefix in _SI:
        # 999.6 would print as 1000.
        if abs(value) >= factor * 0.9995:
            return f"{_three(value / factor)} {prefix}{unit}"
    return f"{_three(value)} {unit}".rstrip()


def _three(value: float) -> str:
    if value == int(value) and abs(value) < 1000:
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """A time in the unit that reads best."""
    if seconds is None:
        return "-"
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if abs(seconds) >= factor * 0.9995:
            return f"{_three(seconds / factor)} {unit}"
    return f"{_three(seconds * 1e9)} ns"


def percent(part: float | None) -> str:
    """A fraction as a percentage."""
    return "-" if part is None else f"{part * 100:.1f}%"


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), indent: str = "  ") -> list[str]:
    """Aligned columns; those listed in `right` end at the same place."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    lines = []
    for row in rows:
        cells = [cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def shortened(text: str, width: int) -> str:
    """The text's end, which for a source place is the part that tells."""
    return text if len(text) <= width else "..." + text[-(width - 3) :]
