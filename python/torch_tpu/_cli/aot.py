"""`python -m torch_tpu aot`: asks the real TPU compiler what a program costs, with no TPU."""

import argparse
import json
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch_tpu._cli.errors import CommandError
from torch_tpu._cli.native import load_core
from torch_tpu._cli.text import duration, percent, shortened, si, table

TOPOLOGIES = "v6e:1x1, v6e:2x2, v6e:4x4, v5e:2x2, v5p:2x2x1, v4:2x2x1 or tpu7x:2x2x1"
# How wide the last column of the fusion table may be.
SOURCE_WIDTH = 48
Json = Mapping[str, Any]


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser(
        "aot",
        help="compile a StableHLO file for a TPU and report its cost",
        description="Compiles FILE with Google's TPU compiler, with no TPU, and reports what it would cost.",
    )
    command.add_argument("file", metavar="FILE", type=Path, help="StableHLO text (.mlir); - for stdin")
    command.add_argument(
        "--topology", type=topology, default="v6e:1x1", help=f"{TOPOLOGIES}, ... (default: %(default)s)"
    )
    command.add_argument("--replicas", type=_positive, help="default: the module's mhlo.num_replicas, or 1")
    command.add_argument("--partitions", type=_positive, help="default: the module's mhlo.num_partitions, or 1")
    command.add_argument(
        "--json", action="store_true", help='print the report as JSON; on failure {"error": {"kind", "message"}}'
    )
    command.add_argument("--output", type=Path, metavar="FILE", help="write the serialized executable here")
    command.add_argument(
        "--keep",
        nargs="?",
        const="",
        metavar="DIR",
        help="put the executable into this folder of the disk cache, or the user's own, for processes on such a TPU",
    )
    command.set_defaults(run=run)


def topology(text: str) -> str:
    # Which chips and sizes there are, the compiler knows; it is unhelpful only where the form is wrong.
    if not re.fullmatch(r"\w+:\d+(x\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no topology; it looks like {TOPOLOGIES}")
    return text


