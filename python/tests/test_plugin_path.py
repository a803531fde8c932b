"""`python -m torch_tpu plugin-path`."""

import ctypes
from pathlib import Path

from conftest import Cli


def test_it_names_a_plugin(cli: Cli) -> None:
    answer = cli("plugin-path")
    assert answer.returncode == 0, answer.stderr
    path = Path(answer.stdout.strip())
    assert path.is_absolute()
    assert path.name == "libpjrt_cpu_shim.so"
    assert ctypes.CDLL(str(path)).GetPjrtApi


def test_the_environment_names_another(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    assert cli("plugin-path", TORCH_TPU_PJRT_PLUGIN=str(other)).stdout.strip() == str(other)


def test_an_unknown_command_lists_the_known_ones(cli: Cli) -> None:
    answer = cli("plugin")
    assert answer.returncode == 2
    for known in ("plugin-path", "doctor", "aot"):
        assert known in answer.stderr
