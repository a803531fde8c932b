"""Where things are in the checkout."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
VENV_JAX = ROOT / ".venv-jax"
VENV_PEERS = ROOT / ".venv-peers"
REQUIREMENTS = ROOT / "requirements"
PACKAGE = ROOT / "python" / "torch_tpu"
APT_PACKAGES = ROOT / "tools" / "apt-packages.txt"


def target_dir() -> Path:
    """Cargo's target folder, which the environment may have moved."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def log_dir() -> Path:
    return ROOT / "target" / "dev"


def shown(path: Path) -> str:
    """The path as a reader at the checkout's root would type it."""
    try:
        return str(path.relative_to(ROOT))
    except ValueError:
        return str(path)
