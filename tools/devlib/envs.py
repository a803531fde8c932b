"""The Python environments, filled from hash-pinned locks."""

import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from .console import Console, Stage
from .errors import DevError
from .paths import PACKAGE, REQUIREMENTS, ROOT, VENV, VENV_JAX, VENV_PEERS

BOOTSTRAP = "bootstrap.lock"
STAMP = ".torch-tpu-stamp"
# What the locks are made for. The plugins exist for this platform only.
PLATFORM = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_35")
FREE_BYTES = 8 << 30


def python_of(venv: Path) -> Path:
    return venv / "bin" / "python"


def site_packages(venv: Path) -> Path:
    return venv / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def stamp_of(locks: Sequence[Path]) -> str:
    """Changes when a lock or the interpreter does."""
    digest = hashlib.sha256(sys.version.encode())
    for lock in locks:
        digest.update(lock.read_bytes())
    return digest.hexdigest()


def is_current(venv: Path, stamp: str) -> bool:
    written = venv / STAMP
    return written.is_file() and written.read_text() == stamp and python_of(venv).exists()


def ensure(console: Console, stage: Stage, venv: Path, lock: str) -> bool:
    """Makes the environment hold what the lock says; tells whether anything was done."""
    locks = [REQUIREMENTS / BOOTSTRAP, REQUIREMENTS / lock]
    stamp = stamp_of(locks)
    if is_current(venv, stamp):
        stage.note("up to date")
        return False
    check_space(venv)
    # An interrupted install must not look finished.
    (venv / STAMP).unlink(missing_ok=True)
    if not python_of(venv).exists():
        console.run(f"make {venv.name}", [sys.executable, "-m", "venv", "--clear", venv])
    pip = [python_of(venv), "-m", "pip", "--disable-pip-version-check", "install", "--require-hashes"]
    advice = (
        "Is PyPI (or the index in your pip configuration) reachable from here?\n"
        f"Run the command again: what was downloaded is kept. A damaged environment: rm -r {venv.name}"
    )
    console.run(f"{venv.name} installer", [*pip, "-r", locks[0]], advice=advice)
    uv = [venv / "bin" / "uv", "pip", "sync", "--require-hashes", "--python", python_of(venv), *locks]
    try:
        console.run(f"{venv.name} packages", uv)
    except DevError as error:
        # uv does not read pip's configuration, which may name the only index that this machine reaches.
        console.say(f"   uv could not install them, trying pip:\n{error.report()}")
        console.run(f"{venv.name} packages with pip", [*pip, "--no-deps", "-r", locks[1]], advice=advice)
    (venv / STAMP).write_text(stamp)
    stage.note(f"installed {lock}")
    return True


def check_space(venv: Path) -> None:
    free = shutil.disk_usage(ROOT).free
    # Those that hold a torch.
    if venv in (VENV, VENV_PEERS) and free < FREE_BYTES:
        raise DevError(
            f"{free / 1e9:.1f} GB free where {ROOT} is; torch and the plugins need about {FREE_BYTES / 1e9:.0f} GB",
            advice="Free some space, or clone onto a larger disk.",
        )


def ensure_dev(console: Console, stage: Stage) -> None:
    ensure(console, stage, VENV, "dev.lock")
    link_package()


def ensure_jax(console: Console, stage: Stage) -> None:
    ensure(console, stage, VENV_JAX, "jax.lock")


def ensure_peers(console: Console, stage: Stage) -> None:
    ensure(console, stage, VENV_PEERS, "peers.lock")


DIST_INFO = "torch_tpu_rs-0.1.0.dist-info"
# What torch reads to find its backends, eager and compiled.
ENTRY_POINTS = (
    "[torch.backends]\ntorch_tpu = torch_tpu._autoload:autoload\n"
    "[torch_dynamo_backends]\ntpu = torch_tpu._compile:tpu\n"
)


def link_package() -> None:
    """Puts python/ on the environment's path, with the entry point: edits are live, nothing is copied."""
    packages = site_packages(VENV)
    info = packages / DIST_INFO
    info.mkdir(exist_ok=True)
    files = {
        packages / "torch_tpu_checkout.pth": f"{PACKAGE.parent}\n",
        info / "METADATA": "Metadata-Version: 2.1\nName: torch-tpu-rs\nVersion: 0.1.0\n",
        info / "entry_points.txt": ENTRY_POINTS,
        info / "INSTALLER": "tools/dev\n",
    }
    for path, text in files.items():
        if not path.is_file() or path.read_text() != text:
            path.write_text(text)


def write_locks(console: Console, *, upgrade: bool) -> None:
    """Turns requirements/*.in into *.lock, with hashes and without the name of any index."""
    uv = VENV / "bin" / "uv"
    if not uv.exists():
        raise DevError("tools/dev lock needs .venv", advice="Run tools/dev setup first.")
    flags = ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    for source in sorted(REQUIREMENTS.glob("*.in")):
        overrides = source.with_suffix(".overrides")
        extra = ["--override", overrides] if overrides.exists() else []
        target = source.with_suffix(".lock")
        with console.stage(f"lock {source.name}"):
            command = [uv, "pip", "compile", source, *extra, *PLATFORM, *flags, "-o", target]
            console.run(f"lock {source.stem}", [*command, *(["--upgrade"] if upgrade else [])])


def path_with_venv() -> dict[str, str]:
    """An environment in which the tools of .venv (cargo-nextest, ruff) come first."""
    return {"PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}", "VIRTUAL_ENV": str(VENV)}
