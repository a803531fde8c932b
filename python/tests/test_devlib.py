"""The parts of tools/dev that decide something."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from devlib import bench, build, console, counts, envs, lint, system, tests
from devlib.counts import Counts
from devlib.errors import DevError

NEXTEST = """
        PASS [   0.004s] dtype tests::names
------------
     Summary [   1.234s] 30 tests run: 27 passed (1 slow), 2 failed, 1 timed out, 4 skipped
"""
COLOURED = "\x1b[32;1m     Summary\x1b[0m [   0.1s] \x1b[1m1\x1b[0m test run: \x1b[1m1\x1b[0m passed"
CARGO = """
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


@pytest.mark.parametrize(
    ("read", "output", "expected"),
    [
        (counts.nextest, NEXTEST, Counts(27, 3)),
        (counts.nextest, COLOURED, Counts(1)),
        (counts.nextest, "error: could not compile", Counts()),
        (counts.cargo_test, CARGO, Counts(7, 2)),
        (counts.pytest, "\n1 failed, 42 passed, 1 error in 12.51s\n", Counts(42, 2)),
        (counts.pytest, "======= 5 passed in 0.10s ========\n", Counts(5)),
        (counts.pytest, "no tests ran in 0.01s\n", Counts()),
        (counts.programs, "9 of 10 programs give the same numbers\n", Counts(9, 1)),
    ],
)
def test_counts(read, output: str, expected: Counts) -> None:  # noqa: ANN001
    assert read(output) == expected


def test_conformance_line() -> None:
    assert counts.conformance("  51 pass · 6 unsupported · 5 skip · 1 FAIL") == counts.Conformance(51, 6, 5, 1)
    assert counts.conformance("Segmentation fault") is None


def test_the_closing_line_is_what_ci_reads() -> None:
    assert str(Counts(3) + Counts(1, 2)) == "4 passed, 2 failed"


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("a/b.rs", "fn f() {}\n" * 801, "801 lines"),
        ("a/b.py", "x = 1  # TO" + "DO later\n", "unfinished"),
        ("a/b.rs", "db" + "g!(x);\n", "unfinished"),
        ("README.md", "see /ro" + "ot/.cargo\n", "a path of one machine"),
        ("a/b.toml", 'p = "/home/' + 'me/x"\n', "a path of one machine"),
        ("requirements/dev.lock", "torch @ https:" + "//host/x.whl\n", "registry"),
        (".cargo/config.toml", 'registry = "sparse+https:' + '//host/"\n', "registry"),
        ("requirements/dev.in", "--index-" + "url https:" + "//host/simple\n", "registry"),
    ],
)
def test_house_rules_find(name: str, text: str, part: str) -> None:
    (found,) = lint.text_findings(name, text)
    assert found.startswith(name)
    assert part in found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a/b.rs", "fn f() {}\n" * 800),
        ("docs/a.md", "run `/usr/bin/env`, see https:" + "//www.apache.org/licenses/\n"),
        ("Cargo.lock", 'source = "registry+https:' + '//host/index"\n'),
        ("backend/x/tests/a.rs", 'let p = "/home/' + 'me/x";\n'),
    ],
)
def test_house_rules_let_pass(name: str, text: str) -> None:
    assert list(lint.text_findings(name, text)) == []


def test_versions_must_agree() -> None:
    cargo = '[workspace.package]\nversion = "0.2.0"\n[workspace.dependencies]\nhalf = { version = "2" }\n'
    assert lint.version_findings(cargo, '__version__ = "0.2.0"\n') == []
    assert lint.version_findings(cargo, '__version__ = "0.1.0"\n') != []
    assert lint.version_findings("", "") != []


def test_locks_are_hashed_and_cover_what_is_asked_for() -> None:
    for source in (ROOT / "requirements").glob("*.in"):
        lock = source.with_suffix(".lock").read_text()
        for wanted in system.read_package_list(source.read_text()):
            assert f"\n{wanted.split('==')[0].split('[')[0]}==" in f"\n{lock}", wanted
        entries = [line for line in lock.splitlines() if line and not line.startswith((" ", "#"))]
        assert entries
        assert all(line.endswith("\\") for line in entries), "an entry without a hash"


