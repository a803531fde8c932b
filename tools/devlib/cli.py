"""The commands of tools/dev."""

import argparse
import subprocess
import time
from collections.abc import Callable

from . import bench, build, demo, envs, lint, system, tests
from .console import Console, seconds_text
from .errors import DevError
from .paths import VENV, VENV_JAX

# What the design promises and a later issue brings.
LATER = {
    "wheel": "the wheel comes with the packaging issue",
}


# The part of the op tests' cases that a run takes.
DEFAULT_SHARE = 0.5
FAST_SHARE = 0.1


def setup(console: Console, args: argparse.Namespace) -> int:
    prepare(console, jax=args.jax)
    if not args.no_build:
        build.build(console)
    return 0


def prepare(console: Console, *, jax: bool = False) -> None:
    with console.stage("check the tools") as stage:
        system.check_tools(stage)
    with console.stage("Debian packages") as stage:
        system.install_packages(console, stage)
    with console.stage(VENV.name) as stage:
        if not VENV.exists():
            stage.note("torch and the plugins take about 6 GB")
        envs.ensure_dev(console, stage)
    if jax:
        with console.stage(VENV_JAX.name) as stage:
            envs.ensure_jax(console, stage)


def run_build(console: Console, _args: argparse.Namespace) -> int:
    build.build(console)
    return 0


def run_test(console: Console, args: argparse.Namespace) -> int:
    prepare(console)
    share = FAST_SHARE if args.fast else 1.0 if args.full or args.only else DEFAULT_SHARE
    return tests.run(console, fast=args.fast, full=args.full, only=args.only, share=share)


def run_lint(console: Console, args: argparse.Namespace) -> int:
    prepare(console)
    lint.lint(console, fix=args.fix)
    return 0


def run_bench(console: Console, args: argparse.Namespace) -> int:
    prepare(console)
    return bench.run(console, rounds=args.rounds, only=args.only)


def run_demo(console: Console, args: argparse.Namespace) -> int:
    prepare(console)
    return demo.run(console, steps=args.steps)


def run_lock(console: Console, args: argparse.Namespace) -> int:
    envs.write_locks(console, upgrade=args.upgrade)
    return 0


def run_doctor(console: Console, args: argparse.Namespace) -> int:
    with console.stage("check the tools") as stage:
        system.check_tools(stage)
    missing = system.missing_packages()
    if missing:
        raise DevError(f"Debian packages are missing: {' '.join(missing)}", advice="Run tools/dev setup.")
    if not envs.python_of(VENV).exists():
        raise DevError("there is no .venv", advice="Run tools/dev setup.")
    return subprocess.run([envs.python_of(VENV), "-m", "torch_tpu", "doctor"], check=False).returncode


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="tools/dev", description="Sets up, builds, tests and checks the project.")
    top.add_argument("-v", "--verbose", action="store_true", help="show all that the commands print")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[Console, argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    made = command("setup", setup, "make .venv and build, installing what is missing")
    made.add_argument("--jax", action="store_true", help="make .venv-jax too, for the JAX tests")
    made.add_argument("--no-build", action="store_true", help="only the environments")
    command("build", run_build, "build the Rust crates into python/torch_tpu")
    made = command("test", run_test, "all that CI runs")
    size = made.add_mutually_exclusive_group()
    size.add_argument("--fast", action="store_true", help="under 5 minutes: few cases an op, no JAX, no sanitizer")
    size.add_argument(
        "--full", action="store_true", help="every case of every op, in hours; by default a part that changes by commit"
    )
    size.add_argument("--only", action="append", default=[], metavar="NAME", help="build, then the stages so named")
    made = command("lint", run_lint, "formatters, linters and house rules")
    made.add_argument("--fix", action="store_true", help="format and mend what can be mended")
    command("doctor", run_doctor, "check the machine and the installation")
    made = command("bench", run_bench, "measure against CPU torch, torch_xla and JAX, and on the v6e's compiler")
    made.add_argument("--rounds", type=int, default=7, help="runs of each kind (default: %(default)s)")
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="only this benchmark (several times)")
    made = command("demo", run_demo, "train a small GPT on the simulated v6e and let it write")
    made.add_argument("--steps", type=int, default=demo.STEPS, help="steps to train (default: %(default)s)")
    made = command("lock", run_lock, "make requirements/*.lock from *.in")
    made.add_argument("--upgrade", action="store_true", help="take the newest versions that *.in allows")
    return top


def main(argv: list[str]) -> int:
    console = Console(verbose="-v" in argv or "--verbose" in argv)
    words = [word for word in argv if not word.startswith("-")]
    if words and words[0] in LATER:
        console.say(f"tools/dev {words[0]} is not there yet: {LATER[words[0]]}. `tools/dev --help` lists what is.")
        return 2
    args = parser().parse_args(argv)
    start = time.monotonic()
    try:
        code = args.run(console, args)
    except DevError as error:
        console.say(error.report())
        code = 1
    except KeyboardInterrupt:
        console.say("interrupted")
        code = 130
    if args.command != "test":
        verdict = "done" if code == 0 else "failed"
        console.say(f"tools/dev {args.command}: {verdict} in {seconds_text(time.monotonic() - start)}")
    return code
