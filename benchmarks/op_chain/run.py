"""Milliseconds for chains of 90 elementwise ops on a million float32: ours, CPU torch and torch_xla, in one run.

    .venv/bin/python benchmarks/op_chain/run.py [--rounds 15] [--elements 1000000] [--json FILE]

Each side is a process of its own, and the rounds go from side to side, so that all see the same machine. Each result is
held against the CPU's.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sides import OURS, XLA, figures, installed, starting, write_report

HERE = Path(__file__).resolve().parent
CHAINS = ("arithmetic", "tanh")
SIDES = {
    "strict": ("tpu strict", OURS),
    "fused": ("tpu fused", OURS),
    "cpu-eager": ("cpu torch", {}),
    "xla-eager": ("torch_xla eager", XLA),
    "xla-lazy": ("torch_xla lazy", XLA),
}


def measure(elements: int, rounds: int) -> dict:
    sides = installed(list(SIDES))
    found: dict[str, dict[str, list[tuple[float, float]]]] = {chain: {side: [] for side in sides} for chain in CHAINS}
    with tempfile.TemporaryDirectory() as folder, starting(Path(folder)) as start:
        running = []
        for side in sides:
            running.append(start(side, [HERE / "worker.py", side, str(elements)], SIDES[side][1]))
            # Imports and first compiles; the others then have the machine for theirs.
            for chain in CHAINS:
                running[-1].ask(chain)
        for chain in CHAINS:
            for _ in range(rounds):
                for side in running:
                    found[chain][side.name].append(side.ask(chain))
    results = {chain: summary(by_side) for chain, by_side in found.items()}
    return {"benchmark": "op_chain", "load_average": os.getloadavg()[0], "results": results}


def summary(by_side: dict[str, list[tuple[float, float]]]) -> dict[str, dict[str, float]]:
    """Milliseconds of each side."""
    made = {SIDES[side][0]: figures(rounds, "ms") for side, rounds in by_side.items()}
    fused = made[SIDES["fused"][0]]["median_ms"]
    for r in made.values():
        r["ratio_of_fused_to_it"] = fused / r["median_ms"]
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    report = measure(options.elements, options.rounds)
    write_report(options.json, report)
    print(f"chains of 90 elementwise ops on {options.elements} float32, {options.rounds} rounds, ", end="")
    print(f"load average {report['load_average']:.1f} on {os.cpu_count()} cores")
    for chain, results in report["results"].items():
        for name, r in results.items():
            line = f"median {r['median_ms']:8.2f} ms, fastest {r['fastest_ms']:8.2f}"
            line += f", processors' {r['processor_ms']:8.2f}"
            print(f"  {chain:11} {name:15} {line}, fused is {r['ratio_of_fused_to_it']:.3f} of it")


if __name__ == "__main__":
    main()