def _positive(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of devices")
    if int(text) < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Compiles and prints the report."""
    text = read_program(args.file)
    if args.output is not None and not args.output.absolute().parent.is_dir():
        raise CommandError(
            f"cannot write {args.output}: {args.output.absolute().parent} is no folder", 2, kind="output"
        )
    core = load_core()
    options = {
        "replicas": args.replicas,
        "partitions": args.partitions,
        "output": None if args.output is None else str(args.output.absolute()),
        "keep": args.keep and str(Path(args.keep).absolute()),
    }
    wanted = json.dumps({name: value for name, value in options.items() if value is not None})
    if sys.stderr.isatty():
        print(f"compiling {args.file} for {args.topology} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    try:
        answer = core.aot_compile(text, args.topology, wanted)
    except core.AotError as error:
        text = refusal(str(error), str(args.file), args.topology)
        raise CommandError(text, kind="compile", status=getattr(error, "code", None)) from None
    except OSError as error:
        raise CommandError(str(error), kind="installation") from None
    report = named(json.loads(answer), str(args.file))
    if args.json:
        print(json.dumps(report, indent=2))
        return 0
    print("\n".join(render(report, str(args.file), time.monotonic() - start)))
    if args.output is not None:
        print(f"\nwrote {args.output} ({si(report.get('serialized_bytes'), 'B')})")
    return 0


def refusal(error: str, file: str, topology: str) -> str:
    """What the compiler said, about the file that the user named."""
    # MLIR adds a guess about versions to every parse error.
    lines = [line for line in error.splitlines() if line.strip() and not line.startswith("<unknown>:0:")]
    text = placed("\n".join(lines), file)
    if "PJRT_TopologyDescription_Create" in error:
        text += f"\nA topology looks like {TOPOLOGIES}"
    return f"{file} for {topology}: {text}"


def placed(text: str, file: str) -> str:
    """The text with places in the program named by its file: `-:3`, and as MLIR writes locations, `"-":3`."""
    return re.sub(r"""(?<![^\s(\['])("?)-\1:(?=\d)""", lambda found: f"{found[1]}{file}{found[1]}:", text)


def named(report: dict[str, Any], file: str) -> dict[str, Any]:
    """Places in the program name its file: the compiler only saw the text and calls it `-`."""
    for one in report.get("top", []):
        source = one.get("source") or ""
        if source.startswith("-:"):
            one["source"] = file + source[1:]
    return report


def read_program(file: Path) -> str:
    """The program's text."""
    if str(file) == "-" and sys.stdin is None:
        raise CommandError("standard input is closed; name a file", 2, kind="input")
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not text: pass StableHLO as text (.mlir)", 2, kind="input") from None
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}", 2, kind="input") from None
    if not text.strip():
        raise CommandError(f"{file} is empty", 2, kind="input")
    return text


def render(report: Json, name: str, seconds: float) -> list[str]:
    """The report as lines for a reader."""
    chip = report["chip"]
    lines = [
        f"{name} for {report['topology']} ({chip['name']}), one chip's share",
        f"compiled in {duration(report.get('compile_seconds', seconds))}, "
        f"serialized {si(report.get('serialized_bytes'), 'B')}",
        "",
        *_cost_lines(report["cost"], chip),
        "",
        *_memory_lines(report["memory"]),
    ]
    if report.get("top"):
        lines += ["", *_top_lines(report["top"])]
    return lines


def _cost_lines(cost: Json, chip: Json) -> list[str]:
    intensity, ridge = cost.get("arithmetic_intensity"), cost.get("ridge_intensity")
    roofline = "-"
    if intensity is not None:
        roofline = f"{intensity:.3g} flop/B"
        if ridge is not None:
            roofline += f", {cost.get('bound', '?')} bound (the chip's ridge is {ridge:.3g})"
    cycles, time_ = si(cost.get("estimated_cycles")), duration(cost.get("estimated_seconds"))
    missing = []
    if uncosted := cost.get("uncosted_instructions"):
        missing.append(f"{uncosted} instruction{'s' if uncosted > 1 else ''} without an estimate")
    if unknown := cost.get("unknown_trip_counts"):
        missing.append(f"all rounds but the first of {unknown} loop{'s' if unknown > 1 else ''} of unknown length")
    if missing and not cost.get("estimated_cycles"):
        cycles, time_ = f"unknown: {' and '.join(missing)}", "unknown"
    elif missing:
        cycles, time_ = f"at least {cycles} (not counting {' and '.join(missing)})", f"at least {time_}"
    rows = [
        ("flops", si(cost.get("flops"), "FLOP")),
        ("transcendentals", si(cost.get("transcendentals"))),
        ("bytes accessed", si(cost.get("bytes_accessed"), "B")),
        ("estimated cycles", cycles),
        ("estimated time", f"{time_} at {si(chip.get('clock_hz'), 'Hz')}"),
        ("arithmetic intensity", roofline),
    ]
    peak, bandwidth = chip.get("peak_flops"), chip.get("hbm_bandwidth")
    if peak and bandwidth:
        rows.append(("roofline", f"{si(peak, 'FLOP/s')}, {si(bandwidth, 'B/s')} of HBM"))
    return ["cost", *table(rows)]


def _memory_lines(memory: Json) -> list[str]:
    limit = memory.get("limit_bytes")
    kinds = [
        ("arguments", "argument_bytes"),
        ("outputs", "output_bytes"),
        ("aliased (donated)", "alias_bytes"),
        ("temporaries", "temp_bytes"),
        ("code", "code_bytes"),
        ("peak", "peak_hbm_bytes"),
    ]
    rows = []
    for label, key in kinds:
        size = memory.get(key)
        rows.append((label, si(size, "B"), percent(size / limit) if limit and size is not None else "-"))
    rows.append(("limit", si(limit, "B"), ""))
    return ["HBM", *table(rows, right=(1, 2))]


def _top_lines(top: list[Json]) -> list[str]:
    rows = [("share", "cycles", "times", "each", "instruction", "source")]
    for one in top:
        trips = one.get("trip_count")
        rows.append(
            (
                percent(one.get("share")),
                si(one.get("total_cycles")),
                "-" if trips is None else f"x{trips:g}",
                si(one.get("cycles")),
                f"{one.get('name', '?')} ({one.get('opcode', '?')})",
                shortened(one.get("source") or "", SOURCE_WIDTH),
            )
        )
    return ["dearest instructions", *table(rows, right=(0, 1, 2, 3))]
