"""Reads how many tests passed and failed from what the runners print."""

import re
from dataclasses import dataclass

_NEXTEST = re.compile(r"Summary \[[^\]]*\]\s+(?P<rest>.*)")
_CARGO = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed;", re.M)
_PYTEST = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.M)
_CONFORM = re.compile(r"(\d+) pass\D+(\d+) unsupported\D+(\d+) skip\D+(\d+) FAIL")
_PROGRAMS = re.compile(r"^(\d+) of (\d+) programs give the same numbers$", re.M)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Counts:
    """Tests that passed and that failed."""

    passed: int = 0
    failed: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed"


def _named(text: str, *names: str) -> int:
    return sum(int(n) for n, name in re.findall(r"(\d+) ([a-z]+)", text) if name in names)


def nextest(output: str) -> Counts:
    """The summary of `cargo nextest run`."""
    found = _NEXTEST.search(_ANSI.sub("", output))
    if not found:
        return Counts()
    rest = found["rest"]
    # "30 tests run: 28 passed (1 slow), 1 failed, 1 timed out, 0 skipped"
    timed_out = sum(int(n) for n in re.findall(r"(\d+) (?:timed out|exec failed)", rest))
    return Counts(_named(rest, "passed"), _named(rest, "failed") + timed_out)


def cargo_test(output: str) -> Counts:
    """The sum over the binaries that `cargo test` ran."""
    pairs = _CARGO.findall(_ANSI.sub("", output))
    return Counts(sum(int(p) for p, _ in pairs), sum(int(f) for _, f in pairs))


def pytest(output: str) -> Counts:
    """The last line of pytest."""
    found = list(_PYTEST.finditer(_ANSI.sub("", output)))
    if not found:
        return Counts()
    return Counts(_named(found[-1][1], "passed"), _named(found[-1][1], "failed", "error", "errors"))


# nextest says a failure when it happens and again at the end; pytest in its summary.
_FAILED = re.compile(
    r"^\s*(?:(?:FAIL|TIMEOUT|SIG[A-Z]+|ABORT) \[[^\]]*\](?: \(\s*\d+/\d+\))? (.+)|(?:FAILED|ERROR) (\S+::.+))$", re.M
)


def failed_names(output: str) -> list[str]:
    """The tests that failed, with pytest's reason where it gives one."""
    found = (nextest or pytest for nextest, pytest in _FAILED.findall(_ANSI.sub("", output)))
    return list(dict.fromkeys(found))


def programs(output: str) -> Counts:
    """The closing line of jax_on_shim.py."""
    found = _PROGRAMS.search(output)
    return Counts(int(found[1]), int(found[2]) - int(found[1])) if found else Counts()


@dataclass(frozen=True)
class Conformance:
    """The closing line of pypjrt.conform."""

    passed: int
    unsupported: int
    skipped: int
    failed: int


def conformance(output: str) -> Conformance | None:
    found = list(_CONFORM.finditer(_ANSI.sub("", output)))
    return Conformance(*(int(n) for n in found[-1].groups())) if found else None
