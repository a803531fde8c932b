"""What the tests share: the command line as a user runs it, and a small program."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

# Tests compile what they run, and leave nothing in the user's cache.
os.environ["TORCH_TPU_CACHE_DIR"] = ""

# Two matrix products and an elementwise tail: enough for the compiler to make fusions with estimates.
PROGRAM = """
module @small {
  func.func @main(%x: tensor<256x512xbf16>, %w: tensor<512x1024xbf16>, %v: tensor<1024x128xbf16>) -> tensor<256x128xbf16> {
    %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<256x512xbf16>, tensor<512x1024xbf16>) -> tensor<256x1024xbf16>
    %t = stablehlo.tanh %h : tensor<256x1024xbf16>
    %y = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0] : (tensor<256x1024xbf16>, tensor<1024x128xbf16>) -> tensor<256x128xbf16>
    return %y : tensor<256x128xbf16>
  }
}
"""  # noqa: E501

SAMPLE = "TORCH_TPU_TEST_SAMPLE"
FEW = 0.25


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps a part of the device's tests (TORCH_TPU_TEST_SAMPLE, 0 to 1), another one at each commit.

    From a quarter on that is a part of each op test's cases, never none; below, a part of all of them.
    """
    share = float(os.environ.get(SAMPLE, "1"))
    if share >= 1:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout

    def rank(item: pytest.Item) -> int:
        return int.from_bytes(hashlib.sha256(f"{commit}{item.nodeid}".encode()).digest()[:4])

    few = share < FEW
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if "/ops/" in item.nodeid:
            cases.setdefault("" if few else item.nodeid.split("[")[0], []).append(item)
        elif few and ("/cases/" in item.nodeid or "/eager/" in item.nodeid):
            cases.setdefault("", []).append(item)
    kept = {item for group in cases.values() for item in sorted(group, key=rank)[: max(1, round(share * len(group)))]}
    left_out = [item for group in cases.values() for item in group if item not in kept]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli() -> Cli:
    """Runs `python -m torch_tpu` with the given words and environment variables."""

    def run(*words: str | Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        clean = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_TPU_")}
        command = [sys.executable, "-m", "torch_tpu", *map(str, words)]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, env={**clean, **env}, timeout=300, check=False
        )

    return run


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A StableHLO file that compiles."""
    file = tmp_path / "small.mlir"
    file.write_text(PROGRAM)
    return file


@pytest.fixture
def google(tmp_path: Path) -> Path:
    """A folder in which Google's distribution seems to be installed."""
    metadata = tmp_path / "site" / "torch_tpu-2.9.1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-tpu\nVersion: 2.9.1\n")
    return metadata.parent


@pytest.fixture
def hanging(tmp_path: Path) -> tuple[Path, Path]:
    """A plugin that never answers, and the file in which it leaves the process id of who loaded it."""
    source, library, seen = tmp_path / "hang.c", tmp_path / "libhang.so", tmp_path / "pid"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\n"
        f'void *GetPjrtApi(void) {{ FILE *f = fopen("{seen}.new", "w"); fprintf(f, "%d", getpid()); fclose(f);\n'
        f'  rename("{seen}.new", "{seen}"); for (;;) sleep(1000); }}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    return library, seen


@pytest.fixture
def orphan(hanging: tuple[Path, Path]) -> Callable[..., bool]:
    """Kills a command once its child hangs in the plugin; whether the child outlives it."""
    library, seen = hanging

    def run(variable: str, *words: str | Path, **env: str) -> bool:
        parent = subprocess.Popen(
            [sys.executable, "-m", "torch_tpu", *map(str, words)],
            env={**os.environ, **env, variable: str(library)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert wait_for(seen.exists, 30), "the child never loaded the plugin"
            child = int(seen.read_text())
            assert child != parent.pid
        finally:
            parent.kill()
            parent.wait()
        gone = wait_for(lambda: not running(child), 5)
        if not gone:
            os.kill(child, signal.SIGKILL)
        return not gone

    return run


def wait_for(happened: Callable[[], bool], seconds: float) -> bool:
    """Whether it happens within this time."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def running(pid: int) -> bool:
    """Whether the process is there, and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
