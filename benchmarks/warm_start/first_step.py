"""A first step, in a process of its own.

    python first_step.py MODE

Trains the GPT of benchmarks/train_step and prints a line of JSON: what the first steps took and what was compiled in
them, then what was compiled for another learning rate, seed and data, and for a smaller last batch. Imports are not
counted: what torch puts off until it first compiles is imported before, by compiling a function for the CPU.
"""

import cProfile
import json
import os
import pstats
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "train_step"))
COUNTED = ("misses", "disk_hits", "disk_writes", "compile_seconds")
# Two captures that are the same end the preparation of compile_step; the third runs no Python of the step.
STEPS = 4


def first_imports():
    """Has torch import what it uses to compile forward, backward and an optimizer."""
    import torch

    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.AdamW([weight])
    loss_of = torch.compile(lambda x: (x * weight).sum(), backend="aot_eager_decomp_partition")
    loss_of(torch.ones(2)).backward()
    torch.compile(optimizer.step, backend="aot_eager_decomp_partition")()
    torch._dynamo.reset()


def training(mode):
    """The step, a loader of batches of so many rows, and the optimizer."""
    import torch
    import torch_tpu
    from gpt import GPT
    from models import train_step
    from sizes import Config

    torch.tpu.eager_mode("fused" if mode == "fused" else "strict")
    torch.manual_seed(0)
    config = Config()
    model = GPT(config).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = train_step(model, optimizer, compiled=mode == "compile")

    def batch(rows=config.batch):
        text = torch.randint(config.vocabulary, (rows, config.length + 1))
        return text[:, :-1].contiguous().to("tpu"), text[:, 1:].contiguous().to("tpu")

    return torch_tpu.compile_step(step) if mode == "compile_step" else step, batch, optimizer


def counted(call):
    """Seconds of a call, and what the cache counted in it."""
    from torch_tpu import _core, cache

    before, start = cache.stats(), time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    # The fused mode compiles on a thread of its own.
    _core.wait_for_fused(300.0)
    now = cache.stats()
    return {"seconds": seconds, **{name: now[name] - before[name] for name in COUNTED}}


def main():
    mode = sys.argv[1]
    # Only the answer goes to standard output.
    answers, sys.stdout = sys.stdout, sys.stderr
    if mode == "compile":
        first_imports()
    import torch

    step, batch, optimizer = training(mode)
    losses, batches = [], [batch() for _ in range(STEPS + 1)]
    torch.tpu.synchronize()

    def run(data):
        losses.append(step(*data).item())

    profile = cProfile.Profile()
    if os.environ.get("WARM_START_PROFILE"):
        first = counted(lambda: profile.runcall(run, batches[0]))
        pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(45).sort_stats(
            "cumtime"
        ).print_stats(90)
    else:
        first = counted(lambda: run(batches[0]))
    later = [counted(lambda data=data: run(data)) for data in batches[1:STEPS]]

    def changed():
        for group in optimizer.param_groups:
            group["lr"] = 3e-4
        torch.manual_seed(7)
        run(batches[-1])

    report = {
        "first": first,
        "later": later,
        "other_numbers": counted(changed),
        "last_batch": counted(lambda: run(batch(rows=3))),
        "last_batch_again": counted(lambda: run(batch(rows=3))),
        "losses": losses,
    }
    print(json.dumps(report), file=answers, flush=True)


if __name__ == "__main__":
    main()
