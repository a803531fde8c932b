"""`tools/dev test`: all that CI runs, stage by stage."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import build, counts, envs, lint
from .console import Console, Stage
from .counts import Counts
from .errors import DevError
from .paths import PACKAGE, ROOT, VENV, VENV_JAX

SHIM = PACKAGE / "libpjrt_cpu_shim.so"
# Where a plugin's wheel puts its library.
FIRST_PLUGIN = "fastatomstruct_xla_cpu/libpjrt_cpu.so"
SECOND_PLUGIN = "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"
CONFORMANCE_AT_LEAST = 57
JAX_SCRIPT = ROOT / "pjrt_cpu_shim" / "tests" / "jax_on_shim.py"
HOST = "x86_64-unknown-linux-gnu"
SANITIZED = ("pjrt", "stablehlo")


@dataclass(frozen=True)
class Step:
    """A stage of the test run."""

    name: str
    run: Callable[[Console], Counts]
    fast: bool = True
    # Otherwise it runs when it is asked for by name, and in a full run.
    default: bool = True


def plugin(relative: str) -> Path:
    path = envs.site_packages(VENV) / relative
    if not path.is_file():
        raise DevError(f"no CPU plugin at {path}", advice="rm -r .venv && tools/dev setup")
    return path


def run_counted(
    console: Console,
    name: str,
    command: Sequence[str | Path],
    read: Callable[[str], Counts],
    env: Mapping[str, str] | None = None,
) -> Counts:
    """Runs tests; a failed run raises with the numbers attached, and one without tests is a failure too."""
    try:
        found = read(console.run(name, command, env={**envs.path_with_venv(), **(env or {})}))
    except DevError as error:
        found = read(error.output)
        raise TestsFailed(error, Counts(found.passed, max(1, found.failed))) from None
    if found.passed == 0:
        raise DevError(f"{name} ran no test", advice="Did a test file move? See tools/devlib/tests.py.")
    return found


class TestsFailed(DevError):
    """Tests ran and some failed."""

    def __init__(self, error: DevError, found: Counts) -> None:
        super().__init__(error.what, error.why, error.advice, error.output)
        self.counts = found


NEXTEST = ("cargo", "nextest", "run", "--release", "--locked", "--no-fail-fast")
# It has a stage of its own, once the libraries that it tests are in place.
NOT_THE_SUITE = ("--exclude", "conformance")


def rust(console: Console) -> Counts:
    command = [*NEXTEST, "--workspace", *NOT_THE_SUITE]
    return run_counted(console, "cargo nextest", command, counts.nextest)


def rust_fast(console: Console) -> Counts:
    # The samples examine three compilers, in minutes.
    command = [*NEXTEST, "--workspace", *NOT_THE_SUITE, "-E", "not binary(stablehlo_samples)"]
    return run_counted(console, "cargo nextest, fast", command, counts.nextest)


def doctests(console: Console) -> Counts:
    command = ["cargo", "test", "--doc", "--release", "--workspace", "--locked", "--no-fail-fast"]
    return run_counted(console, "doctests", command, counts.cargo_test)


def second_plugin(console: Console) -> Counts:
    command = [
        *NEXTEST,
        "-p",
        "pjrt",
        "-p",
        "pjrt_cpu_shim",
        # These choose their plugins themselves: a second run would be the same run.
        "-E",
        "not (binary(stablehlo_samples) or binary(bare_plugins))",
    ]
    env = {"TORCH_TPU_CPU_PLUGIN": str(plugin(SECOND_PLUGIN))}
    return run_counted(console, "second CPU plugin", command, counts.nextest, env)


def conformance(console: Console, name: str, relative: str) -> Counts:
    command = [envs.python_of(VENV), "-m", "pypjrt.conform", "-v", SHIM]
    env = {**envs.path_with_venv(), "TORCH_TPU_CPU_PLUGIN": str(plugin(relative))}
    try:
        output = console.run(f"conformance {name}", command, env=env)
    except DevError as error:
        # It ends with a code when a check fails: the numbers below say which kind.
        output = error.output
        if counts.conformance(output) is None:
            raise
    found = counts.conformance(output)
    if found is None or found.failed or found.unsupported or found.passed < CONFORMANCE_AT_LEAST:
        bad = [line for line in output.splitlines() if line.strip().startswith(("FAIL", "unsupported"))]
        raise DevError(
            f"pypjrt.conform on the simulator over {relative}: {found}; "
            f"wanted 0 failed, 0 unsupported, at least {CONFORMANCE_AT_LEAST} passed",
            "\n".join(bad) or output[-2000:],
            f"TORCH_TPU_CPU_PLUGIN={plugin(relative)} \\\n  .venv/bin/python -m pypjrt.conform -v {SHIM}",
        )
    return Counts(found.passed)


def conformance_first(console: Console) -> Counts:
    return conformance(console, "first plugin", FIRST_PLUGIN)


def conformance_second(console: Console) -> Counts:
    return conformance(console, "second plugin", SECOND_PLUGIN)


# How much the suite runs: small, default, full.
SUITE_MODE = "TORCH_TPU_CONFORMANCE"


def suite(console: Console, mode: str, *more: str) -> Counts:
    """PyTorch's databases on the simulator and on libtpu's compiler: see conformance/."""
    command = [*NEXTEST, "--profile", "conformance", "-p", "conformance", *more]
    env = {SUITE_MODE: mode}
    return run_counted(console, f"conformance suite, {mode}", command, counts.nextest, env)


def suite_default(console: Console) -> Counts:
    return suite(console, os.environ.get(SUITE_MODE) or "default")


def suite_full(console: Console) -> Counts:
    return suite(console, "full")


def suite_machinery(console: Console) -> Counts:
    """The suite's own tests, with planted hangs, aborts and wrong results."""
    return suite(console, "small", "-E", "not binary(suite)")


