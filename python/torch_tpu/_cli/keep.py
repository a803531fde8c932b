"""`python -m torch_tpu keep`: runs a script on the simulator and keeps its programs' executables for a TPU."""

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

from torch_tpu._cli.aot import TOPOLOGIES, topology
from torch_tpu._cli.errors import CommandError


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser(
        "keep",
        help="run a script here and keep what it compiles for a TPU",
        description="Runs SCRIPT and compiles each of its programs for a TPU too, into a folder of the disk cache: a "
        "process on such a TPU that has the folder (TORCH_TPU_CACHE_DIR) starts warm.",
    )
    command.add_argument(
        "--topology", type=topology, default="v6e:1x1", help=f"{TOPOLOGIES}, ... (default: %(default)s)"
    )
    command.add_argument("--folder", type=Path, metavar="DIR", help="default: the user's own cache")
    command.add_argument("script", metavar="SCRIPT", type=Path, help="a Python program")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", help="its arguments")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the script; its exit code is the command's."""
    if not args.script.is_file():
        raise CommandError(f"there is no file {args.script}", 2, kind="input")
    from torch_tpu import aot

    code: Any = None
    sys.argv = [str(args.script), *args.arguments]
    sys.path.insert(0, str(args.script.absolute().parent))
    with aot.keeping(args.topology, args.folder) as kept:
        try:
            runpy.run_path(str(args.script), run_name="__main__")
        except SystemExit as end:
            code = end.code
    print(f"kept {kept.programs} programs for {args.topology}", file=sys.stderr)
    for refused in kept.refused:
        print(f"refused: {refused}", file=sys.stderr)
    if isinstance(code, str):
        print(code, file=sys.stderr)
        return 1
    return code or int(bool(kept.refused))
