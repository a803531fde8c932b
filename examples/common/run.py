"""A training run: steps with a progress bar, checkpoints, and the figures at the end."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import torch
from tqdm import tqdm

from examples.common import checkpoint
from examples.common.plot import loss_curve

# Reading a loss waits for the device, so several are read at once.
READ_EVERY = 10
# A run that is killed loses at most this much.
SAVE_SECONDS = 60.0


class Run:
    """One training run.

    The script keeps its own loop; this class counts, shows, saves and resumes:

        run = Run("mingpt", options, unit="tokens", config=asdict(config))
        run.resume(model=model, optimizer=optimizer)
        for step in run.steps():
            with run.autocast():
                loss = model(*batch(step))
            ...
            run.log(loss, tokens)
        run.finish()
    """

    def __init__(self, name: str, options: argparse.Namespace, *, unit: str, config: Mapping[str, Any]) -> None:
        self.name = name
        self.options = options
        self.unit = unit
        self.config = dict(config)
        self.device = torch.device(options.device)
        self.losses: list[float] = []
        self._parts: dict[str, checkpoint.Stateful] = {}
        self._unread: list[torch.Tensor] = []
        self._interrupted = False
        self._clock = Clock()
        torch.manual_seed(options.seed)

    def resume(self, **parts: checkpoint.Stateful) -> None:
        """Names what a checkpoint holds, and goes on from it if it is there."""
        self._parts = parts
        path = self.options.checkpoint
        if path is None or not path.exists():
            return
        saved = checkpoint.read(path)
        differ = [
            f"{name} {saved['facts'].get(name)} (now {value})"
            for name, value in self._facts().items()
            if saved["facts"].get(name) != value
        ]
        if differ:
            sys.exit(
                f"{path} is a checkpoint of another run, with {', '.join(differ)}.\n"
                "Give the same options as then, or another --checkpoint."
            )
        checkpoint.restore(saved, parts, self.device)
        self.losses = saved["losses"]
        print(f"resumed from {path} at step {len(self.losses)}", file=sys.stderr)

    def autocast(self) -> AbstractContextManager[None]:
        """The forward pass runs in here."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.options.dtype == "bfloat16")

    def steps(self) -> Iterator[int]:
        """The numbers of the steps still to do. Ctrl-C ends the run after the current step, with a checkpoint."""
        start = len(self.losses)
        last_save = time.monotonic()
        with self._bar(start) as bar, self._stops_at_step():
            self._clock.start()
            for step in range(start, self.options.steps):
                yield step
                if len(self._unread) == READ_EVERY or step == start:
                    self._read(bar)
                    if time.monotonic() - last_save > SAVE_SECONDS:
                        self._save()
                        last_save = time.monotonic()
                if self._interrupted:
                    break
            self._read(bar)
        self._save()
        if self._interrupted:
            self._say_interrupted()
            raise SystemExit(128 + signal.SIGINT)

    def log(self, loss: torch.Tensor, count: int) -> None:
        """Notes the loss of a step that worked on so many tokens or samples."""
        self._unread.append(loss.detach())
        self._clock.count += count

    def finish(self, **figures: Any) -> dict[str, Any]:
        """Writes result.json and loss.png, prints the figures and returns them."""
        result = {
            "name": self.name,
            "device": str(self.device),
            "device_name": device_name(self.device),
            "torch": torch.__version__,
            "dtype": self.options.dtype,
            "seed": self.options.seed,
            "steps": len(self.losses),
            "config": self.config,
            "first_loss": self.losses[0],
            "final_loss": sum(self.losses[-READ_EVERY:]) / len(self.losses[-READ_EVERY:]),
            **self._clock.figures(self.unit),
            **figures,
            "fallbacks": fallbacks(self.device),
            "losses": self.losses,
        }
        out = self.options.out
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
        loss_curve(out / "loss.png", self.losses, f"{self.name} on {result['device_name']}, {self.options.dtype}")
        for key, value in result.items():
            if key not in ("config", "losses"):
                print(f"{key:>24}  {value:.4g}" if isinstance(value, float) else f"{key:>24}  {value}")
        print(f"figures in {out / 'result.json'}, loss curve in {out / 'loss.png'}")
        return result

    def _bar(self, start: int) -> tqdm:
        # A log file gets a line now and then, not ten a second.
        interval = 0.1 if sys.stderr.isatty() else 10.0
        return tqdm(total=self.options.steps, initial=start, desc=self.name, unit="step", mininterval=interval)

    def _read(self, bar: tqdm) -> None:
        if not self._unread:
            return
        read = torch.stack(self._unread).tolist()
        self._unread.clear()
        self.losses += read
        self._clock.read(len(read))
        bar.set_postfix_str(f"loss {self.losses[-1]:.3f}, {self._clock.rate():,.0f} {self.unit}/s", refresh=False)
        bar.update(len(read))

    def _save(self) -> None:
        if self.options.checkpoint is not None:
            record = {"config": self.config, "facts": self._facts(), "losses": self.losses}
            checkpoint.save(self.options.checkpoint, self._parts, self.device, **record)

    def _facts(self) -> dict[str, Any]:
        """What a run must share with its checkpoint for the loss curve to be one."""
        options = self.options
        return {**self.config, "steps": options.steps, "seed": options.seed, "dtype": options.dtype}

    @contextmanager
    def _stops_at_step(self) -> Iterator[None]:
        """The first Ctrl-C asks the loop to stop, the second one interrupts whatever runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(signum: int, _frame: FrameType | None) -> None:
            self._interrupted = True
            signal.signal(signum, before)

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _say_interrupted(self) -> None:
        path = self.options.checkpoint
        how = f"saved to {path}; the same command goes on from there" if path else "not saved: there is no --checkpoint"
        print(f"interrupted after step {len(self.losses)}: {how}", file=sys.stderr)


class Clock:
    """Throughput without the first step, in which programs are compiled."""

    def __init__(self) -> None:
        self.count = 0
        self._start = 0.0
        self._first: float | None = None
        self._steps = 0
        self._warm = 0
        self._end = 0.0

    def start(self) -> None:
        self._start = time.perf_counter()

    def read(self, steps: int) -> None:
        """All steps up to now are done."""
        self._end = time.perf_counter()
        if self._first is None:
            self._first, self._warm = self._end, self.count
        else:
            self._steps += steps

    def rate(self) -> float:
        """Units a second after the first step."""
        if self._first is None or self._end <= self._first:
            return 0.0
        return (self.count - self._warm) / (self._end - self._first)

    def figures(self, unit: str) -> dict[str, float | None]:
        """For the result; None when the run had at most one step to do."""
        if self._first is None or self._steps == 0:
            return {"first_step_seconds": None, "step_milliseconds": None, f"{unit}_per_second": None}
        return {
            "first_step_seconds": self._first - self._start,
            "step_milliseconds": 1e3 * (self._end - self._first) / self._steps,
            f"{unit}_per_second": self.rate(),
        }


def device_name(device: torch.device) -> str:
    """What a reader should know the figures of."""
    if device.type == "cpu":
        return "CPU"
    module = torch.get_device_module(device)
    simulated = getattr(module.get_device_properties(device), "simulated", False)
    return module.get_device_name(device) + (", simulated" if simulated else "")


def fallbacks(device: torch.device) -> Any:
    """The ops that ran on the CPU instead."""
    if device.type != "tpu":
        return None
    import torch_tpu

    return torch_tpu.fallbacks()
