"""Lets a trained GPT write.

.venv/bin/python examples/mingpt/generate.py --checkpoint target/examples/mingpt/checkpoint.pt
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.common import checkpoint
from examples.common.options import positive
from examples.mingpt import data
from examples.mingpt.model import GPT, Cache, Config


@torch.inference_mode()
def generate(model: GPT, prompt: torch.Tensor, *, temperature: float = 0.8, top: int = 20) -> Iterator[int]:
    """Tokens that follow the prompt, without end.

    Every shape stays the same from token to token. A full context goes on from its second half.
    """
    model.eval()
    context, device = model.config.context, model.tokens.weight.device
    seen = prompt.tolist()
    while True:
        tail = seen[-(context // 2) :]
        cache = Cache(model.config, 1, device)
        tokens = torch.tensor([tail], device=device)
        position = torch.arange(len(tail), device=device)
        for _ in range(context - len(tail)):
            logits = model(tokens, cache=cache, position=position)[:, -1]
            best, numbers = torch.topk(logits / temperature, min(top, logits.shape[-1]))
            choice = torch.multinomial(torch.softmax(best, dim=-1), 1)
            tokens, position = numbers.gather(-1, choice), position[-1:] + 1
            seen.append(int(tokens))
            yield seen[-1]


def load(path: Path, device: torch.device) -> GPT:
    """The model of a checkpoint that train.py wrote."""
    saved = checkpoint.read(path)
    model = GPT(Config(**saved["config"]))
    model.load_state_dict(saved["parts"]["model"])
    return model.to(device)


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Lets a trained GPT write.")
    parser.add_argument("--checkpoint", type=Path, required=True, metavar="FILE", help="what train.py saved")
    parser.add_argument("--device", default="tpu")
    parser.add_argument("--prompt", default="The ")
    parser.add_argument("--tokens", type=positive, default=200, help="how many to write (default: %(default)s)")
    parser.add_argument("--temperature", type=float, default=0.8, help="lower is safer (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(words)

    torch.manual_seed(options.seed)
    text = data.load()
    model = load(options.checkpoint, torch.device(options.device))
    prompt = text.encode(options.prompt)
    if len(prompt) == 0:
        parser.error(f"the model knows none of the characters of the prompt {options.prompt!r}")
    print(text.decode(prompt.tolist()), end="", flush=True)
    times = [time.perf_counter()]
    for _, token in zip(range(options.tokens), generate(model, prompt, temperature=options.temperature), strict=False):
        print(text.decode([token]), end="", flush=True)
        times.append(time.perf_counter())
    # The median leaves out the tokens for which programs were compiled.
    each = statistics.median(after - before for before, after in itertools.pairwise(times))
    print(f"\n\n{options.tokens} tokens in {times[-1] - times[0]:.1f} s, {1e3 * each:.1f} ms each once compiled")


if __name__ == "__main__":
    main()
