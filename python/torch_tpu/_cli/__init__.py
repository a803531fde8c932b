"""The command line: thin fronts over the Rust core."""

import argparse
import os
import sys
from collections.abc import Sequence

from torch_tpu._cli import aot, doctor
from torch_tpu._cli.errors import CommandError
from torch_tpu._cli.native import load_core
from torch_tpu._version import __version__


def plugin_path(_args: argparse.Namespace) -> int:
    """Prints the absolute path of the simulator plugin."""
    core = load_core()
    try:
        path = core.plugin_path()
    except OSError as error:
        raise CommandError(str(error)) from None
    print(os.path.abspath(path))
    return 0


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(prog="python -m torch_tpu", description="A native PyTorch backend for TPUs.")
    top.add_argument("--version", action="version", version=f"torch_tpu {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    path = commands.add_parser("plugin-path", help="print the path of the simulator's PJRT plugin")
    path.set_defaults(run=plugin_path)
    doctor.add_to(commands)
    aot.add_to(commands)
    return top


def main(argv: Sequence[str]) -> int:
    """Runs one command; returns its exit code."""
    args = parser().parse_args(argv)
    try:
        code = args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except CommandError as error:
        print(f"python -m torch_tpu {args.command}: {error}", file=sys.stderr)
        return error.code
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python flushes stdout once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        # A full disk behind the output, say; what could not be written must not be tried again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        reason = error.strerror or error
        print(f"python -m torch_tpu {args.command}: cannot write the output: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
