"""What Google's compiler says a GPT-2 train step costs on a v6e: ours beside hand-written JAX, by the same libtpu.

    .venv/bin/python benchmarks/gpt2_v6e/run.py [--json FILE] [--keep FOLDER] [--ours FILE.mlir]

Ours is an unmodified nn.Module with torch.optim.AdamW through torch_tpu.compile_step; JAX's is jitted with its state
donated. Both: width 768, 12 heads, 2 layers, length 1024, batch 8, vocabulary 50304, an untied head, weights and
states in bfloat16, softmax and loss in float32. The figures do not depend on this machine. Each compile takes minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JAX_PYTHON = ROOT / ".venv-jax" / "bin" / "python"
TOPOLOGY = "v6e:1x1"
# Figure, where the report has it, its unit, and the most that ours may be of JAX's.
FIGURES = (
    ("estimated cycles", ("cost", "estimated_cycles"), 1e6, "e6", 1.02),
    ("bytes accessed", ("cost", "bytes_accessed"), 1e9, " GB", 1.02),
    ("peak HBM", ("memory", "peak_hbm_bytes"), 1e9, " GB", 1.05),
    ("flops", ("cost", "flops"), 1e12, "e12", None),
    ("donated", ("memory", "alias_bytes"), 1e9, " GB", None),
    ("without an estimate", ("cost", "uncosted_instructions"), 1, "", None),
)
# What the project's notes have for JAX, from the same libtpu and a step that is not in this repository.
NOTED = {"estimated_cycles": 33.27e6, "bytes_accessed": 23.6e9, "peak_hbm_bytes": 3.03e9}


def write_program(python: Path | str, script: str, file: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        [python, HERE / script, file], capture_output=True, text=True, env={**os.environ, **env}, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{script} failed:\n" + "\n".join(done.stderr.splitlines()[-25:]))
    return file.read_text()


def cost(text: str) -> dict:
    from torch_tpu import _core

    return json.loads(_core.aot_compile(text, TOPOLOGY))


def compare(folder: Path, ours: Path | None) -> dict:
    reports = {}
    print("capturing our step on the simulator", file=sys.stderr, flush=True)
    text = ours.read_text() if ours else write_program(sys.executable, "torch_program.py", folder / "ours.mlir", {})
    print("compiling it for the v6e", file=sys.stderr, flush=True)
    reports["ours"] = cost(text)
    if JAX_PYTHON.exists():
        print("compiling JAX's", file=sys.stderr, flush=True)
        text = write_program(JAX_PYTHON, "jax_program.py", folder / "jax.mlir", {"JAX_PLATFORMS": "cpu"})
        reports["jax"] = cost(text)
    else:
        print("JAX is left out: tools/dev setup --jax makes .venv-jax", file=sys.stderr)
    return reports


def rows(reports: dict) -> list[dict]:
    made = []
    for name, (part, key), unit, suffix, most in FIGURES:
        row = {"name": name, "unit": unit, "suffix": suffix, "most": most, "noted": NOTED.get(key)}
        row |= {side: report[part][key] for side, report in reports.items()}
        if row.get("jax"):
            row["ratio"] = row["ours"] / row["jax"]
        if row["noted"]:
            row["ratio_to_noted"] = row["ours"] / row["noted"]
        made.append(row)
    return made


def show(table: list[dict]) -> None:
    print(f"GPT-2 train step for {TOPOLOGY}, as libtpu's compiler estimates it")
    print(f"  {'':20} {'ours':>12} {'JAX':>12} {'ratio':>7}  target   {'JAX, noted':>12} {'ratio':>7}")
    for row in table:
        cells = [
            "-" if row.get(side) is None else f"{row[side] / row['unit']:.2f}{row['suffix']}"
            for side in ("ours", "jax", "noted")
        ]
        ratio = f"{row['ratio']:.3f}" if "ratio" in row else "-"
        noted = f"{row['ratio_to_noted']:.3f}" if "ratio_to_noted" in row else "-"
        most = f"<= {row['most']}" if row["most"] else ""
        verdict = "" if not row["most"] or "ratio" not in row else "met" if row["ratio"] <= row["most"] else "missed"
        figures = f"{cells[0]:>12} {cells[1]:>12} {ratio:>7}  {most:8} {cells[2]:>12} {noted:>7}"
        print(f"  {row['name']:20} {figures}  {verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the reports there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the programs there")
    parser.add_argument("--ours", type=Path, metavar="FILE", help="cost this program as ours, instead of capturing it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        reports = compare(folder, options.ours)
    table = rows(reports)
    show(table)
    if options.json:
        report = {"benchmark": "gpt2_v6e", "topology": TOPOLOGY, "results": table, "reports": reports}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
