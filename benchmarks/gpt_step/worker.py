"""One side of the comparison, in a process of its own.

    python worker.py SIDE FOLDER

Reads the weights and batches that run.py wrote into FOLDER, trains CHECKED steps and prints their losses as a line of
JSON; then, for each number of steps on standard input, runs so many and prints how many milliseconds one took and how
many of the processors'. The latter say more on a machine that is shared with others.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

CHECKED = 10
# torch.compile and the fused mode's background compiles settle in these.
WARM = 6


def torch_side(side, folder):
    """A function that runs one step on the batch of this number, and one that waits for a loss."""
    import torch
    from model import GPT, train_step
    from sizes import Config

    if side.startswith("cpu"):
        device = "cpu"
    else:
        import torch_tpu

        device = "tpu"
        torch.tpu.eager_mode("fused" if side == "fused" else "strict")
    model = GPT(Config())
    model.load_state_dict({k: torch.from_numpy(v) for k, v in np.load(folder / "weights.npz").items()}, strict=False)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = [tuple(torch.from_numpy(b).to(device) for b in pair) for pair in np.load(folder / "batches.npy")]
    step = train_step(model, optimizer, compiled=side in ("compile", "cpu-inductor"))

    if side == "compile_step":
        step = torch_tpu.compile_step(step)
    return lambda number: step(*batches[number % len(batches)]), lambda loss: loss.item()


def jax_side(folder):
    import jax
    from jax_step import allow_donation, first_state, parameters_of, train_step
    from sizes import Config

    allow_donation(jax.default_backend())
    state = first_state(parameters_of(np.load(folder / "weights.npz")))
    step = train_step(Config())
    batches = [tuple(jax.device_put(b.astype(np.int32)) for b in pair) for pair in np.load(folder / "batches.npy")]

    def run(number):
        nonlocal state
        before = state
        state, loss = step(before, *batches[number % len(batches)])
        if number == 0:
            assert all(old.is_deleted() for old in before[0].values()), "the state was not donated"
        return loss

    return run, lambda loss: float(loss)


def main():
    side, folder = sys.argv[1], Path(sys.argv[2])
    # Only the answers go to standard output.
    answers, sys.stdout = sys.stdout, sys.stderr
    run, value = jax_side(folder) if side.startswith("jax") else torch_side(side, folder)
    start = time.perf_counter()
    losses = [value(run(0))]
    first = time.perf_counter() - start
    losses += [value(run(number)) for number in range(1, CHECKED)]
    number = CHECKED
    for _ in range(WARM):
        value(run(number))
        number += 1
    print(json.dumps({"losses": losses, "first_seconds": first}), file=answers, flush=True)
    for line in sys.stdin:
        count = int(line)
        start, used = time.perf_counter(), time.process_time()
        for _ in range(count):
            loss = run(number)
            number += 1
        value(loss)
        took = [(time.perf_counter() - start) / count * 1e3, (time.process_time() - used) / count * 1e3]
        print(json.dumps(took), file=answers, flush=True)


if __name__ == "__main__":
    main()
