"""The GPT of the benchmarks as an ordinary nn.Module: GPT-2's blocks, an untied head without bias."""

import torch
import torch.nn.functional as F
from sizes import Config
from torch import Tensor, nn


class Block(nn.Module):
    """Causal attention and a perceptron, each added to what comes in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def attention(self, x: Tensor, mask: Tensor) -> Tensor:
        """Softmax in float32, whatever the model's type is."""
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        weights = scores.float().masked_fill(mask, float("-inf")).softmax(dim=-1).to(x.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), mask)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT(nn.Module):
    """Gives the mean loss of predicting each position's next token, in float32."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.length, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.register_buffer("mask", torch.ones(config.length, config.length, dtype=torch.bool).triu(1))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, self.mask)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