def jax(console: Console) -> Counts:
    envs.ensure_jax(console, Stage(VENV_JAX.name))
    env = {"TORCH_TPU_CPU_PLUGIN": str(plugin(FIRST_PLUGIN))}
    command = [envs.python_of(VENV_JAX), JAX_SCRIPT, SHIM]
    return run_counted(console, "JAX on the simulator", command, counts.programs, env)


# What the op tests read: see python/tests/conftest.py.
SAMPLE = "TORCH_TPU_TEST_SAMPLE"
# Without LLVM's optimizations a program compiles in two thirds of the time, which is most of the time of a test of an
# op. (Without XLA's MLIR emitters it takes a third, but they alone convert to every byte float rightly.) The other
# folders run what users run.
QUICK_COMPILES = "--xla_backend_optimization_level=0"
# Folders whose tests train, start processes or compile much.
SLOW_FOLDERS = ("examples", "device")


# A test waits for one compiler at a time; each of these holds torch and a device, in a gigabyte or two.
PYTEST_WORKERS = min(os.cpu_count() or 1, 4)


def pytest(console: Console, name: str, *more: str, env: Mapping[str, str] | None = None) -> Counts:
    command = [envs.python_of(VENV), "-m", "pytest", "-q", "--color=no", "-p", "no:cacheprovider"]
    command += ["-n", str(PYTEST_WORKERS), "--dist", "worksteal", *more]
    return run_counted(console, name, command, counts.pytest, env)


def python_ops(console: Console) -> Counts:
    return pytest(console, "pytest, ops", "python/tests/ops", env={"XLA_FLAGS": QUICK_COMPILES})


def python(console: Console) -> Counts:
    ignored = [f"--ignore=python/tests/{folder}" for folder in ("ops", *SLOW_FOLDERS)]
    return pytest(console, "pytest", "python/tests", *ignored)


