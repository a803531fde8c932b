"""What importing the package does and does not do."""

import subprocess
import sys
from pathlib import Path

from torch_tpu import _conflict


def python(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


def test_import_leaves_torch_and_the_core_alone() -> None:
    answer = python("import sys, torch_tpu; print({'torch', 'jax', 'numpy', 'torch_tpu._core'} & set(sys.modules))")
    assert answer.stdout.strip() == "set()", answer.stderr


def test_the_core_has_the_version_of_the_package() -> None:
    answer = python("import torch_tpu, torch_tpu._core as c; print(torch_tpu.__version__ == c.__version__)")
    assert answer.stdout.strip() == "True", answer.stderr


def test_import_warns_of_googles_distribution(google: Path) -> None:
    answer = python("import torch_tpu", PYTHONPATH=str(google))
    assert answer.returncode == 0
    assert "RuntimeWarning" in answer.stderr
    assert "pip uninstall -y torch-tpu" in answer.stderr


def test_import_is_silent_without_it() -> None:
    assert python("import torch_tpu").stderr == ""


def test_our_own_distribution_is_no_conflict(tmp_path: Path) -> None:
    (tmp_path / "torch_tpu_rs-0.1.0.dist-info").mkdir()
    (tmp_path / "torch_tpu").mkdir()
    assert _conflict.google_distributions([str(tmp_path), str(tmp_path / "absent")]) == []


def test_a_path_listed_twice_counts_once(google: Path) -> None:
    assert _conflict.google_distributions([str(google), str(google)]) == [str(google / "torch_tpu-2.9.1.dist-info")]
