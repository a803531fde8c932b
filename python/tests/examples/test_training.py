"""The examples train on the simulator as on the CPU, to the accuracy that they state, through interruptions too."""

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import torch_tpu

from examples.mingpt import data as text_data
from examples.mingpt import train as mingpt
from examples.resnet import data as digit_data
from examples.resnet import train as resnet

ROOT = Path(mingpt.__file__).parents[2]
TRAIN = {"mingpt": mingpt.main, "resnet": resnet.main}
# What draws a batch, of which the tests need to know the moment.
BATCHES = {"mingpt": text_data.Text, "resnet": digit_data.Digits}

Train = Callable[..., dict]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Runs a training script and returns its figures."""
    count = itertools.count()

    def run(name: str, *words: object) -> dict:
        out = tmp_path / f"out{next(count)}"
        figures = TRAIN[name](["--out", str(out), *map(str, words)])
        assert json.loads((out / "result.json").read_text())["losses"] == figures["losses"]
        assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
        return figures

    return run


@contextmanager
def one_thread() -> Iterator[None]:
    """CPU torch on one thread, so that its sums do not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", TRAIN)
def test_losses_follow_those_of_the_cpu(train: Train, name: str) -> None:
    ours = train(name, "--device", "tpu", "--steps", 50)
    # How oneDNN cuts a convolution depends on the threads it has, and two cuts part by 1.3e-3 within these 50 steps.
    with one_thread():
        reference = train(name, "--device", "cpu", "--steps", 50)
    assert len(ours["losses"]) == 50
    assert reference["final_loss"] < 0.8 * reference["first_loss"]
    torch.testing.assert_close(ours["losses"], reference["losses"], rtol=1e-3, atol=0)
    assert ours["fallbacks"] == {}


@pytest.mark.parametrize("name", TRAIN)
def test_bfloat16_converges_alike(train: Train, name: str) -> None:
    half, reference = (train(name, "--dtype", dtype, "--steps", 50) for dtype in ("bfloat16", "float32"))
    assert half["losses"] != reference["losses"]
    # By how much the loss fell, which is what training is about, where the losses themselves come near to nothing.
    fell, wanted = (figures["first_loss"] - figures["final_loss"] for figures in (half, reference))
    assert fell == pytest.approx(wanted, rel=0.03)
    assert half["fallbacks"] == {}


def test_resnet_reads_the_digits_that_it_has_not_seen(train: Train) -> None:
    figures = train("resnet")
    assert figures["held_out"] == 360
    assert figures["held_out_accuracy"] >= 0.97
    assert torch_tpu.fallbacks() == {}


@pytest.mark.parametrize(("name", "more"), [("mingpt", ["--dropout", 0.1]), ("resnet", [])])
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(
    train: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, more: list
) -> None:
    words = ["--steps", 24, "--seed", 3, *more]
    whole = train(name, *words)
    words += ["--checkpoint", tmp_path / "checkpoint.pt"]
    draw = BATCHES[name].batch

    def interrupt(self: object, step: int, **how: int) -> tuple[torch.Tensor, torch.Tensor]:
        if step in (6, 13):
            signal.raise_signal(signal.SIGINT)
        return draw(self, step, **how)

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(BATCHES[name], "batch", interrupt)
            with pytest.raises(SystemExit) as ended:
                train(name, *words)
        assert ended.value.code == 130
        # The step in which Ctrl-C came is done: the next interruption is another one.
    resumed = train(name, *words)
    assert resumed["losses"] == whole["losses"]
    assert resumed["steps"] == 24


def test_ctrl_c_in_another_process(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.pt"
    words = ["--device", "cpu", "--steps", "5000", "--checkpoint", checkpoint, "--out", tmp_path]
    command = [sys.executable, ROOT / "examples" / "mingpt" / "train.py", *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment)
    assert process.stderr is not None
    seen = ""
    while "loss" not in seen:
        character = process.stderr.read(1)
        assert character, f"it ended early:\n{seen}"
        seen += character
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 130
    assert f"saved to {checkpoint}; the same command goes on from there" in rest
    assert checkpoint.exists()


def test_a_checkpoint_of_another_run_is_refused(train: Train, tmp_path: Path) -> None:
    words = ["--device", "cpu", "--checkpoint", tmp_path / "checkpoint.pt"]
    train("resnet", *words, "--steps", 2)
    with pytest.raises(SystemExit, match=r"with steps 2 \(now 3\), seed 0 \(now 1\)"):
        train("resnet", *words, "--steps", 3, "--seed", 1)
