"""Text that every Python has: the help topics of the standard library, 460 kB of English about Python."""

from pydoc_data import topics

import torch


class Text:
    """A text as characters, numbered."""

    def __init__(self, text: str) -> None:
        self.characters = "".join(sorted(set(text)))
        self._number = {character: number for number, character in enumerate(self.characters)}
        self.tokens = self.encode(text)

    def encode(self, text: str) -> torch.Tensor:
        """The numbers of the characters; those that the text never had are left out."""
        return torch.tensor([self._number[c] for c in text if c in self._number], dtype=torch.long)

    def decode(self, tokens: list[int]) -> str:
        """The characters of these numbers."""
        return "".join(self.characters[token] for token in tokens)

    def batch(self, step: int, *, size: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Random pieces of the text, and the same moved on by one: what the model is to say.

        The batch depends on nothing but the step and the seed, so a resumed run sees what it would have seen.
        """
        generator = torch.Generator().manual_seed((seed << 32) + step)
        starts = torch.randint(len(self.tokens) - length, (size, 1), generator=generator)
        pieces = self.tokens[starts + torch.arange(length + 1)]
        return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


def load() -> Text:
    """The help topics, in alphabetical order."""
    return Text("\n\n".join(topics.topics[name] for name in sorted(topics.topics)))
