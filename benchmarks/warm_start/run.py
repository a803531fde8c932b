"""What a second process saves: seconds of the first step with an empty cache and with a filled one, in every mode.

    .venv/bin/python benchmarks/warm_start/run.py [--modes strict,fused,compile,compile_step] [--rounds 1] [--json FILE]

Each first step is a process of its own; imports are not counted. The losses of both processes must be equal. Also told:
what another learning rate, seed and data compile, and what a smaller last batch does.
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
MODES = ("strict", "fused", "compile", "compile_step")
OURS = {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}


def first_step(mode: str, folder: Path) -> dict:
    """What first_step.py prints, with this folder as the cache of everything that is kept between processes."""
    env = {
        **os.environ,
        **OURS,
        "TORCH_TPU_CACHE_DIR": str(folder / "programs"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "graphs"),
    }
    done = subprocess.run([sys.executable, HERE / "first_step.py", mode], env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{mode} failed:\n" + "\n".join(done.stderr.splitlines()[-25:]))
    return json.loads(done.stdout.splitlines()[-1])


def measure(mode: str) -> dict:
    """A first process, which fills the cache, and a second one, which finds it filled."""
    with tempfile.TemporaryDirectory() as name:
        cold, warm = (first_step(mode, Path(name)) for _ in range(2))
    if cold["losses"] != warm["losses"]:
        raise SystemExit(f"{mode}: the second process computes something else: {cold['losses']}, {warm['losses']}")
    return {"cold": cold, "warm": warm}


def figures(rounds: list[dict]) -> dict:
    def median(of: str, what: str = "first", figure: str = "seconds") -> float:
        return statistics.median(one[of][what][figure] for one in rounds)

    cold, warm = median("cold"), median("warm")
    return {
        "cold_seconds": cold,
        "warm_seconds": warm,
        "ratio": warm / cold,
        "cold_compile_seconds": median("cold", figure="compile_seconds"),
        "warm_compile_seconds": median("warm", figure="compile_seconds"),
        "cold_programs": median("cold", figure="misses"),
        "warm_programs": median("warm", figure="misses"),
        "programs_from_disk": median("warm", figure="disk_hits"),
        "programs_for_other_numbers": median("cold", "other_numbers", "misses"),
        "seconds_for_other_numbers": median("cold", "other_numbers"),
        "programs_for_last_batch": median("cold", "last_batch", "misses"),
        "programs_for_last_batch_again": median("cold", "last_batch_again", "misses"),
    }


def show(report: dict) -> None:
    print(f"first step of the GPT, imports excluded; load average {report['load_average']:.1f}")
    print(f"  {'mode':13}{'cold':>9}{'warm':>9}{'ratio':>7}{'XLA cold':>10}{'XLA warm':>10}  programs")
    for mode, r in report["results"].items():
        line = f"  {mode:13}{r['cold_seconds']:7.2f} s{r['warm_seconds']:7.2f} s{r['ratio']:7.2f}"
        line += f"{r['cold_compile_seconds']:8.2f} s{r['warm_compile_seconds']:8.2f} s"
        line += f"  {r['cold_programs']:.0f} compiled, then {r['warm_programs']:.0f}"
        line += f"; other numbers {r['programs_for_other_numbers']:.0f} in {r['seconds_for_other_numbers']:.1f} s"
        line += f", last batch {r['programs_for_last_batch']:.0f}, again {r['programs_for_last_batch_again']:.0f}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="pairs of processes; medians are told")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=list(MODES), help=", ".join(MODES))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    if unknown := set(options.modes) - set(MODES):
        parser.error(f"no mode is called {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    runs = {mode: [measure(mode) for _ in range(options.rounds)] for mode in options.modes}
    report = {
        "benchmark": "warm_start",
        "rounds": options.rounds,
        "load_average": os.getloadavg()[0],
        "results": {mode: figures(rounds) for mode, rounds in runs.items()},
        "runs": runs,
    }
    show(report)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
