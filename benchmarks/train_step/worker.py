"""One side of the comparison, in a process of its own.

    python worker.py MODEL SIDE FOLDER CHECKED WARM

Reads the weights and batches that run.py wrote into FOLDER, trains the checked steps and prints their losses as a line
of JSON; then, for each number of steps on standard input, runs so many and prints how many milliseconds one took and
how many of the processors'. The latter say more on a machine that is shared with others.
"""

import importlib
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np


def torch_side(name, side, folder):
    """Runs a step on the batch of a number, waits for a loss, for all that runs, for compiles: four functions."""
    import torch
    from models import MODELS, train_step
    from torch_side import begin

    device, after, finish, settle = begin(side)
    model = MODELS[name].make()
    model.load_state_dict({k: torch.from_numpy(v) for k, v in np.load(folder / "weights.npz").items()}, strict=False)
    model = model.to(device)
    optimizer = MODELS[name].optimizer(model.parameters())
    data = np.load(folder / "batches.npz")
    batches = [tuple(torch.from_numpy(b).to(device) for b in pair) for pair in zip(data["x"], data["y"], strict=True)]
    step = train_step(model, optimizer, compiled=side in ("compile", "cpu-inductor"))
    after()

    if side == "compile_step":
        import torch_tpu

        step = torch_tpu.compile_step(step)

    def run(number):
        loss = step(*batches[number % len(batches)])
        after()
        return loss

    return run, lambda loss: loss.item(), finish, settle


def jax_side(name, folder):
    import jax
    from jax_common import allow_donation

    model = importlib.import_module(f"jax_{name}")
    allow_donation(jax.default_backend())
    state = model.first_state(np.load(folder / "weights.npz"))
    step = model.train_step()
    data = np.load(folder / "batches.npz")
    inputs, targets = (of.astype(np.int32) if of.dtype == np.int64 else of for of in (data["x"], data["y"]))
    batches = [tuple(jax.device_put(b) for b in pair) for pair in zip(inputs, targets, strict=True)]

    def run(number):
        nonlocal state
        before = state
        state, loss = step(before, *batches[number % len(batches)])
        if number == 0:
            assert all(old.is_deleted() for old in before[0].values()), "the state was not donated"
        return loss

    return run, lambda loss: float(loss), lambda: jax.block_until_ready(state), lambda: None


def main():
    name, side, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    checked, warm = int(sys.argv[4]), int(sys.argv[5])
    # Only the answers go to standard output.
    answers, sys.stdout = sys.stdout, sys.stderr
    made = jax_side(name, folder) if side.startswith("jax") else torch_side(name, side, folder)
    run, value, finish, settle = made
    start = time.perf_counter()
    losses = [value(run(0))]
    first = time.perf_counter() - start
    losses += [value(run(number)) for number in range(1, checked)]
    number = checked
    for _ in range(warm):
        value(run(number))
        settle()
        number += 1
    finish()
    print(json.dumps({"losses": losses, "first_seconds": first}), file=answers, flush=True)
    for line in sys.stdin:
        count = int(line)
        start, used = time.perf_counter(), time.process_time()
        for _ in range(count):
            loss = run(number)
            number += 1
        value(loss)
        # A loss may be there long before the step's gradients and updates are.
        finish()
        took = [(time.perf_counter() - start) / count * 1e3, (time.process_time() - used) / count * 1e3]
        settle()
        print(json.dumps(took), file=answers, flush=True)


if __name__ == "__main__":
    main()
