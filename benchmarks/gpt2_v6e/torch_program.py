"""Writes the StableHLO of the GPT-2 train step of an ordinary nn.Module and AdamW, as torch_tpu.compile_step makes it.

    python torch_program.py FILE

It is the program from the second step on, when the optimizer has its states. Nothing runs.
"""

import os
import sys
from pathlib import Path

os.environ |= {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train_step"))

import torch
import torch_tpu
from gpt import GPT
from sizes import GPT2


def main() -> None:
    model = GPT(GPT2).to(torch.bfloat16).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    @torch_tpu.compile_step
    def step(tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = model(tokens, targets)
        loss.backward()
        optimizer.step()
        # Gradients that are there after the step are results of it, and JAX's step has none.
        optimizer.zero_grad()
        return loss.detach()

    batch = torch.empty(GPT2.batch, GPT2.length, dtype=torch.int64, device="meta")
    Path(sys.argv[1]).write_text(torch_tpu.aot.program(step, (batch, torch.empty_like(batch))))


if __name__ == "__main__":
    main()
