"""What every file must keep to: formatters, linters, and a few rules of our own."""

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from . import envs
from .console import Console
from .errors import DevError
from .paths import ROOT

LINES_AT_MOST = 800
SOURCES = {".rs", ".py", ".c", ".cc", ".cpp", ".h", ".sh", ".bzl"}
# Files that tools write, or texts that are not ours.
GENERATED = {"Cargo.lock", "LICENSE"}
PYTHON = ["python", "conformance", "examples", "pjrt_cpu_shim", "tools/dev", "tools/devlib"]

# The patterns are split so that they do not find themselves.
_MACHINE = re.compile(r"(?<![\w.])/(?:root|home/\w+|work/\w+|tmp/\w+|opt/wheels|Users/\w+)(?:/|\b)")
# Which registry a machine uses is its own affair: no lock or configuration of ours names one.
_REGISTRY = re.compile(r"(?:index-url|find-links|registry|replace-with)\b.{0,40}:/" r"/")
_LEFTOVER = re.compile(r"\bTO" r"DO\b|\bFIX" r"ME\b|\bX" r"XX\b|\bd" r"bg!\(|\bto" r"do!\(|\bunimpl" r"emented!\(")


def tracked_files(root: Path = ROOT) -> list[Path]:
    """What git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        raise DevError("git ls-files failed", listed.stderr.decode(), "tools/dev lint needs a git checkout.")
    paths = (root / name for name in listed.stdout.decode().split("\0") if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_findings(name: str, text: str) -> Iterator[str]:
    """What is wrong with one file's text, each with its place."""
    path = Path(name)
    if path.name in GENERATED:
        return
    lines = text.splitlines()
    if path.suffix in SOURCES and len(lines) > LINES_AT_MOST:
        yield f"{name}: {len(lines)} lines, at most {LINES_AT_MOST}: split it"
    for number, line in enumerate(lines, 1):
        if _REGISTRY.search(line) or (path.parent.name == "requirements" and "://" in line):
            yield f"{name}:{number}: names a package registry"
        # Tests make up paths to feed to the code under test.
        if path.suffix != ".lock" and "/tests/" not in f"/{name}" and (found := _MACHINE.search(line)):
            yield f"{name}:{number}: a path of one machine: {found.group()}"
        if path.suffix in SOURCES and (found := _LEFTOVER.search(line)):
            yield f"{name}:{number}: unfinished: {found.group()}"


def findings(paths: Iterable[Path], root: Path = ROOT) -> list[str]:
    found = []
    for path in paths:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += text_findings(path.relative_to(root).as_posix(), text)
    return found


def version_findings(cargo_toml: str, version_py: str) -> list[str]:
    """The version stands in two files, which must agree."""
    cargo = re.search(r'(?m)^version = "([^"]+)"', cargo_toml)
    python = re.search(r'(?m)^__version__ = "([^"]+)"', version_py)
    ours, theirs = (found.group(1) if found else None for found in (python, cargo))
    if ours != theirs or ours is None:
        return [f"python/torch_tpu/_version.py says {ours}, Cargo.toml says {theirs}"]
    return []


def house_rules() -> None:
    found = findings(tracked_files())
    found += version_findings((ROOT / "Cargo.toml").read_text(), (ROOT / "python/torch_tpu/_version.py").read_text())
    if found:
        raise DevError(f"{len(found)} findings", "\n".join(found), "Mend them; tools/devlib/lint.py has the rules.")


def python(console: Console, *, fix: bool) -> None:
    ruff = envs.VENV / "bin" / "ruff"
    check = ["--fix"] if fix else []
    console.run("ruff check", [ruff, "check", *check, *PYTHON], advice="tools/dev lint --fix mends most of them.")
    how = [] if fix else ["--diff"]
    console.run("ruff format", [ruff, "format", *how, *PYTHON], advice="tools/dev lint --fix formats.")


def rust_format(console: Console, *, fix: bool) -> None:
    check = [] if fix else ["--check"]
    console.run("cargo fmt", ["cargo", "fmt", "--all", *check], advice="tools/dev lint --fix formats.")


def clippy(console: Console) -> None:
    command = ["cargo", "clippy", "--release", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]
    console.run("cargo clippy", command, advice="Mend the code, or allow the lint at the place with a reason.")


def lint(console: Console, *, fix: bool = False) -> None:
    """Every check, also after one has failed: a developer mends all of it in one go."""
    steps: list[tuple[str, Callable[[], None]]] = [
        ("house rules", house_rules),
        ("ruff", lambda: python(console, fix=fix)),
        ("cargo fmt", lambda: rust_format(console, fix=fix)),
        ("cargo clippy", lambda: clippy(console)),
    ]
    failed = []
    for name, step in steps:
        try:
            with console.stage(name):
                step()
        except DevError as error:
            failed.append(error)
            console.say(error.report())
    if failed:
        raise DevError("lint: " + "; ".join(error.what for error in failed), advice="See the reports above.")
