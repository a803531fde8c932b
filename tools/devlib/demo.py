"""`tools/dev demo`: trains a small GPT on the simulated v6e, lets it write, and asks the compiler of the v6e."""

import os
import signal
import subprocess
from pathlib import Path

from . import build, envs
from .console import Console, ended_text
from .errors import DevError
from .paths import ROOT, VENV, shown

OUT = ROOT / "target" / "demo"
STEPS = 500
EXAMPLE = ROOT / "examples" / "mingpt"
# A representative program, not the step that was trained: that needs torch_tpu.aot.compile, which is to come.
PROGRAM = ROOT / "docs" / "mlp.mlir"
# An op without a lowering for tpu would quietly run on the CPU: here it is an error.
SIMULATOR = {"TORCH_TPU_PLATFORM": "sim", "TORCH_TPU_FALLBACK": "error"}


def run(console: Console, *, steps: int) -> int:
    build.build(console)
    python = envs.python_of(VENV)
    # The schedule depends on the number of steps, so a run goes on only with the same number.
    checkpoint = OUT / f"checkpoint-{steps}.pt"
    with console.stage(f"train minGPT on the simulated v6e, {steps} steps") as stage:
        words = ["--steps", str(steps), "--checkpoint", checkpoint, "--out", OUT]
        show(console, [python, EXAMPLE / "train.py", *words])
        stage.note(f"loss curve in {shown(OUT / 'loss.png')}")
    with console.stage("let it write"):
        show(console, [python, EXAMPLE / "generate.py", "--checkpoint", checkpoint])
    # The next demo trains afresh.
    checkpoint.unlink()
    with console.stage("ask the compiler of the v6e"):
        console.say(
            f"   The report below is of {shown(PROGRAM)}, the forward pass of an eight-layer perceptron in\n"
            "   bfloat16, not of the step trained above: compiling a PyTorch step for the v6e\n"
            "   (torch_tpu.aot.compile) is not there yet."
        )
        show(console, [python, "-m", "torch_tpu", "aot", shown(PROGRAM)])
    return 0


def show(console: Console, command: list[str | Path]) -> None:
    """Runs a command whose output is for the reader. After Ctrl-C it gets the time to save."""
    words = [str(word) for word in command]
    readable = " ".join(shown(Path(word)) if Path(word).is_absolute() else word for word in words)
    console.say("   $ " + readable)
    environment = {**os.environ, **envs.path_with_venv(), **SIMULATOR}
    # In a session of its own it hears of Ctrl-C from here only, and so just once.
    process = subprocess.Popen(words, cwd=ROOT, env=environment, start_new_session=True)
    interrupted = False
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            interrupted = True
            process.send_signal(signal.SIGINT)
    if interrupted:
        raise KeyboardInterrupt
    if code != 0:
        raise DevError(f"`{readable}` {ended_text(code)}", "its output is above")
