"""Runs the tests that come as lines of JSON on the standard input; answers with a line each.

``python -m worker --list`` prints the names of all tests.
"""

import argparse
import json
import os
import sys
import time
import traceback

os.environ.setdefault("TORCH_TPU_FALLBACK", "error")
os.environ.setdefault("TORCH_TPU_PLATFORM", "sim")

import torch

from . import opcheck


def find(test: str, known: dict) -> tuple:
    """The test of a name like ``sim::op::add::float32``."""
    _, kind, name, dtype = test.split("::")
    return kind, *known[kind, name, dtype]


def run(request: dict, known: dict) -> dict:
    """One test; whatever goes wrong is its result."""
    started = time.monotonic()
    limit, seed = request.get("limit"), request.get("seed", 0)
    kind, op, dtype = find(request["test"], known)
    match kind:
        case "op":
            outcome = opcheck.run_op(op, dtype, limit, seed)
        case "grad" | "gradgrad":
            outcome = opcheck.run_grad(op, dtype, limit, seed, twice=kind == "gradgrad")
        case _:
            outcome = opcheck.run_errors(op, limit, seed)
    return {"test": request["test"], "seconds": time.monotonic() - started, **vars(outcome)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    known = {(kind, name, dtype): (op, d) for kind, name, dtype, op, d in opcheck.pairs()}
    if options.list:
        for kind, name, dtype in known:
            print(f"sim::{kind}::{name}::{dtype}")
        return
    # What an op prints must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = run(request, known)
        except Exception:
            answer = {"test": request["test"], "samples": 0, "failed": 1, "messages": [traceback.format_exc()[-3000:]]}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
