"""Trains a small GPT on Python's help topics.

.venv/bin/python examples/mingpt/train.py --checkpoint target/examples/mingpt/checkpoint.pt
"""

import math
import sys
from dataclasses import asdict
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.common import Run, option_parser
from examples.mingpt import data
from examples.mingpt.model import GPT, Config

CONFIGS = {
    # Trains on the simulator in less than a minute.
    "tiny": {"context": 64, "layers": 3, "heads": 3, "width": 96},
}
BATCH = 16
LEARNING_RATE = 3e-3
WARM_UP = 20
CLIP = 1.0


def schedule(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """A linear rise, then a cosine down to a tenth."""

    def factor(step: int) -> float:
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        done = (step - WARM_UP) / max(1, steps - WARM_UP)
        return 0.55 + 0.45 * math.cos(math.pi * min(1.0, done))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def main(words: list[str] | None = None) -> dict:
    parser = option_parser("mingpt", "Trains a small GPT on Python's help topics.", steps=300)
    parser.add_argument("--config", choices=CONFIGS, default="tiny", help="the size of the model")
    # A short run sees each part of the text less than once: there is nothing to forget.
    parser.add_argument("--dropout", type=float, default=0.0, help="share of activations dropped in training")
    options = parser.parse_args(words)

    text = data.load()
    config = Config(vocabulary=len(text.characters), dropout=options.dropout, **CONFIGS[options.config])
    run = Run("mingpt", options, unit="tokens", config=asdict(config))
    model = GPT(config).to(run.device)
    optimizer = model.optimizer(LEARNING_RATE)
    scheduler = schedule(optimizer, options.steps)
    run.resume(model=model, optimizer=optimizer, scheduler=scheduler)

    for step in run.steps():
        tokens, targets = text.batch(step, size=BATCH, length=config.context, seed=options.seed)
        tokens, targets = tokens.to(run.device), targets.to(run.device)
        with run.autocast():
            loss = model.loss(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        scheduler.step()
        run.log(loss, tokens.numel())
    parameters = sum(p.numel() for p in model.parameters())
    return run.finish(parameters=parameters, loss_of_guessing=math.log(config.vocabulary))


if __name__ == "__main__":
    main()
