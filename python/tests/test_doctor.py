"""`python -m torch_tpu doctor` on good and on broken installations."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Cli
from torch_tpu._cli import doctor


def findings(answer: subprocess.CompletedProcess[str]) -> dict:
    assert answer.stdout, answer.stderr
    return json.loads(answer.stdout)


def test_all_is_well_on_the_simulator(cli: Cli) -> None:
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", TORCH_TPU_SIM_TOPOLOGY="v6e:2x2")
    report = findings(answer)
    assert answer.returncode == 0, report["problems"]
    assert report["problems"] == []
    assert report["platform"] == "sim"
    assert report["versions"]["torch"].startswith("2.")
    assert report["versions"]["libtpu"]
    assert report["environment"]["TORCH_TPU_SIM_TOPOLOGY"] == "v6e:2x2"
    client = report["client"]
    assert client["platform_name"] == "tpu_sim"
    assert client["smoke"] == "1 + 2 = 3"
    assert [device["coords"][:2] for device in client["devices"]] == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert {device["kind"] for device in client["devices"]} == {"TPU v6 lite"}


def test_the_readable_form_says_the_same(cli: Cli) -> None:
    answer = cli("doctor", TORCH_TPU_PLATFORM="sim")
    assert answer.returncode == 0, answer.stdout
    for part in ("TPU v6 lite", "1 + 2 = 3", "tpu_sim", "fastatomstruct-xla-cpu", "nothing is wrong"):
        assert part in answer.stdout


def test_a_missing_cpu_plugin_is_named(cli: Cli, tmp_path: Path) -> None:
    absent = tmp_path / "absent.so"
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", TORCH_TPU_CPU_PLUGIN=str(absent))
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert str(absent) in problem["what"]
    assert problem["fix"]


def test_a_file_that_is_no_plugin_is_named(cli: Cli, tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", TORCH_TPU_PJRT_PLUGIN=str(text))
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert str(text) in problem["what"]


def test_a_plugin_that_crashes_is_reported(cli: Cli, tmp_path: Path) -> None:
    source, library = tmp_path / "crash.c", tmp_path / "libcrash.so"
    source.write_text("#include <stdlib.h>\nvoid *GetPjrtApi(void) { abort(); }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
    answer = cli("doctor", TORCH_TPU_PLATFORM="sim", TORCH_TPU_PJRT_PLUGIN=str(library))
    assert answer.returncode == 1
    assert "PROBLEM: the smoke run crashed with SIGABRT" in answer.stdout
    assert "1 problem" in answer.stdout


def test_no_tpu_is_said_at_once(cli: Cli) -> None:
    if any(Path("/dev").glob("accel[0-9]*")):
        pytest.fail("these tests are for machines without a TPU")
    start = time.monotonic()
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="tpu")
    # Two interpreters start and a library loads meanwhile; asking a metadata server would take minutes.
    assert time.monotonic() - start < 5
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert "no TPU was found" in problem["what"]


def test_an_unknown_platform_lists_the_known_ones(cli: Cli) -> None:
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="gpu")
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert "gpu" in problem["what"]
    assert "sim" in problem["what"]


def test_googles_distribution_is_a_problem(cli: Cli, google: Path) -> None:
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", PYTHONPATH=str(google))
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert "torch_tpu-2.9.1.dist-info" in problem["what"]
    assert "pip uninstall -y torch-tpu" in problem["fix"]


def test_a_child_that_fails_is_told_from_one_that_crashes() -> None:
    failed = doctor.child_problem(1, "Traceback\nImportError: no _core\n\n")
    assert failed["what"] == "the Rust core cannot be used: ImportError: no _core"
    crashed = doctor.child_problem(-11, "")
    assert crashed["what"] == "the smoke run crashed with SIGSEGV: it printed nothing"


def test_the_child_does_not_outlive_a_killed_doctor(orphan: Callable[..., bool]) -> None:
    assert not orphan("TORCH_TPU_PJRT_PLUGIN", "doctor", TORCH_TPU_PLATFORM="sim")


RULE = "LoadedExecutable_Execute@99=INTERNAL"


def test_an_armed_fault_is_said(cli: Cli) -> None:
    answer = cli("doctor", TORCH_TPU_PLATFORM="sim", TORCH_TPU_SIM_FAULT=RULE)
    assert answer.returncode == 0, answer.stdout
    assert f"note: a fault is armed by TORCH_TPU_SIM_FAULT={RULE}" in answer.stdout
    assert answer.stdout.splitlines()[-1] == "nothing is wrong so far, but TORCH_TPU_SIM_FAULT arms a fault"
    report = findings(cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", TORCH_TPU_SIM_FAULT=RULE))
    assert report["armed_fault"] == RULE
    assert findings(cli("doctor", "--json", TORCH_TPU_PLATFORM="sim"))["armed_fault"] is None


def test_a_failure_that_was_asked_for_is_no_broken_plugin(cli: Cli) -> None:
    answer = cli("doctor", "--json", TORCH_TPU_PLATFORM="sim", TORCH_TPU_SIM_FAULT="Execute=INTERNAL")
    assert answer.returncode == 1
    (problem,) = findings(answer)["problems"]
    assert "injected fault" in problem["what"]
    assert "unset TORCH_TPU_SIM_FAULT" in problem["fix"]


def test_a_wrong_command_line_is_json_too(cli: Cli) -> None:
    answer = cli("doctor", "--json", "--bogus")
    assert answer.returncode == 2
    assert findings(answer)["error"] == {"kind": "usage", "message": "unrecognized arguments: --bogus"}
    assert "--bogus" in answer.stderr
    assert cli("doctor", "--bogus").stdout == ""
