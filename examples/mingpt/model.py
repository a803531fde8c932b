"""GPT-2's architecture: learned positions, norm before each block, GELU, tied embedding."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The size of a model."""

    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    dropout: float = 0.1


class Cache:
    """Keys and values of the positions seen so far, in tensors of a fixed shape."""

    def __init__(self, config: Config, batch: int, device: torch.device, dtype: torch.dtype = torch.float32) -> None:
        shape = (config.layers, batch, config.heads, config.context, config.width // config.heads)
        self._keys = torch.zeros(shape, device=device, dtype=dtype).unbind()
        self._values = torch.zeros(shape, device=device, dtype=dtype).unbind()

    def update(self, layer: int, position: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Puts the keys and values of these positions in, and returns those of the whole context."""
        return (
            self._keys[layer].index_copy_(2, position, keys),
            self._values[layer].index_copy_(2, position, values),
        )


class Attention(nn.Module):
    """Causal self-attention of several heads."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor, cache: Cache | None, position: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind()
        if cache is None:
            dropout = self.dropout if self.training else 0.0
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        else:
            k, v = cache.update(self.layer, position, k, v)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each added to what comes in."""

    def __init__(self, config: Config, layer: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config, layer)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: Cache | None, position: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), cache, position, mask))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class GPT(nn.Module):
    """Predicts, at each position, the token that follows."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self._initialize)
        # Each block adds to the stream twice; this keeps its variance that of the embedding.
        for block in self.blocks:
            for layer in (block.attention.out, block.down):
                nn.init.normal_(layer.weight, std=0.02 / (2 * config.layers) ** 0.5)

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, *, cache: Cache | None = None, position: Tensor | None = None) -> Tensor:
        """The logits at each position. With a cache, `position` says where the tokens stand."""
        if position is None:
            position = torch.arange(tokens.shape[1], device=tokens.device)
        mask = None
        if cache is not None:
            mask = torch.arange(self.config.context, device=tokens.device) <= position[:, None]
        x = self.dropout(self.tokens(tokens) + self.positions(position))
        for block in self.blocks:
            x = block(x, cache, position, mask)
        return self.head(self.norm(x))

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """The mean cross-entropy of the targets, in nats a token."""
        return F.cross_entropy(self(tokens).flatten(0, 1), targets.flatten())

    def optimizer(self, lr: float, weight_decay: float = 0.1) -> torch.optim.AdamW:
        """AdamW that decays matrices, but not biases, norms and embeddings' scale."""
        groups = [
            {"params": [p for p in self.parameters() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in self.parameters() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.95))
