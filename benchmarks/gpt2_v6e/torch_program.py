"""Writes the StableHLO of the GPT-2 train step of an ordinary nn.Module and AdamW, as torch_tpu.compile_step makes it.

    python torch_program.py FILE

The simulator runs the step once, since a program is recorded when it runs: that takes a minute and 10 GB of memory.
"""

import os
import sys
from pathlib import Path

os.environ |= {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpt_step"))

import torch
import torch_tpu
from model import GPT
from sizes import GPT2
from torch_tpu import _core


def main() -> None:
    torch.manual_seed(0)
    model = GPT(GPT2).to(torch.bfloat16).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    # The states exist from the second step on. A step of no gradient makes them, and spares a run of the whole model.
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()

    @torch_tpu.compile_step
    def step(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    text = torch.randint(GPT2.vocabulary, (GPT2.batch, GPT2.length + 1)).to("tpu")
    tokens, targets = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    torch.tpu.synchronize()
    _core.record_programs(True)
    step(tokens, targets)
    programs = _core.take_programs()
    if len(programs) != 1:
        raise SystemExit(f"the step ran as {len(programs)} programs, not as one")
    Path(sys.argv[1]).write_text(programs[0])


if __name__ == "__main__":
    main()
