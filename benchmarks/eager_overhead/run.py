"""Microseconds an op for a chain of adds of 256 float32 elements: ours in eager against its peers, in one run.

    .venv/bin/python benchmarks/eager_overhead/run.py [--ops 20000] [--rounds 7] [--json FILE]

Each side is a process of its own, and the rounds go from side to side, so that all see the same machine. The chain's
last value is read. Peers whose environment is not there are left out and named.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from sides import JAX_ON_CPU, OURS, XLA, figures, installed, starting, write_report

HERE = Path(__file__).resolve().parent
# What they are called in the report, their environment, and how many ops of the chain they run a round.
SIDES = {
    "strict": ("tpu strict eager", OURS, 1.0),
    "fused": ("tpu fused eager", OURS, 1.0),
    "cpu-eager": ("cpu torch", {}, 1.0),
    "jax-cpu": ("jax eager", JAX_ON_CPU, 0.25),
    "xla-eager": ("torch_xla eager", XLA, 0.25),
    "xla-lazy": ("torch_xla lazy", XLA, 0.25),
}


def measure(ops: int, rounds: int) -> dict:
    sides = installed(list(SIDES))
    found: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder, starting(Path(folder)) as start:
        running = []
        for side in sides:
            running.append(start(side, [HERE / "worker.py", side], SIDES[side][1]))
            # Imports and first compiles; the others then have the machine for theirs.
            running[-1].ask(1000)
        for _ in range(rounds):
            for side in running:
                found[side.name].append(side.ask(int(ops * SIDES[side.name][2])))
    results = {SIDES[side][0]: figures(of_side, "us") for side, of_side in found.items()}
    ours = results[SIDES["strict"][0]]["median_us"]
    for r in results.values():
        r["ratio_of_ours_to_it"] = ours / r["median_us"]
    return {
        "benchmark": "eager_overhead",
        "load_average": os.getloadavg()[0],
        "results": results,
        "not_installed": sorted(SIDES[side][0] for side in SIDES if side not in sides),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    report = measure(options.ops, options.rounds)
    write_report(options.json, report)
    print(f"chain of {options.ops} adds of 256 float32, {options.rounds} rounds, ", end="")
    print(f"load average {report['load_average']:.1f} on {os.cpu_count()} cores")
    for name, r in report["results"].items():
        line = f"median {r['median_us']:7.2f} us/op, fastest {r['fastest_us']:7.2f}"
        line += f", processors' {r['processor_us']:7.2f}"
        print(f"  {name:18} {line}, strict is {r['ratio_of_ours_to_it']:.2f} of it")


if __name__ == "__main__":
    main()
