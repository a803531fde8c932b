"""What the machine must have: cargo, Python, Debian packages."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .console import Console, Stage
from .errors import DevError
from .paths import APT_PACKAGES

CARGO_AT_LEAST = (1, 85)


def read_package_list(text: str) -> list[str]:
    """Package names, one a line, without comments."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def parse_version(text: str) -> tuple[int, ...]:
    """The first dotted number in a tool's answer to --version."""
    found = re.search(r"\d+(\.\d+)+", text)
    return tuple(int(part) for part in found.group().split(".")) if found else ()


def check_tools(stage: Stage) -> None:
    """Refuses a machine without a recent cargo; Python was checked when tools/dev started."""
    cargo = shutil.which("cargo")
    if cargo is None:
        home = Path.home() / ".cargo" / "bin"
        advice = "Install Rust with rustup, then open a new shell."
        if (home / "cargo").exists():
            advice = f'It is in {home}, which is not on PATH: export PATH="{home}:$PATH"'
        raise DevError("cargo is not on PATH", advice=advice)
    answer = subprocess.run([cargo, "--version"], capture_output=True, text=True, check=False)
    version = parse_version(answer.stdout)
    if version < CARGO_AT_LEAST:
        needed = ".".join(map(str, CARGO_AT_LEAST))
        raise DevError(
            f"cargo {needed} or newer is needed",
            f"`cargo --version` says: {(answer.stdout or answer.stderr).strip() or 'nothing'}",
            "Update Rust: rustup update stable",
        )
    stage.note("cargo " + ".".join(map(str, version)))
    stage.note("Python " + ".".join(map(str, sys.version_info[:3])))


def is_installed(package: str) -> bool:
    answer = subprocess.run(["dpkg", "-s", package], capture_output=True, text=True, check=False)
    return "Status: install ok installed" in answer.stdout


def missing_packages() -> list[str]:
    wanted = read_package_list(APT_PACKAGES.read_text())
    # Debian splits ensurepip, which `python -m venv` needs, into a package of its own.
    probe = subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False)
    if probe.returncode != 0:
        wanted.append(f"python{sys.version_info.major}.{sys.version_info.minor}-venv")
    return [package for package in wanted if not is_installed(package)]


def install_packages(console: Console, stage: Stage) -> None:
    """Installs the Debian packages that are missing; asks apt nothing when none is."""
    if shutil.which("dpkg") is None:
        lacking = [tool for tool in ("protoc", "g++") if shutil.which(tool) is None]
        if lacking:
            raise DevError(
                f"{' and '.join(lacking)} not found, and this is no Debian system",
                advice="Install protoc, libclang (with its headers) and g++ with your system's package manager.",
            )
        stage.note("no dpkg here: protoc and g++ are on PATH, libclang is up to you")
        return
    missing = missing_packages()
    if not missing:
        stage.note("all there")
        return
    stage.note("installing " + " ".join(missing))
    prefix = privilege(missing)
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    console.run(
        "apt-get update", [*prefix, "apt-get", "update"], env=env, advice="Are Debian's mirrors reachable from here?"
    )
    console.run(
        "apt-get install",
        [*prefix, "apt-get", "install", "-y", "--no-install-recommends", *missing],
        env=env,
        advice="If another apt is running, wait for it and run tools/dev setup again.",
    )


def privilege(missing: list[str]) -> list[str]:
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo"):
        return ["sudo", "-n"] if not sys.stdin.isatty() else ["sudo"]
    raise DevError(
        f"Debian packages are missing and you are not root: {' '.join(missing)}",
        advice=f"As root: apt-get update && apt-get install -y {' '.join(missing)}",
    )
