"""The interpreters and environments that the benchmarks compare, and a process of one of them.

Everything that is timed beside ours runs in a process of its own that stays: it is asked for a round whenever it is its
turn, so that all sides see the same machine.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHIM = ROOT / "python" / "torch_tpu" / "libpjrt_cpu_shim.so"
OURS_PYTHON = Path(sys.executable)
JAX_PYTHON = ROOT / ".venv-jax" / "bin" / "python"
XLA_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

OURS = {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}
JAX_ON_PLUGIN = {"JAX_PLATFORMS": "tpu_sim", "PJRT_NAMES_AND_LIBRARY_PATHS": f"tpu_sim:{SHIM}"}
JAX_ON_CPU = {"JAX_PLATFORMS": "cpu"}
XLA = {"PJRT_DEVICE": "CPU"}


def python_of(side: str) -> Path:
    """The interpreter of a side: `jax-...`, `xla-...`, or one of torch 2.15's."""
    return JAX_PYTHON if side.startswith("jax") else XLA_PYTHON if side.startswith("xla") else OURS_PYTHON


def installed(sides: list[str]) -> list[str]:
    """The sides whose interpreter is there; says which are not."""
    missing = [side for side in sides if not python_of(side).exists()]
    if missing:
        print(f"{', '.join(missing)}: left out, tools/dev bench makes their environments", file=sys.stderr)
    return [side for side in sides if side not in missing]


def environment(side: str, wanted: Mapping[str, str]) -> dict[str, str]:
    """What a side's process finds in its environment."""
    # It may lead to torch_tpu, which is made for our torch only.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH" or python_of(side) == OURS_PYTHON}
    return {**kept, **wanted}


class Side:
    """A process that answers each line of its standard input with a line of JSON."""

    def __init__(self, name: str, command: list[str | Path], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        with log.open("w") as stderr:
            self.process = subprocess.Popen(
                [python_of(name), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(name, env),
                text=True,
            )

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended:\n" + "\n".join(self.log.read_text().splitlines()[-25:]))
        return json.loads(line)

    def ask(self, question: object) -> Any:
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


@contextlib.contextmanager
def starting(folder: Path) -> Iterator[Callable[[str, list[str | Path], Mapping[str, str]], Side]]:
    """What starts a side by its name, command and environment, its log in the folder. All end with the block."""
    running: list[Side] = []

    def start(name: str, command: list[str | Path], env: Mapping[str, str]) -> Side:
        running.append(Side(name, command, env, folder / f"{name}.log"))
        return running[-1]

    try:
        yield start
    finally:
        for side in running:
            side.close()


def figures(rounds: Sequence[tuple[float, float]], unit: str) -> dict[str, float]:
    """What a side's rounds come to: the time of each, and the processors'."""
    took, used = zip(*rounds, strict=True)
    return {
        f"median_{unit}": statistics.median(took),
        f"fastest_{unit}": min(took),
        f"processor_{unit}": statistics.median(used),
    }


def write_report(path: Path | None, report: dict) -> None:
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1) + "\n")
