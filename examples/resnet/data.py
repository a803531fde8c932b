"""The digits that scikit-learn ships: 1797 handwritten numerals, 8 by 8 pixels of 17 shades."""

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor

CLASSES = 10
HELD_OUT = 360


@dataclass(frozen=True)
class Digits:
    """Pictures of shape (count, 1, 8, 8) and which digit each of them is."""

    images: Tensor
    labels: Tensor

    def batch(self, step: int, *, size: int, seed: int) -> tuple[Tensor, Tensor]:
        """The batch of a step: each epoch goes once through the pictures in an order of its own.

        It depends on nothing but the step and the seed, so a resumed run sees what it would have seen.
        """
        epoch, number = divmod(step, len(self.labels) // size)
        generator = torch.Generator().manual_seed((seed << 32) + epoch)
        chosen = torch.randperm(len(self.labels), generator=generator)[number * size : (number + 1) * size]
        return self.images[chosen], self.labels[chosen]


def load() -> tuple[Digits, Digits]:
    """Pictures to learn from, and others to be judged by: each digit has its share in both."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1)
    images = (images - images.mean()) / images.std()
    labels = torch.from_numpy(digits.target).long()
    numbers = range(len(labels))
    learn, judge = train_test_split(numbers, test_size=HELD_OUT, random_state=0, stratify=labels.numpy())
    return Digits(images[learn], labels[learn]), Digits(images[judge], labels[judge])
