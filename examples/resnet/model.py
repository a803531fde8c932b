"""ResNet with basic blocks, after He et al. 2015.

The first layer is the one they used for CIFAR: it suits pictures of a few pixels.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The size of a network: blocks in each stage, and the channels of the first one."""

    channels: int
    classes: int
    blocks: tuple[int, ...]
    width: int


class BasicBlock(nn.Module):
    """Two convolutions, added to what comes in."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, width, 1, stride=stride, bias=False),
                nn.BatchNorm2d(width),
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return F.relu(y + self.shortcut(x))


class ResNet(nn.Module):
    """Stages of blocks; each stage after the first halves the picture and doubles the channels."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(config.channels, config.width, 3, padding=1, bias=False),
            nn.BatchNorm2d(config.width),
            nn.ReLU(),
        )
        blocks = []
        channels = config.width
        for stage, count in enumerate(config.blocks):
            width = config.width * 2**stage
            for number in range(count):
                blocks.append(BasicBlock(channels, width, stride=2 if stage > 0 and number == 0 else 1))
                channels = width
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, config.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        # Each block starts as the identity, which makes deep networks learn from the first step.
        for block in blocks:
            nn.init.zeros_(block.norm2.weight)

    def forward(self, x: Tensor) -> Tensor:
        """The logits of the classes."""
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))
