"""`python -m torch_tpu doctor`: what is installed, what works, what is wrong and how to fix it."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from torch_tpu._cli.text import si, table
from torch_tpu._conflict import FIX, conflict_text, google_distributions
from torch_tpu._version import __version__

# A smoke run takes a tenth of a second; a plugin that hangs must not hang the doctor.
SMOKE_SECONDS = 60.0
DISTRIBUTIONS = ("torch", "torch-tpu-rs", "libtpu", "fastatomstruct-xla-cpu", "lammps-jax-pjrt-cpu", "jax", "jaxlib")
FAULT_VARIABLE = "TORCH_TPU_SIM_FAULT"
VARIABLES = ("TORCH_TPU_", "TPU_", "PJRT_", "XLA_")
_CHILD = (
    "import sys; sys.path.insert(0, sys.argv[1]); from torch_tpu import _core; print(_core.doctor(watch_stdin=True))"
)
Problem = dict[str, str]


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("doctor", help="check the installation: versions, plugins, devices, a smoke run")
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Examines and prints; 1 when something is wrong."""
    report = examine()
    print(json.dumps(report, indent=2) if args.json else "\n".join(render(report)))
    return 1 if report["problems"] else 0


def examine() -> dict[str, Any]:
    """All findings. `problems` need a fix, `notes` are things that do not work but need not."""
    problems: list[Problem] = []
    google = google_distributions()
    if google:
        problems.append({"what": conflict_text(google), "fix": FIX})
    versions = {name: version_of(name) for name in DISTRIBUTIONS}
    notes = []
    if versions["torch"] is None:
        notes.append("torch is not installed: the simulator and `aot` work without it")
    native = smoke_in_child(problems)
    problems += native.pop("problems", [])
    armed = armed_fault() if native.get("platform") == "sim" else None
    if armed:
        notes.append(
            f"a fault is armed by {FAULT_VARIABLE}={armed}: calls of the simulator fail or wait as it says; "
            "unset it for an honest answer"
        )
    if native and native.get("libtpu") is None:
        notes.append("libtpu is not installed: `aot` needs it (pip install libtpu)")
    return {
        "version": __version__,
        "python": sys.version.split()[0],
        "package": str(package_dir()),
        "versions": versions,
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(VARIABLES)},
        **native,
        "armed_fault": armed,
        "notes": notes,
        "problems": problems,
    }


def armed_fault() -> str | None:
    """The rules by which the simulator is to fail."""
    return os.environ.get(FAULT_VARIABLE, "").strip() or None


def package_dir() -> Path:
    """The folder of this package."""
    return Path(__file__).resolve().parents[1]


def version_of(name: str) -> str | None:
    """An installed distribution's version, without importing it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def smoke_in_child(problems: list[Problem]) -> dict[str, Any]:
    """What the Rust core finds, in a process of its own: a plugin that crashes is a finding, not our end."""
    command = [sys.executable, "-c", _CHILD, str(package_dir().parent)]
    # The child ends when this pipe does, which is also when we are killed.
    childs, ours = os.pipe()
    try:
        child = subprocess.run(
            command, stdin=childs, capture_output=True, text=True, timeout=SMOKE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        problems.append(
            {
                "what": f"the smoke run did not end within {SMOKE_SECONDS:.0f} s",
                "fix": "another process may hold the TPU; on a machine without one set TORCH_TPU_PLATFORM=sim",
            }
        )
        return {}
    finally:
        os.close(ours)
        os.close(childs)
    if child.returncode == 0:
        try:
            return json.loads(child.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            pass
    problems.append(child_problem(child.returncode, child.stderr))
    return {}


def child_problem(code: int, stderr: str) -> Problem:
    """What a failed child says about the installation."""
    last = next((line.strip() for line in reversed(stderr.splitlines()) if line.strip()), "it printed nothing")
    if code < 0:
        return {
            "what": f"the smoke run crashed with {signal.Signals(-code).name}: {last}",
            "fix": "the plugin is damaged or does not fit this machine: reinstall it, or name another in "
            "TORCH_TPU_PJRT_PLUGIN or TORCH_TPU_CPU_PLUGIN",
        }
    return {
        "what": f"the Rust core cannot be used: {last}",
        "fix": "in a checkout run `tools/dev build`; otherwise reinstall torch-tpu-rs",
    }


def render(report: Mapping[str, Any]) -> list[str]:
    """The findings as lines for a reader."""
    rows = [("torch_tpu", report["version"]), ("python", report["python"])]
    rows += [
        (name, version or "not installed") for name, version in report["versions"].items() if name != "torch-tpu-rs"
    ]
    lines = ["versions", *table(rows)]
    if report["environment"]:
        lines += ["environment", *table(list(report["environment"].items()))]
    lines += ["target", *table(_target_rows(report))]
    devices = (report.get("client") or {}).get("devices") or []
    if devices:
        lines += ["devices", *table([_device_row(device) for device in devices])]
    lines += [f"note: {note}" for note in report["notes"]]
    for problem in report["problems"]:
        lines += [f"PROBLEM: {problem['what']}", f"    fix: {problem['fix']}"]
    count = len(report["problems"])
    verdict = "nothing is wrong" if count == 0 else f"{count} problem{'s' if count > 1 else ''}"
    if report.get("armed_fault"):
        verdict += f" so far, but {FAULT_VARIABLE} arms a fault"
    lines.append(verdict)
    return lines


def _target_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [("package", report["package"])]
    if report.get("platform"):
        rows.append(("platform", f"{report['platform']} ({report.get('reason')})"))
    if report.get("plugin"):
        rows.append(("plugin", report["plugin"]))
    client = report.get("client")
    if client:
        rows.append(("client", f"{client['platform_name']}, PJRT API {client['api_version']}"))
        rows.append(("", client["platform_version"].replace("\n", " ")))
        rows.append(("extensions", ", ".join(client["extensions"]) or "none"))
        rows.append(("smoke run", client["smoke"]))
    if report.get("libtpu"):
        rows.append(("v6e compiler", report["libtpu"]))
    return rows


def _device_row(device: Mapping[str, Any]) -> tuple[str, str, str, str]:
    coords, memory = device.get("coords"), device.get("memory") or {}
    place = f"({', '.join(map(str, coords))})" if coords else ""
    limit, used = memory.get("bytes_limit"), memory.get("bytes_in_use")
    hbm = f"{si(used, 'B')} of {si(limit, 'B')} in use" if limit and used is not None else ""
    return (str(device["id"]), device["kind"], place, hbm)
