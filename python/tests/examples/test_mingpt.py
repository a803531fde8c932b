"""The GPT's generation, and the text it learns from."""

import itertools
from pathlib import Path

import pytest
import torch

from examples.mingpt import data, generate, train
from examples.mingpt.model import GPT, Cache, Config

SMALL = Config(vocabulary=11, context=16, layers=2, heads=2, width=16)


@pytest.fixture
def model() -> GPT:
    torch.manual_seed(0)
    return GPT(SMALL).eval()


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@torch.no_grad()
def test_the_cache_changes_nothing(model: GPT, device: str) -> None:
    tokens = torch.randint(SMALL.vocabulary, (3, SMALL.context))
    expected = model(tokens)
    model = model.to(device)
    cache = Cache(SMALL, 3, torch.device(device))
    pieces = []
    # A prompt, then token by token.
    for start, end in itertools.pairwise([0, 5, *range(6, SMALL.context + 1)]):
        position = torch.arange(start, end, device=device)
        pieces.append(model(tokens[:, start:end].to(device), cache=cache, position=position))
    torch.testing.assert_close(torch.cat(pieces, dim=1).cpu(), expected, rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_no_position_sees_what_follows(model: GPT) -> None:
    tokens = torch.randint(SMALL.vocabulary, (1, SMALL.context))
    changed = tokens.clone()
    changed[0, 9:] = (tokens[0, 9:] + 1) % SMALL.vocabulary
    before, after = model(tokens), model(changed)
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert not torch.allclose(before[:, 9:], after[:, 9:])


def test_it_writes_past_its_context(model: GPT) -> None:
    model = model.to("tpu")

    def write(seed: int) -> list[int]:
        torch.manual_seed(seed)
        return list(itertools.islice(generate.generate(model, torch.tensor([1, 2, 3]), top=5), 3 * SMALL.context))

    first = write(0)
    assert len(first) == 3 * SMALL.context
    assert set(first) <= set(range(SMALL.vocabulary))
    assert write(0) == first
    assert write(1) != first


def test_the_output_shares_the_weights_of_the_input_on_tpu(model: GPT) -> None:
    model = model.to("tpu")
    assert model.head.weight is model.tokens.weight


def test_generate_reads_what_train_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = str(tmp_path / "checkpoint.pt")
    train.main(["--steps", "2", "--checkpoint", checkpoint, "--out", str(tmp_path)])
    capsys.readouterr()
    generate.main(["--checkpoint", checkpoint, "--prompt", "The \N{SNOWMAN}if", "--tokens", "5"])
    written = capsys.readouterr().out
    # Characters that the text does not have are left out.
    text, _, figures = written.rpartition("\n\n")
    assert text.startswith("The if")
    assert len(text) == len("The if") + 5
    assert figures.startswith("5 tokens in ")


def test_the_text_is_english_that_python_brings() -> None:
    text = data.load()
    assert len(text.tokens) > 300_000
    assert text.decode(text.encode('The "if" statement').tolist()) == 'The "if" statement'
    tokens, targets = text.batch(7, size=4, length=32, seed=1)
    assert tokens.shape == targets.shape == (4, 32)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
    again, _ = text.batch(7, size=4, length=32, seed=1)
    other, _ = text.batch(8, size=4, length=32, seed=1)
    assert torch.equal(tokens, again)
    assert not torch.equal(tokens, other)
