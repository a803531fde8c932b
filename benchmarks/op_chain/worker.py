"""One side's chains, in a process of its own: `python worker.py SIDE ELEMENTS`.

For each chain's name on standard input, prints how many milliseconds it took and how many of the processors'. Its
result is read each time (one element of it), which is what ends a window of the fused mode and a graph of the lazy one.
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from torch_side import begin

OPS = 90
# So often a sequence recurs before its fused program is made, in the background.
WARM = 4


def arithmetic(x):
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


def transcendental(x):
    """Bound by computing."""
    y = x
    for _ in range(OPS // 3):
        y = torch.tanh(y)
        y = y * 1.5
        y = y + x
    return y


CHAINS = {"arithmetic": arithmetic, "tanh": transcendental}


def main():
    side, elements = sys.argv[1], int(sys.argv[2])
    answers, sys.stdout = sys.stdout, sys.stderr
    device, after, _, settle = begin(side)
    torch.manual_seed(0)
    here = torch.rand(elements)
    x = here.to(device)
    expected = {name: chain(here) for name, chain in CHAINS.items()}

    def run(chain):
        # The result is held until its element is there: a lazy mode would compute nothing but the element.
        y = chain(x)
        after()
        y[-1].item()
        return y

    for chain in CHAINS.values():
        for _ in range(WARM):
            run(chain)
            settle()
    for line in sys.stdin:
        name = line.strip()
        run(CHAINS[name])
        start, used = time.perf_counter(), time.process_time()
        y = run(CHAINS[name])
        took = [(time.perf_counter() - start) * 1e3, (time.process_time() - used) * 1e3]
        torch.testing.assert_close(y.cpu(), expected[name])
        print(json.dumps(took), file=answers, flush=True)


if __name__ == "__main__":
    main()
