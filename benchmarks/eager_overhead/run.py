"""Microseconds an op for a chain of adds of 256 float32 elements: strict eager against its peers, in one run.

    .venv/bin/python benchmarks/eager_overhead/run.py [--ops 20000] [--rounds 7] [--json FILE]

Peers that are not installed in this interpreter are left out and named; `--peer-python PATH` runs torch_xla and JAX in
another environment (`.venv-jax/bin/python` has JAX), between the rounds of ours, so that all see the same machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

TORCH = """
import time, torch
def chain(device, ops):
    x = torch.ones(256, device=device); y = x
    for _ in range(200): y = y + x
    start = time.perf_counter()
    for _ in range(ops): y = y + x
    return (time.perf_counter() - start) / ops * 1e6
"""

PEERS = {
    "jax eager": """
import time, jax, jax.numpy as jnp
def chain(ops):
    x = jnp.ones(256); y = x
    for _ in range(200): y = y + x
    y.block_until_ready(); start = time.perf_counter()
    for _ in range(ops): y = y + x
    y.block_until_ready(); return (time.perf_counter() - start) / ops * 1e6
print(chain({ops}))
""",
    "torch_xla eager": """
import time, torch, torch_xla, torch_xla.core.xla_model as xm
torch_xla.experimental.eager_mode(True)
def chain(ops):
    d = xm.xla_device(); x = torch.ones(256, device=d); y = x
    for _ in range(200): y = y + x
    start = time.perf_counter()
    for _ in range(ops): y = y + x
    return (time.perf_counter() - start) / ops * 1e6
print(chain({ops}))
""",
}


def peer(python: str, program: str, ops: int) -> float | None:
    """A peer's figure, or None where it does not run."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "JAX_PLATFORMS": "cpu",
        "PJRT_DEVICE": "CPU",
    }
    done = subprocess.run(
        [python, "-c", program.replace("{ops}", str(ops))], capture_output=True, text=True, env=environment, check=False
    )
    try:
        return float(done.stdout.split()[-1])
    except (IndexError, ValueError):
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    options = parser.parse_args()
    space: dict = {}
    exec(TORCH, space)
    chain = space["chain"]
    found: dict[str, list[float]] = {"tpu strict eager": [], "cpu torch": []}
    missing = set()
    for _ in range(options.rounds):
        found["tpu strict eager"].append(chain("tpu", options.ops))
        found["cpu torch"].append(chain("cpu", options.ops))
        for name, program in PEERS.items():
            if name in missing:
                continue
            value = peer(options.peer_python, program, options.ops // 4)
            if value is None:
                missing.add(name)
            else:
                found.setdefault(name, []).append(value)
    ours = statistics.median(found["tpu strict eager"])
    result = {
        name: {
            "median_us": statistics.median(v),
            "fastest_us": min(v),
            "ratio_of_ours_to_it": ours / statistics.median(v),
        }
        for name, v in found.items()
    }
    if options.json:
        report = {"benchmark": "eager_overhead", "results": result, "not_installed": sorted(missing)}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"chain of {options.ops} adds of 256 float32, {options.rounds} rounds")
    for name, r in result.items():
        figures = f"median {r['median_us']:7.2f} us/op, fastest {r['fastest_us']:7.2f}"
        print(f"  {name:18} {figures}, ours is {r['ratio_of_ours_to_it']:.2f} of it")
    for name in sorted(missing):
        print(f"  {name:18} not installed in {options.peer_python}")


if __name__ == "__main__":
    main()
