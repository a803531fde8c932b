"""Milliseconds a train step takes: ours in every mode against CPU torch, torch_xla and JAX, in one run.

    .venv/bin/python benchmarks/train_step/run.py [--model gpt] [--rounds 7] [--steps 10] [--sides a,b] [--json FILE]

Each side is a process of its own that keeps its state; the rounds go from side to side, so that all see the same
machine. All start from the same weights, and their losses must agree before anything is timed. JAX runs in .venv-jax,
on our CPU plugin through the simulator and on the CPU backend of jaxlib; torch_xla in .venv-peers, on its CPU device.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sides import JAX_ON_CPU, JAX_ON_PLUGIN, OURS, XLA, figures, installed, starting, write_report

HERE = Path(__file__).resolve().parent
SIDES = {
    "strict": OURS,
    "fused": OURS,
    "compile": OURS,
    "compile_step": OURS,
    "cpu-eager": {},
    "cpu-inductor": {},
    "xla-eager": XLA,
    "xla-lazy": XLA,
    "jax-plugin": JAX_ON_PLUGIN,
    "jax-cpu": JAX_ON_CPU,
}
RATIOS = (
    *(("compile_step", peer) for peer in ("jax-plugin", "jax-cpu", "xla-lazy", "cpu-eager", "cpu-inductor", "strict")),
    ("compile", "compile_step"),
    ("fused", "xla-lazy"),
    ("fused", "strict"),
    ("strict", "xla-eager"),
    ("strict", "cpu-eager"),
)
# The most that the project promises of these.
TARGETS = {
    "gpt": {
        "compile_step / jax-plugin": 1.05,
        "compile_step / jax-cpu": 1.05,
        "fused / xla-lazy": 0.7,
        "strict / xla-eager": 0.5,
    }
}


def prepare(name: str, folder: Path) -> None:
    """Writes the weights and the batches that every side reads."""
    import numpy as np
    import torch
    from models import MODELS

    torch.manual_seed(0)
    model = MODELS[name].make()
    np.savez(folder / "weights.npz", **{name: p.detach().numpy() for name, p in model.named_parameters()})
    inputs, targets = MODELS[name].batches()
    np.savez(folder / "batches.npz", x=inputs.numpy(), y=targets.numpy())


def check_losses(losses: dict[str, list[float]], tolerance: float) -> float:
    """The largest difference of a side's losses from the first side's; ends the run where it is too large."""
    largest = 0.0
    (first, expected), *others = losses.items()
    for side, found in others:
        difference = max(abs(a - b) for a, b in zip(expected, found, strict=True))
        largest = max(largest, difference)
        if not difference <= tolerance:
            raise SystemExit(f"{side} computes something else than {first}: losses differ by {difference}")
    return largest


def measure(name: str, sides: list[str], rounds: int, steps: int | None) -> dict:
    from models import MODELS

    model = MODELS[name]
    steps = steps or model.steps
    checked: dict[str, dict] = {}
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as temporary, starting(folder := Path(temporary)) as start:
        prepare(name, folder)
        running = []
        for side in sides:
            command = [HERE / "worker.py", name, side, folder, str(model.checked), str(model.warm)]
            running.append(start(side, command, SIDES[side]))
            checked[side] = running[-1].answer()
            print(f"  {side}: first step {checked[side]['first_seconds']:.2f} s", file=sys.stderr, flush=True)
        difference = check_losses({side: r["losses"] for side, r in checked.items()}, model.tolerance)
        for side in running:
            # Steps whose losses nobody reads make other windows of the fused mode than the ones before.
            side.ask(steps)
        for _ in range(rounds):
            for side in running:
                found[side.name].append(side.ask(steps))
    took = {side: [one for one, _ in of_side] for side, of_side in found.items()}
    used = {side: [one for _, one in of_side] for side, of_side in found.items()}
    results = {
        side: {
            **figures(found[side], "ms"),
            "first_step_seconds": checked[side]["first_seconds"],
            "rounds_ms": took[side],
        }
        for side in sides
    }
    return {
        "benchmark": f"{name}_step",
        "title": model.title,
        "rounds": rounds,
        "steps_a_round": steps,
        "load_average": os.getloadavg()[0],
        "losses": checked[sides[0]]["losses"],
        "largest_loss_difference": difference,
        "results": results,
        "ratios": ratios(took),
        "processor_ratios": ratios(used),
        "targets": TARGETS.get(name, {}),
    }


def ratios(times: dict[str, list[float]]) -> dict[str, float]:
    """Each pair's, as the median over the rounds of the ratio within a round."""
    return {
        f"{ours} / {peer}": statistics.median(a / b for a, b in zip(times[ours], times[peer], strict=True))
        for ours, peer in RATIOS
        if ours in times and peer in times
    }


def show(report: dict) -> None:
    print(f"{report['title']} train step, {report['rounds']} rounds of {report['steps_a_round']} steps, ", end="")
    print(f"load average {report['load_average']:.1f} on {os.cpu_count()} cores")
    print(f"losses of the first steps agree to {report['largest_loss_difference']:.1e}")
    for side, r in report["results"].items():
        line = f"median {r['median_ms']:8.2f} ms, fastest {r['fastest_ms']:8.2f}"
        line += f", processors' {r['processor_ms']:8.2f}"
        print(f"  {side:14} {line}, first step {r['first_step_seconds']:6.2f} s")
    print(f"  {'ratios':28} {'time':>7} {'processors':>11}  target")
    for name, value in report["ratios"].items():
        most = report["targets"].get(name)
        target = f"  <= {most}  {'met' if value <= most else 'missed'}" if most else ""
        print(f"  {name:28} {value:7.3f} {report['processor_ratios'][name]:11.3f}{target}")


def main() -> None:
    from models import MODELS

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="gpt")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, help="steps of a round")
    parser.add_argument("--sides", type=lambda text: text.split(","), default=list(SIDES), help=", ".join(SIDES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    if unknown := set(options.sides) - set(SIDES):
        parser.error(f"no side is called {', '.join(sorted(unknown))}; there are {', '.join(SIDES)}")
    sides = installed(options.sides)
    if "cpu-inductor" in sides and not shutil.which("g++"):
        print("cpu-inductor: left out, there is no g++", file=sys.stderr)
        sides.remove("cpu-inductor")
    report = measure(options.model, sides, options.rounds, options.steps)
    show(report)
    write_report(options.json, report)


if __name__ == "__main__":
    main()
