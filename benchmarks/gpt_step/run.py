"""Milliseconds a GPT train step takes: ours in every mode against CPU torch and JAX, in one run.

    .venv/bin/python benchmarks/gpt_step/run.py [--rounds 7] [--steps 10] [--sides strict,fused,...] [--json FILE]

Each side is a process of its own that keeps its state; the rounds go from side to side, so that all see the same
machine. All start from the same weights, and their losses must agree before anything is timed. JAX runs in .venv-jax
(`tools/dev setup --jax`), on our CPU plugin through the simulator and on the CPU backend of jaxlib.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JAX_PYTHON = ROOT / ".venv-jax" / "bin" / "python"
SHIM = ROOT / "python" / "torch_tpu" / "libpjrt_cpu_shim.so"
OURS = {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}
ON_PLUGIN = {"JAX_PLATFORMS": "tpu_sim", "PJRT_NAMES_AND_LIBRARY_PATHS": f"tpu_sim:{SHIM}"}
SIDES = {
    "strict": OURS,
    "fused": OURS,
    "compile": OURS,
    "compile_step": OURS,
    "cpu-eager": {},
    "cpu-inductor": {},
    "jax-plugin": ON_PLUGIN,
    "jax-cpu": {"JAX_PLATFORMS": "cpu"},
}
# What inductor compiles in a minute says little about us: it is measured when asked for.
DEFAULT = tuple(side for side in SIDES if side != "cpu-inductor")
# Between any two sides, at each of the first steps.
TOLERANCE = 1e-4


def prepare(folder: Path) -> None:
    """Writes the weights and ten batches that every side reads."""
    import numpy as np
    import torch
    from model import GPT
    from sizes import Config

    torch.manual_seed(0)
    config = Config()
    model = GPT(config)
    np.savez(folder / "weights.npz", **{name: p.detach().numpy() for name, p in model.named_parameters()})
    text = torch.randint(config.vocabulary, (10, config.batch, config.length + 1)).numpy()
    np.save(folder / "batches.npy", np.stack([text[..., :-1], text[..., 1:]], axis=1))


class Worker:
    """A side's process."""

    def __init__(self, side: str, folder: Path) -> None:
        self.side = side
        python = JAX_PYTHON if side.startswith("jax") else Path(sys.executable)
        self.log = folder / f"{side}.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [python, HERE / "worker.py", side, folder],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **SIDES[side]},
                text=True,
            )
        self.checked: dict = {}
        self.figures: list[float] = []
        self.processor: list[float] = []

    def answer(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.side} ended:\n" + "\n".join(self.log.read_text().splitlines()[-25:]))
        return line

    def round(self, steps: int) -> None:
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        took, used = json.loads(self.answer())
        self.figures.append(took)
        self.processor.append(used)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def check_losses(workers: list[Worker]) -> float:
    """The largest difference between two sides' losses; ends the run where it is too large."""
    largest = 0.0
    first = workers[0]
    for worker in workers[1:]:
        pairs = zip(first.checked["losses"], worker.checked["losses"], strict=True)
        difference = max(abs(a - b) for a, b in pairs)
        largest = max(largest, difference)
        if not difference <= TOLERANCE:
            raise SystemExit(f"{worker.side} computes something else than {first.side}: losses differ by {difference}")
    return largest


def measure(sides: list[str], rounds: int, steps: int) -> dict:
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        try:
            for side in sides:
                workers.append(Worker(side, folder))
                workers[-1].checked = json.loads(workers[-1].answer())
                print(f"  {side}: first step {workers[-1].checked['first_seconds']:.2f} s", file=sys.stderr)
            difference = check_losses(workers)
            for _ in range(rounds):
                for worker in workers:
                    worker.round(steps)
        finally:
            for worker in workers:
                worker.close()
    results = {
        w.side: {
            "median_ms": statistics.median(w.figures),
            "fastest_ms": min(w.figures),
            "processor_ms": statistics.median(w.processor),
            "first_step_seconds": w.checked["first_seconds"],
            "rounds_ms": w.figures,
        }
        for w in workers
    }
    return {
        "benchmark": "gpt_step",
        "rounds": rounds,
        "steps_a_round": steps,
        "load_average": os.getloadavg()[0],
        "losses": workers[0].checked["losses"],
        "largest_loss_difference": difference,
        "results": results,
        "ratios": ratios(workers),
    }


def ratios(workers: list[Worker]) -> dict[str, float]:
    """What the project promises, as the median over the rounds of the ratio within a round."""
    figures = {w.side: w.figures for w in workers}
    wanted = [("compile_step", peer) for peer in ("jax-plugin", "jax-cpu", "cpu-eager", "strict")]
    wanted += [("fused", "strict"), ("compile", "compile_step"), ("strict", "cpu-eager")]
    return {
        f"{ours} / {peer}": statistics.median(a / b for a, b in zip(figures[ours], figures[peer], strict=True))
        for ours, peer in wanted
        if ours in figures and peer in figures
    }


def show(report: dict) -> None:
    print(f"GPT train step, {report['rounds']} rounds of {report['steps_a_round']} steps, ", end="")
    print(f"load average {report['load_average']:.1f} on {os.cpu_count()} cores")
    print(f"losses of the first steps agree to {report['largest_loss_difference']:.1e}")
    for side, r in report["results"].items():
        figures = f"median {r['median_ms']:8.2f} ms, fastest {r['fastest_ms']:8.2f}"
        figures += f", processors' {r['processor_ms']:8.2f}"
        print(f"  {side:14} {figures}, first step {r['first_step_seconds']:6.2f} s")
    for name, value in report["ratios"].items():
        print(f"  {name:28} {value:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="steps of a round")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(DEFAULT), help=", ".join(SIDES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    sides = options.sides
    if unknown := set(sides) - set(SIDES):
        parser.error(f"no side is called {', '.join(sorted(unknown))}; there are {', '.join(SIDES)}")
    if not JAX_PYTHON.exists():
        print("JAX is left out: tools/dev setup --jax makes .venv-jax", file=sys.stderr)
        sides = [side for side in sides if not side.startswith("jax")]
    report = measure(sides, options.rounds, options.steps)
    show(report)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
