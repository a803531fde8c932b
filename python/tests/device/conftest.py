"""What the device's tests share: programs in processes of their own, for what a process can do only once."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

# Before the first use of the device: these tests are about the simulator.
os.environ.setdefault("TORCH_TPU_PLATFORM", "sim")
os.environ.setdefault("TORCH_TPU_FALLBACK", "error")

Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def program() -> Program:
    """Runs a Python program with the given environment variables; it must end within five minutes."""

    def run(code: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", textwrap.dedent(code)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **env}, timeout=300, check=False
        )
        assert not check or done.returncode == 0, (
            f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )
        return done

    return run
