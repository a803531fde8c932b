"""What the tests share: the command line as a user runs it, and a small program."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

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
