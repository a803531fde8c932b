"""One side's chain of adds, in a process of its own: `python worker.py SIDE`.

For each number of ops on standard input, prints how many microseconds one took and how many of the processors'.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

ELEMENTS = 256
# The lazy mode records without an end: it is told to run each time that so many ops are there.
TOGETHER = 100
WARM = 1000


def torch_chain(side):
    import torch
    from torch_side import begin

    device, after, _, settle = begin(side)
    x = torch.ones(ELEMENTS, device=device)

    def chain(ops):
        y = x
        for _ in range(ops // TOGETHER):
            for _ in range(TOGETHER):
                y = y + x
            after()
        return y.cpu()

    for _ in range(3):
        chain(WARM)
        settle()
    return chain


def jax_chain():
    import jax.numpy as jnp

    x = jnp.ones(ELEMENTS)

    def chain(ops):
        y = x
        for _ in range(ops):
            y = y + x
        return y.block_until_ready()

    chain(WARM)
    return chain


def main():
    side = sys.argv[1]
    answers, sys.stdout = sys.stdout, sys.stderr
    chain = jax_chain() if side.startswith("jax") else torch_chain(side)
    for line in sys.stdin:
        ops = int(line)
        start, used = time.perf_counter(), time.process_time()
        chain(ops)
        took = [(time.perf_counter() - start) / ops * 1e6, (time.process_time() - used) / ops * 1e6]
        print(json.dumps(took), file=answers, flush=True)


if __name__ == "__main__":
    main()
