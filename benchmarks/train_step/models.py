"""What the harness trains: for each name a module that gives the loss, its optimizer, and its batches."""

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from gpt import GPT
from sizes import MLP, MLP_WIDTHS, RESNET, RESNET_BLOCKS, RESNET_WIDTH, Config, Pictures
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

BATCHES = 10
Optimizer = torch.optim.Optimizer


class Classifier(nn.Module):
    """Gives the mean loss of a network's logits."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.network(images), labels)


def mlp() -> Classifier:
    layers: list[nn.Module] = [nn.Flatten()]
    before = MLP.channels * MLP.size**2
    for width in MLP_WIDTHS:
        layers += [nn.Linear(before, width), nn.ReLU()]
        before = width
    return Classifier(nn.Sequential(*layers, nn.Linear(before, MLP.classes)))


def resnet() -> Classifier:
    """ResNet-18 with the first layer for small pictures."""
    # Imports torch and nothing of ours, so that torch_xla's environment has all it needs.
    from examples.resnet.model import Config, ResNet

    return Classifier(ResNet(Config(RESNET.channels, RESNET.classes, RESNET_BLOCKS, RESNET_WIDTH)))


def texts() -> tuple[Tensor, Tensor]:
    config = Config()
    text = torch.randint(config.vocabulary, (BATCHES, config.batch, config.length + 1))
    return text[..., :-1], text[..., 1:]


def pictures(of: Pictures) -> tuple[Tensor, Tensor]:
    images = torch.randn(BATCHES, of.batch, of.channels, of.size, of.size)
    return images, torch.randint(of.classes, (BATCHES, of.batch))


def adamw(parameters: Iterable[nn.Parameter]) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3)


def sgd(of: Pictures) -> Callable[[Iterable[nn.Parameter]], Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, of.learning_rate, momentum=of.momentum, weight_decay=of.decay)


@dataclass(frozen=True)
class Model:
    """What one name stands for."""

    title: str
    make: Callable[[], nn.Module]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    # All inputs and all targets, a batch along the first dimension.
    batches: Callable[[], tuple[Tensor, Tensor]]
    # Steps whose losses are compared; those in which torch.compile and background compiles settle; those of a round.
    checked: int = 10
    warm: int = 6
    steps: int = 10
    # Between any two sides' losses, at each of these steps.
    tolerance: float = 1e-4


MODELS = {
    "gpt": Model("GPT", lambda: GPT(Config()), adamw, texts),
    "mlp": Model("MLP", mlp, sgd(MLP), lambda: pictures(MLP)),
    "resnet": Model("ResNet-18", resnet, sgd(RESNET), lambda: pictures(RESNET), checked=3, warm=3, steps=1),
}


def train_step(model: nn.Module, optimizer: Optimizer, *, compiled: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """An ordinary training step; with ``compiled``, the loss and the update are each a compiled graph."""
    loss_of = torch.compile(model) if compiled else model
    update = torch.compile(optimizer.step) if compiled else optimizer.step

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(inputs, targets)
        loss.backward()
        update()
        return loss.detach()

    return step
