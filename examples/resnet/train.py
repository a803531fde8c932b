"""Trains a 20-layer residual network to read handwritten digits.

.venv/bin/python examples/resnet/train.py
"""

import math
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.common import Run, option_parser
from examples.resnet import data
from examples.resnet.model import Config, ResNet

CONFIGS = {
    # The ResNet-20 of the paper, made for small pictures; trains on the simulator in about a minute.
    "tiny": Config(channels=1, classes=data.CLASSES, blocks=(3, 3, 3), width=16),
}
BATCH = 64
LEARNING_RATE = 0.05
# Until the network has settled, large steps magnify rounding: float32 on the CPU then leaves float64 by per cents.
WARM_UP = 100


def schedule(optimizer: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """A linear rise, then a cosine down to nothing."""

    def factor(step: int) -> float:
        if step < WARM_UP:
            return (step + 1) / WARM_UP
        return 0.5 + 0.5 * math.cos(math.pi * min(1.0, (step - WARM_UP) / max(1, steps - WARM_UP)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@torch.no_grad()
def accuracy(model: ResNet, digits: data.Digits, device: torch.device) -> float:
    """The share of digits that the network reads right."""
    model.eval()
    right = model(digits.images.to(device)).argmax(dim=1) == digits.labels.to(device)
    model.train()
    return right.float().mean().item()


def main(words: list[str] | None = None) -> dict:
    parser = option_parser("resnet", "Trains a 20-layer residual network to read handwritten digits.", steps=300)
    parser.add_argument("--config", choices=CONFIGS, default="tiny", help="the size of the network")
    options = parser.parse_args(words)

    learn, judge = data.load()
    config = CONFIGS[options.config]
    run = Run("resnet", options, unit="samples", config=asdict(config))
    model = ResNet(config).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), LEARNING_RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scheduler = schedule(optimizer, options.steps)
    run.resume(model=model, optimizer=optimizer, scheduler=scheduler)

    for step in run.steps():
        images, labels = learn.batch(step, size=BATCH, seed=options.seed)
        images, labels = images.to(run.device), labels.to(run.device)
        with run.autocast():
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        run.log(loss, len(labels))
    return run.finish(
        parameters=sum(p.numel() for p in model.parameters()),
        held_out=len(judge.labels),
        held_out_accuracy=accuracy(model, judge, run.device),
    )


if __name__ == "__main__":
    main()
