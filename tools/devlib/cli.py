"""The commands of tools/dev."""

import argparse
import sys
import time

from . import build, envs, system
from .console import Console, seconds_text
from .errors import DevError
from .paths import VENV, VENV_JAX


def setup(console: Console, args: argparse.Namespace) -> int:
    prepare(console, jax=args.jax)
    if not args.no_build:
        build.build(console)
    return 0


def prepare(console: Console, *, jax: bool) -> None:
    with console.stage("check the tools") as stage:
        system.check_tools(stage)
    with console.stage("Debian packages") as stage:
        system.install_packages(console, stage)
    with console.stage(".venv") as stage:
        if not VENV.exists():
            stage.note("torch and the plugins are about 6 GB")
        envs.ensure_dev(console, stage)
    if jax:
        with console.stage(VENV_JAX.name) as stage:
            envs.ensure_jax(console, stage)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/dev")
    sub = parser.add_subparsers(dest="command", required=True)
    p = sub.add_parser("setup")
    p.add_argument("--jax", action="store_true")
    p.add_argument("--no-build", action="store_true")
    p.set_defaults(run=setup)
    args = parser.parse_args(argv)
    console = Console()
    start = time.monotonic()
    try:
        return args.run(console, args)
    except DevError as error:
        console.say(error.report())
        return 1
    except KeyboardInterrupt:
        console.say("interrupted")
        return 130
    finally:
        console.say(f"{args.command}: {seconds_text(time.monotonic() - start)}")
