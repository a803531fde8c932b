"""Stages with times, and commands whose output goes to a log while one line shows the progress."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from .errors import DevError
from .paths import ROOT, log_dir, shown

# Without a terminal (CI), a long command says this often that it is alive.
HEARTBEAT_SECONDS = 30.0
TAIL_LINES = 25
LINE_WIDTH = 600
# What a failed build script tells cargo: hundreds of lines that hide the reason.
_NOISE = "cargo:rerun-if-"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Stage:
    """One named step of a command."""

    name: str
    seconds: float = 0.0
    ok: bool = False
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


def seconds_text(seconds: float) -> str:
    """Short for a reader: 0.4 s, 12 s, 3 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


class Console:
    """Prints stages and keeps their times."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.stages: list[Stage] = []
        self.verbose = verbose
        self.tty = sys.stdout.isatty()

    def say(self, text: str) -> None:
        self._clear()
        print(text, flush=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        stage = Stage(name)
        self.stages.append(stage)
        self.say(f"== {name}")
        start = time.monotonic()
        try:
            yield stage
            stage.ok = True
        finally:
            stage.seconds = time.monotonic() - start
            notes = f": {'; '.join(stage.notes)}" if stage.notes else ""
            verdict = "ok" if stage.ok else "FAILED"
            self.say(f"   {verdict} {name} ({seconds_text(stage.seconds)}){notes}")

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path = ROOT,
        advice: str = "",
        timeout: float | None = None,
    ) -> str:
        """Runs a command and returns what it printed; raises DevError with the log's end if it fails."""
        words = [str(word) for word in command]
        log = log_dir() / f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        if self.verbose:
            self.say("   $ " + " ".join(words))
        code, output = self._stream(words, log, {**os.environ, **(env or {})}, cwd, timeout)
        if code == 0:
            return output
        ended = "took longer than " + seconds_text(timeout or 0) if code is None else ended_text(code)
        raise DevError(
            f"{name}: `{' '.join(words)}` {ended}",
            tail(output) or "(it printed nothing)",
            (advice + "\n" if advice else "") + f"The whole log is in {shown(log)}",
            output,
        )

    def _stream(
        self, words: list[str], log: Path, env: dict[str, str], cwd: Path, timeout: float | None
    ) -> tuple[int | None, str]:
        try:
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise DevError(f"cannot start `{words[0]}`", str(error), "Is it installed and on PATH?") from None
        lines: list[str] = []
        done = threading.Event()
        timed_out = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(process, lines, done, timed_out, timeout), daemon=True)
        watcher.start()
        try:
            with log.open("w") as sink:
                for line in process.stdout or ():
                    sink.write(line)
                    sink.flush()
                    lines.append(line)
                    if self.verbose:
                        self.say("   | " + line.rstrip())
            code = process.wait()
        except BaseException:
            end_group(process)
            raise
        finally:
            done.set()
            watcher.join()
            self._clear()
        return (None if timed_out.is_set() else code), "".join(lines)

    def _watch(
        self,
        process: subprocess.Popen[str],
        lines: list[str],
        done: threading.Event,
        timed_out: threading.Event,
        timeout: float | None,
    ) -> None:
        start = time.monotonic()
        while not done.wait(0.2 if self.tty else HEARTBEAT_SECONDS if timeout is None else 1.0):
            elapsed = time.monotonic() - start
            if timeout is not None and elapsed > timeout:
                timed_out.set()
                end_group(process)
                return
            last = _ANSI.sub("", lines[-1]).strip() if lines else ""
            if self.tty and not self.verbose:
                width = max(40, min(shutil.get_terminal_size().columns, 160)) - 1
                print(f"\r\x1b[K   {seconds_text(elapsed)}  {last}"[: width + 5], end="", flush=True)
            elif not self.verbose and elapsed % HEARTBEAT_SECONDS < (1.0 if timeout else HEARTBEAT_SECONDS):
                print(f"   ... {seconds_text(elapsed)}  {last[:120]}", flush=True)

    def _clear(self) -> None:
        if self.tty and not self.verbose:
            print("\r\x1b[K", end="", flush=True)

    def summary(self) -> str:
        """The stages with their times, and the slowest."""
        lines = ["", "stages:"]
        lines += [f"  {seconds_text(s.seconds):>12}  {'ok    ' if s.ok else 'FAILED'}  {s.name}" for s in self.stages]
        if self.stages:
            slowest = max(self.stages, key=lambda stage: stage.seconds)
            total = sum(stage.seconds for stage in self.stages)
            lines.append(f"total {seconds_text(total)}, slowest: {slowest.name} ({seconds_text(slowest.seconds)})")
        return "\n".join(lines)


def end_group(process: subprocess.Popen[str]) -> None:
    """Ends a command together with the processes it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def ended_text(code: int) -> str:
    """How a command ended, for a sentence."""
    if code < 0:
        return f"was ended by signal {signal.Signals(-code).name}"
    return f"ended with code {code}"


def tail(output: str, count: int = TAIL_LINES) -> str:
    """The last lines that say something."""
    lines = [_ANSI.sub("", line).rstrip() for line in output.splitlines()]
    telling = [line for line in lines if line and not line.lstrip().startswith(_NOISE)]
    return "\n".join(line if len(line) <= LINE_WIDTH else line[:LINE_WIDTH] + "..." for line in telling[-count:])
