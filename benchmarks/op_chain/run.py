"""Milliseconds for chains of 90 elementwise ops on a million float32: strict, fused and CPU torch, in one run.

    .venv/bin/python benchmarks/op_chain/run.py [--rounds 15] [--elements 1000000] [--json FILE]

The modes take turns, so that all see the same machine. The result is read each time (one element of it), which is what
ends a fused window.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

OPS = 90
# So often a sequence recurs before its fused program is made, in the background.
WARM_UP = 30


def arithmetic(x: Tensor) -> Tensor:
    """Bound by memory, op by op."""
    y = x
    for _ in range(OPS // 6):
        y = y * 0.99
        y = y + x
        y = torch.relu(y)
        y = y - 0.1
        y = torch.abs(y)
        y = torch.minimum(y, x)
    return y


def transcendental(x: Tensor) -> Tensor:
    """Bound by computing."""
    y = x
    for _ in range(OPS // 3):
        y = torch.tanh(y)
        y = y * 1.5
        y = y + x
    return y


CHAINS = {"arithmetic": arithmetic, "tanh": transcendental}


def seconds(chain: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """One run, until its result can be read."""
    start = time.perf_counter()
    chain(x)[-1].item()
    return time.perf_counter() - start


def measure(chain: Callable[[Tensor], Tensor], elements: int, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each mode."""
    here = torch.rand(elements)
    there = here.to("tpu")
    runs = {"tpu strict": ("strict", there), "tpu fused": ("fused", there), "cpu torch": ("strict", here)}
    found: dict[str, list[float]] = {name: [] for name in runs}
    for mode, x in runs.values():
        torch.tpu.eager_mode(mode)
        for _ in range(WARM_UP if mode == "fused" else 3):
            seconds(chain, x)
    time.sleep(2)
    for _ in range(rounds):
        for name, (mode, x) in runs.items():
            torch.tpu.eager_mode(mode)
            seconds(chain, x)
            found[name].append(seconds(chain, x) * 1e3)
            torch.testing.assert_close(chain(x).cpu(), chain(here))
    torch.tpu.eager_mode("strict")
    fused = statistics.median(found["tpu fused"])
    return {
        name: {
            "median_ms": statistics.median(v),
            "fastest_ms": min(v),
            "ratio_of_fused_to_it": fused / statistics.median(v),
        }
        for name, v in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    report = {name: measure(chain, options.elements, options.rounds) for name, chain in CHAINS.items()}
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"benchmark": "op_chain", "results": report}, indent=1) + "\n")
    print(f"chains of {OPS} elementwise ops on {options.elements} float32, {options.rounds} rounds")
    for chain, results in report.items():
        for name, r in results.items():
            figures = f"median {r['median_ms']:8.2f} ms, fastest {r['fastest_ms']:8.2f}"
            print(f"  {chain:11} {name:11} {figures}, fused is {r['ratio_of_fused_to_it']:.3f} of it")


if __name__ == "__main__":
    main()
