"""Programs on disk: a second process compiles nothing, and nothing that happens to the folder does harm."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from .conftest import Program

WORK = """
    import json, torch, torch_tpu
    x = torch.arange(6.0, device="tpu").view(2, 3)
    for _ in range(2):
        y = (x @ x.t()).softmax(-1).sum() + torch.sort(x, descending=True)[0][0, 0]
    assert abs(y.item() - 4) < 1e-5, y
    stats = torch_tpu.cache.stats()
    print(json.dumps({k: stats[k] for k in ("misses", "disk_hits", "disk_writes")}))
"""


def stats(program: Program, folder: Path, **env: str) -> tuple[int, int, int]:
    """Programs compiled, loaded and written by a process; it prints nothing else."""
    done = program(WORK, TORCH_TPU_CACHE_DIR=str(folder), **env)
    assert done.stderr == ""
    return tuple(json.loads(done.stdout).values())


def test_a_second_process_compiles_nothing(program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    compiled, loaded, written = stats(program, folder)
    assert compiled == written > 3
    assert stats(program, folder) == (0, compiled + loaded, 0)
    assert len(list(folder.iterdir())) == compiled


def test_other_options_and_other_plugins_are_other_programs(program: Program, tmp_path: Path) -> None:
    compiled, _, _ = stats(program, tmp_path)
    assert stats(program, tmp_path, TORCH_TPU_SIM_TOPOLOGY="v6e:2x2")[0] == compiled
    assert stats(program, tmp_path, XLA_FLAGS="--xla_backend_optimization_level=0")[0] == compiled
    assert stats(program, tmp_path)[0] == 0


def test_damaged_and_foreign_files_are_compiled_anew(program: Program, tmp_path: Path) -> None:
    stats(program, tmp_path)
    files = sorted(tmp_path.iterdir())
    files[0].write_bytes(b"")
    files[1].write_bytes(files[1].read_bytes()[:-7])
    files[2].write_bytes(files[3].read_bytes()[:8] + b"?" * 500)
    (tmp_path / "notes.txt").write_text("mine")
    assert stats(program, tmp_path)[0] == 3
    assert stats(program, tmp_path)[0] == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_no_folder_and_a_folder_that_cannot_be_written(program: Program, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert stats(program, file / "cache")[1:] == (0, 0)
    done = program(WORK, TORCH_TPU_CACHE_DIR="")
    assert '"disk_writes": 0' in done.stdout


def test_processes_that_start_at_once(tmp_path: Path) -> None:
    env = {**os.environ, "TORCH_TPU_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", textwrap.dedent(WORK)]
    running = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    assert [(p.communicate(timeout=300)[1], p.returncode) for p in running] == [("", 0)] * 4
    assert not list(tmp_path.glob(".writing-*"))


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_a_killed_process_leaves_whole_files(program: Program, tmp_path: Path, delay: float) -> None:
    code = """
        import threading, os, time, signal, torch
        x = torch.ones(2, device="tpu")
        threading.Timer(DELAY, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        for n in range(3, 2000):
            torch.ones(n, device="tpu") + 1
    """.replace("DELAY", str(delay))
    done = program(code, check=False, TORCH_TPU_CACHE_DIR=str(tmp_path))
    assert done.returncode == -signal.SIGKILL
    compiled, _, _ = stats(program, tmp_path)
    assert compiled > 0
    assert stats(program, tmp_path)[0] == 0


def test_clear_removes_files(program: Program, tmp_path: Path) -> None:
    stats(program, tmp_path)
    program("import torch_tpu; torch_tpu.cache.clear()", TORCH_TPU_CACHE_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())
    done = program("import torch_tpu; print(torch_tpu.cache.dir())", TORCH_TPU_CACHE_DIR=str(tmp_path))
    assert done.stdout == f"{tmp_path}\n"


@pytest.mark.parametrize("mode", ["0", "1"])
def test_programs_in_memory_are_limited(program: Program, mode: str) -> None:
    code = """
        import torch, torch_tpu
        for n in [*range(2, 32), 2, 3, 31]:
            x = torch.ones(n, device="tpu")
            assert (x * 2 + 1).tolist() == [3] * n
        print(torch_tpu.cache.stats()["entries"])
    """
    done = program(code, TORCH_TPU_CACHE_PROGRAMS="20", TORCH_TPU_CACHE_DIR="", TORCH_TPU_DEFER_AND_FUSE=mode)
    assert 0 < int(done.stdout) <= 20
