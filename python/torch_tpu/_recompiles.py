"""torch_tpu.explain_recompiles(): what was compiled, where, and which part of the key made it necessary."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Compilation:
    """A program that was compiled, or loaded from disk.

    op: the op's name, or which ops of a fused window, graph or step. line: "file:line" of the Python code that issued
    it, None where no Python did. seconds: what it took. changed: the parts of the key that differ from those of the
    most similar program of the same op before, as "name: before -> after"; empty for the op's first program.
    """

    op: str
    line: str | None
    seconds: float
    changed: tuple[str, ...]


class Compilations(list[Compilation]):
    """A list that prints as a report: most expensive places first."""

    def __str__(self) -> str:
        if not self:
            return "nothing was compiled"
        places: dict[tuple[str, str | None], list[Compilation]] = {}
        for one in self:
            places.setdefault((one.op, one.line), []).append(one)
        total = sum(one.seconds for one in self)
        lines = [f"{len(self)} programs in {total:.1f} s; the places that took longest first"]
        for (op, line), group in sorted(places.items(), key=lambda item: -sum(one.seconds for one in item[1])):
            lines.append(f"{sum(one.seconds for one in group):8.2f} s  {len(group):4d} x  {op} at {line or '?'}")
            lines += [f"{'':19}{text}" for text in _changes(group)]
        return "\n".join(lines)

    __repr__ = __str__


def _changes(group: list[Compilation]) -> Iterator[str]:
    """The latest change of each part, and how often the part changed."""
    latest: dict[str, tuple[int, str]] = {}
    for one in group:
        for text in one.changed:
            part = text.split(": ", 1)[0]
            latest[part] = (latest.get(part, (0, ""))[0] + 1, text)
    for count, text in sorted(latest.values(), key=lambda found: -found[0]):
        yield f"{count} x {text}" if count > 1 else text


def explain_recompiles(*, first: bool = False, reset: bool = False) -> Compilations:
    """Programs that were compiled although the op had a program already, the earliest first; print it for a report.

    ``first`` includes the first program of each op. ``reset`` forgets what is told, so that the next call tells what
    came after. The latest 4096 are remembered.
    """
    from torch_tpu import _core

    told = _core.recompiles()
    if reset:
        _core.forget_recompiles()
    return Compilations(
        Compilation(op, line, seconds, tuple(changed)) for op, line, seconds, again, changed in told if again or first
    )
