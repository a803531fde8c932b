"""What the README shows is what the commands print."""

import re
import subprocess
import sys

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
