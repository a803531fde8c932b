"""What the README shows is what the commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

SECONDS = re.compile(r"compiled in [^,]+,")
# It holds names and paths of the process that compiled.
SIZE = re.compile(r"serialized [\d.]+ [kM]B")


def test_the_aot_example_is_real() -> None:
    shown = re.search(
        r"```\n\$ \.venv/bin/python -m torch_tpu (aot [^\n]+)\n(.*?)```", (ROOT / "README.md").read_text(), re.S
    )
    assert shown
    answer = subprocess.run(
        [sys.executable, "-m", "torch_tpu", *shown[1].split()], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert steady(answer.stdout) == steady(shown[2])


def steady(text: str) -> str:
    """Without the figures that depend on the machine."""
    return SIZE.sub("serialized", SECONDS.sub("compiled,", text))


def test_every_linked_file_is_there() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)", page.read_text()):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_command_named_in_the_readme_exists() -> None:
    known = subprocess.run([ROOT / "tools" / "dev", "--help"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"tools/dev (?!-)([a-z]+)", (ROOT / "README.md").read_text()):
        assert re.search(rf"^    {command}\b", known, re.M), command


def test_every_python_command_says_which_interpreter() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for block in re.findall(r"^```\n(.*?)^```", page.read_text(), re.S | re.M):
            for line in block.splitlines():
                for interpreter in re.findall(r"(\S*\bpython[\d.]*) (?:-|\w+\.py)", line):
                    assert re.fullmatch(r".*\.venv(-jax)?/bin/python", interpreter), f"{page.name}: {line}"


def test_what_is_said_of_libtpus_logs_is_so(program: Path, tmp_path: Path) -> None:
    def aot(folder: Path | str) -> None:
        command = [sys.executable, "-m", "torch_tpu", "aot", program]
        subprocess.run(
            command, env={**os.environ, "TPU_LOG_DIR": str(folder)}, cwd=tmp_path, check=True, capture_output=True
        )

    logs = tmp_path / "logs"
    aot(logs)
    assert 0 < sum(file.stat().st_size for file in logs.iterdir() if not file.is_symlink()) < 200_000
    before = set(tmp_path.iterdir())
    aot("disabled")
    assert set(tmp_path.iterdir()) == before