def python_slow(console: Console) -> Counts:
    return pytest(console, "pytest, slow", *(f"python/tests/{folder}" for folder in SLOW_FOLDERS))


def sanitize(console: Console) -> Counts:
    """AddressSanitizer and LeakSanitizer over our Rust code, with the CPU plugin underneath."""
    command = [
        "cargo",
        "test",
        "--target",
        HOST,
        "--target-dir",
        ROOT / "target" / "asan",
        "--locked",
        "--no-fail-fast",
    ]
    for crate in SANITIZED:
        command += ["-p", crate]
    # Doctests are compiled without these flags, and the samples examine compilers, in 6 minutes, not our memory.
    command += ["--lib", "--tests", "--", "--skip", "samples_compile"]
    env = {
        # The stable compiler has the sanitizer, but hides the option.
        "RUSTC_BOOTSTRAP": "1",
        # The simulator is a library of its own and needs the runtime that the test program carries.
        "RUSTFLAGS": "-Zsanitizer=address -Cforce-frame-pointers=yes -Clink-arg=-Wl,--export-dynamic",
    }
    return run_counted(console, "AddressSanitizer", command, counts.cargo_test, env)


STEPS = [
    Step("cargo nextest", rust),
    Step("doctests", doctests),
    Step("pytest, ops", python_ops),
    Step("pytest", python),
    Step("pytest, slow", python_slow, fast=False),
    # A sample that meets what is not listed keeps a commit from landing: it waits for a whole run of the newest kinds.
    Step("conformance suite", suite_default, default=False),
    Step("conformance machinery", suite_machinery, fast=False),
    Step("conformance", conformance_first),
    Step("conformance, second plugin", conformance_second, fast=False),
    Step("integration tests, second plugin", second_plugin, fast=False),
    Step("JAX on the simulator", jax, fast=False),
    Step("AddressSanitizer", sanitize, fast=False),
]


def selected(*, fast: bool, full: bool, only: Sequence[str]) -> list[Step]:
    if only:
        unknown = [name for name in only if not any(name in step.name for step in STEPS)]
        if unknown:
            raise DevError(
                f"no stage is called {', '.join(unknown)}", advice="Stages: " + ", ".join(s.name for s in STEPS)
            )
        return [step for step in STEPS if any(name in step.name for name in only)]
    if fast:
        quick = {rust: Step("cargo nextest, fast", rust_fast)}
        return [quick.get(step.run, step) for step in STEPS if step.fast and step.default]
    if full:
        whole = {suite_default: Step("conformance suite", suite_full)}
        return [whole.get(step.run, step) for step in STEPS]
    return [step for step in STEPS if step.default]


def run(console: Console, *, fast: bool, full: bool, only: Sequence[str], share: float = 1.0) -> int:
    """Lint, build and every selected stage; a failed one does not keep the later ones from running."""
    steps = selected(fast=fast, full=full, only=only)
    os.environ.setdefault(SAMPLE, str(share))
    total = Counts()
    failures: list[DevError] = []

    def failed(error: DevError) -> None:
        nonlocal total
        failures.append(error)
        total += error.counts if isinstance(error, TestsFailed) else Counts(failed=1)
        console.say(error.report())

    if not only:
        try:
            lint.lint(console)
        except DevError as error:
            failed(error)
    try:
        build.build(console)
    except DevError as error:
        # Nothing below runs without the libraries.
        failed(error)
        steps = []
    for step in steps:
        try:
            with console.stage(step.name) as stage:
                found = step.run(console)
                stage.note(str(found))
            total += found
        except DevError as error:
            failed(error)
    console.say(console.summary())
    if failures:
        console.say("\nfailed:")
        for error in failures:
            # What CI keeps of a long output is its end.
            names = counts.failed_names(error.output)
            console.say("\n".join([f"  {error.what}", *(f"    {name[:300]}" for name in names[:20])]))
    # The closing line that CI reads.
    console.say(f"\n{total}")
    return 1 if failures else 0
