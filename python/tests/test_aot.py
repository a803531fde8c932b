"""`python -m torch_tpu aot` with the real TPU compiler, and its table."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROGRAM, Cli
from torch_tpu._cli import aot

FLOPS = 2 * 256 * 512 * 1024 + 2 * 256 * 1024 * 128


def test_the_table_has_every_figure(cli: Cli, program: Path) -> None:
    answer = cli("aot", program)
    assert answer.returncode == 0, answer.stderr
    for label in ("flops", "bytes accessed", "estimated cycles", "estimated time", "arithmetic intensity", "roofline"):
        assert re.search(rf"^  {label} +(at least )?\d", answer.stdout, re.M), (label, answer.stdout)
    for kind in ("arguments", "outputs", "temporaries", "code", "peak", "limit"):
        assert re.search(rf"^  {kind} +\d", answer.stdout, re.M), (kind, answer.stdout)
    assert re.search(rf"^dearest instructions\n.*\n +\d.*{program.name}:\d+$", answer.stdout, re.M)
    assert "bound (the chip's ridge is" in answer.stdout


def test_the_json_adds_up(cli: Cli, program: Path) -> None:
    answer = cli("aot", program, "--topology", "v6e:2x2", "--json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    cost, chip, memory = report["cost"], report["chip"], report["memory"]
    assert report["topology"] == "v6e:2x2"
    assert FLOPS <= cost["flops"] < 1.1 * FLOPS
    assert cost["bytes_accessed"] > 2 * (256 * 512 + 512 * 1024 + 1024 * 128)
    assert cost["estimated_seconds"] == pytest.approx(cost["estimated_cycles"] / chip["clock_hz"])
    assert cost["arithmetic_intensity"] == pytest.approx(cost["flops"] / cost["bytes_accessed"])
    assert cost["ridge_intensity"] == pytest.approx(chip["peak_flops"] / chip["hbm_bandwidth"])
    assert cost["bound"] == ("compute" if cost["arithmetic_intensity"] > cost["ridge_intensity"] else "memory")
    assert memory["argument_bytes"] == 2 * (256 * 512 + 512 * 1024 + 1024 * 128)
    assert memory["output_bytes"] == 2 * 256 * 128
    assert memory["peak_hbm_bytes"] < memory["limit_bytes"]
    totals = [one["total_cycles"] for one in report["top"]]
    assert totals
    assert totals == sorted(totals, reverse=True)
    assert sum(totals) <= cost["estimated_cycles"] * 1.001


def test_a_loop_counts_its_trips(cli: Cli) -> None:
    def loop(trips: int) -> str:
        return f"""
        module @loop {{
          func.func @main(%x: tensor<1024x1024xf32>, %w: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1024x1024xf32>
              cond {{
                %n = stablehlo.constant dense<{trips}> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
              }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %j = stablehlo.add %i, %one : tensor<i32>
                %p = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
                  : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
                %t = stablehlo.tanh %p : tensor<1024x1024xf32>
                stablehlo.return %j, %t : tensor<i32>, tensor<1024x1024xf32>
              }}
            return %r#1 : tensor<1024x1024xf32>
          }}
        }}"""

    def cycles(trips: int) -> tuple[float, set]:
        answer = cli("aot", "-", "--json", stdin=loop(trips))
        assert answer.returncode == 0, answer.stderr
        report = json.loads(answer.stdout)
        return report["cost"]["estimated_cycles"], {one["trip_count"] for one in report["top"]}

    (few, _), (many, trips) = cycles(20), cycles(200)
    assert 200 in trips
    assert 6 < many / few < 11


def test_output_is_the_serialized_executable(cli: Cli, program: Path, tmp_path: Path) -> None:
    out = tmp_path / "small.bin"
    answer = cli("aot", program, "--json", "--output", out)
    assert answer.returncode == 0, answer.stderr
    assert out.stat().st_size == json.loads(answer.stdout)["serialized_bytes"]


def test_a_program_and_what_a_script_runs_are_kept(cli: Cli, program: Path, tmp_path: Path) -> None:
    answer = cli("aot", program, "--keep", tmp_path / "one")
    assert answer.returncode == 0, answer.stderr
    assert len(list((tmp_path / "one").glob("*.ttpu"))) == 1
    script = tmp_path / "train.py"
    script.write_text(
        "import sys, torch\nprint(torch.ones(2, device='tpu').add(int(sys.argv[1])).cpu())\nsys.exit(3)\n"
    )
    answer = cli("keep", "--folder", tmp_path / "two", script, "4")
    assert (answer.returncode, answer.stdout) == (3, "tensor([5., 5.])\n")
    assert "kept 2 programs for v6e:1x1" in answer.stderr
    assert len(list((tmp_path / "two").glob("*.ttpu"))) == 2
    answer = cli("keep", tmp_path / "absent.py")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "there is no file" in answer.stderr


BAD = {
    "no such file": (["absent.mlir"], None, 2, "No such file"),
    "a folder": (["."], None, 2, "directory"),
    "nothing in it": (["-"], " \n", 2, "empty"),
    "does not parse": (["-"], "module { func.func @main( }", 1, "-:1:26: error"),
    "an op that is none": (["-"], PROGRAM.replace("stablehlo.tanh", "stablehlo.tahn"), 1, "tahn"),
    "no such topology": (["-", "--topology", "v6e:3x5"], PROGRAM, 1, "v6e:3x5"),
    "no such chip": (["-", "--topology", "h100:8"], PROGRAM, 1, "names no TPU generation"),
    "no form of a topology": (["-", "--topology", "v6e"], PROGRAM, 2, "looks like v6e:1x1"),
    "no topology": (["-", "--topology", ""], PROGRAM, 2, "looks like v6e:1x1"),
    "no folder to write to": (["-", "--output", "absent/out.bin"], PROGRAM, 2, "absent"),
    "no folder to keep in": (["-", "--keep", "/dev/null/x"], PROGRAM, 1, "cannot keep the program"),
    "kept for several": (["-", "--keep", "kept", "--replicas", "2", "--topology", "v6e:2x2"], PROGRAM, 1, "one device"),
    "no number": (["-", "--replicas", "x"], PROGRAM, 2, "'x' is not a number of devices"),
    "a number too large": (["-", "--replicas", "9" * 30], PROGRAM, 2, "is not a number of devices"),
    "no partitions": (["-", "--partitions", "0"], PROGRAM, 2, "at least 1"),
    "more partitions than chips": (["-", "--partitions", "4"], PROGRAM, 1, "4"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_message(cli: Cli, case: str) -> None:
    words, stdin, code, part = BAD[case]
    answer = cli("aot", *words, stdin=stdin or "")
    assert answer.returncode == code, answer.stderr
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    assert "panicked" not in answer.stderr
    assert part in answer.stderr, answer.stderr


# The kind of failure, and the status code where the compiler was asked: it gives texts that do not parse its own.
KINDS = {
    "no such file": ("input", None),
    "nothing in it": ("input", None),
    "does not parse": ("compile", "UNKNOWN"),
    "an op that is none": ("compile", "UNKNOWN"),
    "no such chip": ("compile", "INVALID_ARGUMENT"),
    "no form of a topology": ("usage", None),
    "no folder to write to": ("output", None),
    "no number": ("usage", None),
    "more partitions than chips": ("compile", "INVALID_ARGUMENT"),
}


@pytest.mark.parametrize("case", KINDS)
def test_a_failure_is_json_where_json_was_asked_for(cli: Cli, case: str) -> None:
    words, stdin, code, part = BAD[case]
    answer = cli("aot", *words, "--json", stdin=stdin or "")
    assert answer.returncode == code, answer.stderr
    error = json.loads(answer.stdout)["error"]
    assert (error["kind"], error.get("code")) == KINDS[case]
    assert part in error["message"]
    assert error["message"] in answer.stderr


def test_what_is_not_installed_is_json_too(cli: Cli, program: Path, tmp_path: Path) -> None:
    answer = cli("aot", program, "--json", TPU_LIBRARY_PATH=str(tmp_path / "absent.so"))
    assert answer.returncode == 1
    assert "absent.so" in json.loads(answer.stdout)["error"]["message"]


def test_the_compiler_does_not_outlive_a_killed_aot(orphan: Callable[..., bool], program: Path) -> None:
    assert not orphan("TPU_LIBRARY_PATH", "aot", program)


def test_an_error_names_the_file_and_the_line(cli: Cli, program: Path) -> None:
    program.write_text(PROGRAM.replace("stablehlo.tanh", "stablehlo.tahn"))
    answer = cli("aot", program)
    assert answer.returncode == 1
    assert f"{program}:5:" in answer.stderr
    assert "<unknown>" not in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_every_form_of_a_place_names_the_file() -> None:
    text = '-:3:1: error: x\n  -:4 note (-:5:2) callsite("-":6:1 at "f.py":7) a-:8 x:-:9 1 -:'
    assert aot.placed(text, "m.mlir") == (
        'm.mlir:3:1: error: x\n  m.mlir:4 note (m.mlir:5:2) callsite("m.mlir":6:1 at "f.py":7) a-:8 x:-:9 1 -:'
    )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("%t = stablehlo.custom_call @no_such_target(%h) : (tensor<256x1024xbf16>) -> tensor<256x1024xbf16>", "{}:5"),
        ("%t = stablehlo.tanh %h : tensor<256x1024xf32>", "{}:5:25: error"),
        ("%t = func.call @absent(%h) : (tensor<256x1024xbf16>) -> tensor<256x1024xbf16>", "{}:5:10: note"),
    ],
)
def test_the_compilers_places_are_the_users(cli: Cli, program: Path, line: str, wanted: str) -> None:
    program.write_text(PROGRAM.replace("%t = stablehlo.tanh %h : tensor<256x1024xbf16>", line))
    answer = cli("aot", program)
    assert answer.returncode == 1
    assert wanted.format(program) in answer.stderr, answer.stderr
    assert not re.search(r'(^|\s)"?-"?:\d', answer.stderr, re.M), answer.stderr


def test_binary_input_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "program.bc"
    file.write_bytes(b"ML\xefR\x0d\xff\xfe")
    answer = cli("aot", file)
    assert answer.returncode == 2
    assert "is not text" in answer.stderr


def test_unknown_figures_are_dashes() -> None:
    report = {
        "topology": "v6e:1x1",
        "chip": {"name": "TPU v6 lite"},
        "cost": {"flops": 1e12, "uncosted_instructions": 3, "new_in_a_later_version": 1},
        "memory": {"argument_bytes": 1000},
        "top": [{"name": "fusion.1", "opcode": "fusion", "cycles": 1500}],
    }
    text = "\n".join(aot.render(report, "x.mlir", 0.25))
    assert "compiled in 250 ms" in text
    assert "flops                 1 TFLOP" in text
    assert "unknown: 3 instructions without an estimate" in text
    assert "fusion.1 (fusion)" in text


COMMENTED = """// try mhlo.num_partitions = 8
module @m {
  func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}
