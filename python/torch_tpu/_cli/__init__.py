"""The command line: thin fronts over the Rust core."""

import argparse
import os
import sys
from collections.abc import Sequence

from torch_tpu._cli import aot, doctor, keep
from torch_tpu._cli.errors import CommandError, Parser, tell
from torch_tpu._cli.native import load_core
from torch_tpu._version import __version__


def plugin_path(_args: argparse.Namespace) -> int:
    """Prints the absolute path of the simulator plugin."""
    core = load_core()
    try:
        path = core.plugin_path()
    except OSError as error:
        raise CommandError(str(error), kind="installation") from None
    print(os.path.abspath(path))
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = Parser(prog="python -m torch_tpu", description="A native PyTorch backend for TPUs.")
    top.add_argument("--version", action="version", version=f"torch_tpu {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    path = commands.add_parser("plugin-path", help="print the path of the simulator's PJRT plugin")
    path.set_defaults(run=plugin_path)
    doctor.add_to(commands)
    aot.add_to(commands)
    keep.add_to(commands)
    return top


def main(argv: Sequence[str]) -> int:
    """Runs one command; returns its exit code."""
    try:
        args = parser().parse_args(argv)
    except CommandError as error:
        # There are no parsed arguments to say whether JSON is wanted.
        return told(error, "python -m torch_tpu: error", as_json="--json" in argv)
    where, as_json = f"python -m torch_tpu {args.command}", getattr(args, "json", False)
    try:
        code = args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except CommandError as error:
        return told(error, where, as_json=as_json)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python flushes stdout once more at exit.
        drop_output()
        return 1
    except OSError as error:
        # A full disk behind the output, say; what could not be written must not be tried again at exit.
        drop_output()
        print(f"{where}: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return told(CommandError("interrupted", 130, kind="interrupted"), where, as_json=as_json)


def told(error: CommandError, where: str, *, as_json: bool) -> int:
    """Tells the error; returns its exit code, also when nobody can be told."""
    try:
        tell(error, where, as_json=as_json)
    except OSError:
        drop_output()
    return error.code


def drop_output() -> None:
    """Sends what stdout still holds nowhere."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
