"""The options that every training script has."""

import argparse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ("float32", "bfloat16")


def option_parser(name: str, description: str, *, steps: int) -> argparse.ArgumentParser:
    """A parser with the common options; `name` is also the folder of the results."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--device", default="tpu", help="where to train: tpu, cpu, cuda, ...")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="bfloat16 trains under torch.autocast")
    parser.add_argument("--steps", type=positive, default=steps, help="in all, with those before a resume")
    parser.add_argument("--seed", type=int, default=0, help="of the weights, the data's order and dropout")
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="resume from this file if it is there; save there"
    )
    out = ROOT / "target" / "examples" / name
    parser.add_argument("--out", type=Path, metavar="DIR", default=out, help="for result.json and loss.png")
    return parser


def positive(text: str) -> int:
    """A whole number from 1 up."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not a positive number")
    return value