// mhlo.num_replicas = 4 : i32
"""


def test_only_module_attributes_say_how_many_devices(cli: Cli) -> None:
    def aot(attributes: str, *words: str) -> subprocess.CompletedProcess[str]:
        return cli("aot", "-", *words, stdin=COMMENTED.replace("@m {", f"@m {attributes} {{"))

    assert aot("").returncode == 0
    four = "attributes {mhlo.num_replicas = 4 : i32}"
    assert "4 x 1 devices" in aot(four).stderr
    assert aot(four, "--topology", "v6e:2x2").returncode == 0
    # Texts, nesting and what follows on the line are read as MLIR reads them.
    for attributes in (
        'attributes {jax.note = "}, mhlo.num_replicas = 2", mhlo.num_replicas = 4 : i32}',
        "attributes {a = {b = [1, 2]}, // , mhlo.num_replicas = 2\n  mhlo.num_replicas = 4 : i32}",
    ):
        assert "4 x 1 devices" in aot(attributes).stderr, attributes
    assert aot('attributes {jax.note = "mhlo.num_replicas = 4 : i32"}').returncode == 0
    negative = aot("attributes {mhlo.num_replicas = -4 : i32}")
    assert negative.returncode == 1
    assert "mhlo.num_replicas" in negative.stderr
    assert "positive" in negative.stderr


@pytest.mark.parametrize("topology", ["v6e:0x0", "v99:1x1", "V6E:1x1"])
def test_a_bad_topology_never_reaches_the_compiler(cli: Cli, topology: str) -> None:
    refused = cli("aot", "-", "--topology", topology, stdin=COMMENTED)
    assert refused.returncode in (1, 2)
    assert topology in refused.stderr
    assert len(refused.stderr.splitlines()) <= 3, refused.stderr


@pytest.mark.parametrize("command", ["plugin-path", "doctor"])
def test_output_that_cannot_be_written_is_said(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(
            [sys.executable, "-m", "torch_tpu", command], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert answer.returncode == 1
    assert "cannot write the output" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert "Exception ignored" not in answer.stderr


def test_a_closed_standard_input_is_said() -> None:
    command = f"{sys.executable} -m torch_tpu aot - <&-"
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert answer.returncode == 2
    assert "standard input is closed" in answer.stderr