def test_a_changed_lock_changes_the_stamp(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text("a==1")
    before = envs.stamp_of([lock])
    assert envs.stamp_of([lock]) == before
    lock.write_text("a==2")
    assert envs.stamp_of([lock]) != before


def test_an_environment_is_current_only_with_stamp_and_interpreter(tmp_path: Path) -> None:
    assert not envs.is_current(tmp_path, "s")
    (tmp_path / envs.STAMP).write_text("s")
    assert not envs.is_current(tmp_path, "s")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    assert envs.is_current(tmp_path, "s")
    assert not envs.is_current(tmp_path, "other")


def test_versions_are_read() -> None:
    assert system.parse_version("cargo 1.95.0 (f2d3ce0bd 2026-03-21)") == (1, 95, 0)
    assert system.parse_version("nothing") < system.CARGO_AT_LEAST


def test_package_list_ignores_comments() -> None:
    assert system.read_package_list("# why\na-1\n\nb  # c\n") == ["a-1", "b"]


def test_place_links_and_is_idempotent(tmp_path: Path) -> None:
    release, package = tmp_path / "target" / "release", tmp_path / "python"
    release.mkdir(parents=True)
    package.mkdir()
    with pytest.raises(DevError, match="cargo built no"):
        build.place(release, package)
    for built in build.ARTIFACTS:
        (release / built).write_text(built)
    assert build.place(release, package) == list(build.ARTIFACTS.values())
    assert build.place(release, package) == []
    assert (package / "_core.abi3.so").read_text() == "lib_core.so"
    assert not (package / "_core.abi3.so").readlink().is_absolute()


def test_a_failed_command_tells_what_why_and_what_to_do(tmp_path: Path) -> None:
    code = "print('first'); print('the reason'); raise SystemExit(3)"
    with pytest.raises(DevError) as caught:
        console.Console().run("unit check", [sys.executable, "-c", code], cwd=tmp_path, advice="Do this.")
    report = caught.value.report()
    for part in ("failed: unit check", "ended with code 3", "| the reason", "Do this.", "unit-check.log"):
        assert part in report
    assert caught.value.output == "first\nthe reason\n"


def test_the_reported_lines_are_those_that_tell() -> None:
    noise = "  cargo:rerun-if-changed=/usr/include/x.h\n" * 100
    assert console.tail(f"error: why\n{noise}\n\n  \x1b[31mmore\x1b[0m\n" + "x" * 1000) == (
        "error: why\n  more\n" + "x" * console.LINE_WIDTH + "..."
    )
    assert console.tail("a\nb\nc", 2) == "b\nc"


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(DevError, match="took longer than"):
        console.Console().run("unit hang", ["sleep", "60"], cwd=tmp_path, timeout=0.1)


def test_a_missing_program_is_named() -> None:
    with pytest.raises(DevError, match="no-such-program"):
        console.Console().run("unit absent", ["no-such-program"])


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (12.3, "12 s"), (99.6, "1 min 40 s"), (185, "3 min 05 s")]
)
def test_times(seconds: float, shown: str) -> None:
    assert console.seconds_text(seconds) == shown


def test_stage_selection() -> None:
    every = tests.selected(fast=False, full=False, only=[])
    fast = tests.selected(fast=True, full=False, only=[])
    full = tests.selected(fast=False, full=True, only=[])
    assert every == [step for step in tests.STEPS if step.default]
    assert [step.name for step in full] == [step.name for step in tests.STEPS]
    assert [whole.run for step, whole in zip(tests.STEPS, full, strict=True) if step != whole] == [tests.suite_full]
    assert all(step.default for step in fast if step.run is not tests.rust_fast)
    only = tests.selected(fast=False, full=False, only=["conformance suite"])
    assert [step.name for step in only] == ["conformance suite"]
    assert {step.name for step in every} - {step.name for step in fast} >= {"AddressSanitizer", "JAX on the simulator"}
    assert [step.name for step in tests.selected(fast=False, full=False, only=["pytest"])] == [
        "pytest, ops",
        "pytest",
        "pytest, slow",
    ]
    with pytest.raises(DevError, match="no stage is called nothing"):
        tests.selected(fast=False, full=False, only=["nothing"])


@pytest.mark.parametrize("command", ["wheel"])
def test_commands_of_later_issues_say_so(command: str) -> None:
    answer = subprocess.run([ROOT / "tools" / "dev", command], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "is not there yet" in answer.stdout


def test_an_unknown_command_lists_the_known_ones() -> None:
    answer = subprocess.run([ROOT / "tools" / "dev", "tset"], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "setup" in answer.stderr


def test_an_old_python_is_told_what_is_needed() -> None:
    code = (ROOT / "tools" / "dev").read_text()
    # The check is the script's first statement: nothing before it may need a newer Python.
    run = f"import sys; sys.version_info = (3, 9, 2); exec({code!r})"
    answer = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "needs Python 3.11 or newer, this is 3.9" in answer.stderr


def test_the_table_of_benchmarks_tells_each_target() -> None:
    step = {
        "results": {"fused": {"median_ms": 7.0, "processor_ms": 9.0}},
        "ratios": {"fused / xla-lazy": 0.6, "strict / xla-eager": 0.75, "fused / strict": 0.5},
        "processor_ratios": {"fused / xla-lazy": 0.8},
        "targets": {"fused / xla-lazy": 0.7, "strict / xla-eager": 0.5},
    }
    rows = bench.summary({"gpt_step": step, "mlp_step": {"ratios": {"fused / xla-lazy": 2.0}}})
    lines = {(r["benchmark"], r["name"]): bench.table([r]).splitlines()[-1].split() for r in rows}
    assert lines["gpt_step", "fused"][2:] == ["7.000", "9.000", "ms", "a", "step"]
    assert lines["gpt_step", "fused / xla-lazy"][4:] == ["0.600", "0.800", "ratio", "<=", "0.70", "met"]
    assert lines["gpt_step", "strict / xla-eager"][4:] == ["0.750", "ratio", "<=", "0.50", "missed"]
    assert lines["gpt_step", "fused / strict"][4:] == ["0.500", "ratio"]
    # The targets are the GPT's.
    assert lines["mlp_step", "fused / xla-lazy"][4:] == ["2.000", "ratio"]
