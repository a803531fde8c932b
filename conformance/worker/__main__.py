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
if os.environ["TORCH_TPU_PLATFORM"] == "sim":
    # A test's time is its programs' compilation: without LLVM's optimizations and XLA's MLIR emitters a third of it.
    # What is tested is the program; how XLA makes code for this processor is not ours.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false")

import torch

from . import compare, compiledcheck, modulecheck, opcheck, optimcheck, planted, ways

# Kinds that the sim runs, in the order of the list.
SOURCES = (opcheck, compiledcheck, modulecheck, optimcheck)


def run(request: dict, known: dict) -> dict:
    """One test; whatever goes wrong is its result."""
    started = time.monotonic()
    target, kind, name, dtype_name = request["test"].split("::")
    limit, seed = request.get("limit"), request.get("seed", 0)
    if (kind, name, dtype_name) not in known:
        raise LookupError(f"no entry of torch's databases makes the test {request['test']}")
    entry, dtype = known[kind, name, dtype_name]
    planted.strike(request["test"])
    if kind in ("op", "grad", "gradgrad", "error"):
        # Before the test: what it leaves behind must not change the answer.
        how = ways.of(entry, dtype, limit, seed) if kind == "op" and target != "v6e" else ""
    else:
        how = ""
    compiled = target == "v6e"
    rules = compare.rules(request.get("bound"), compared=not compiled)
    with rules, ways.programs(compiled) as programs, planted.wrong_axis():
        if kind == "op":
            outcome = opcheck.run_op(entry, dtype, limit, seed, brief=request.get("brief", False))
        else:
            outcome = _outcome(kind, entry, dtype, limit, seed)
    seconds = time.monotonic() - started
    return {"test": request["test"], "seconds": seconds, "how": how, "programs": programs, **vars(outcome)}


def _outcome(kind: str, entry: object, dtype: torch.dtype, limit: int | None, seed: int) -> opcheck.Outcome:
    match kind:
        case "grad" | "gradgrad":
            return opcheck.run_grad(entry, dtype, limit, seed, twice=kind == "gradgrad")
        case "error":
            return opcheck.run_errors(entry, limit, seed)
        case "compiled":
            return compiledcheck.run(entry, dtype, limit, seed)
        case "module":
            return modulecheck.run(entry, dtype, limit, seed)
        case _:
            return optimcheck.run(entry, dtype, limit, seed)


def main() -> None:
    """Serves until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    known = {(kind, name, dtype): (entry, d) for s in SOURCES for kind, name, dtype, entry, d in s.pairs()}
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
        if request.get("ready"):
            answers.write("{}\n")
            continue
        try:
            answer = run(request, known)
        except Exception:
            answer = {"test": request["test"], "samples": 0, "failed": 1, "messages": [traceback.format_exc()[-3000:]]}
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
