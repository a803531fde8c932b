"""`tools/dev bench`: what our layers cost, and how the whole compares with its peers."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import build, envs, tests
from .console import Console
from .errors import DevError
from .paths import ROOT, VENV, VENV_JAX, shown

OUT = ROOT / "target" / "bench"
FOLDER = ROOT / "benchmarks"
ADVICE = "Close other programs: the runs are compared."
Json = dict[str, Any]


def chain_overhead(console: Console, rounds: int, out: Path) -> str:
    """Our client against a bare loop in C, over one plugin."""
    command = ["cargo", "run", "--release", "--locked", "-q", "-p", "pjrt", "--example", "chain_overhead", "--"]
    command += ["--cpu-plugin", str(tests.plugin(tests.FIRST_PLUGIN)), "--shim", str(tests.SHIM)]
    output = console.run("chain overhead", [*command, "--rounds", str(rounds)], advice=ADVICE)
    out.write_text(json.dumps({"benchmark": "chain_overhead", "text": output}) + "\n")
    return output.rstrip()


def script(name: str, *words: str, timed: bool = True) -> Callable[[Console, int, Path], str]:
    """A benchmark of a folder of its own, which writes its report where it is told."""

    def run(console: Console, rounds: int, out: Path) -> str:
        out.unlink(missing_ok=True)
        command = [envs.python_of(VENV), FOLDER / name / "run.py", *words, "--json", out]
        if timed:
            command += ["--rounds", str(rounds)]
        if name == "eager_overhead" and (peer := envs.python_of(VENV_JAX)).exists():
            command += ["--peer-python", peer]
        env = {**envs.path_with_venv(), "TORCH_TPU_PLATFORM": "sim"}
        return console.run(name, command, env=env, advice=ADVICE).rstrip()

    return run


BENCHMARKS: dict[str, Callable[[Console, int, Path], str]] = {
    "chain_overhead": chain_overhead,
    "eager_overhead": script("eager_overhead"),
    "op_chain": script("op_chain"),
    "gpt_step": script("gpt_step"),
    "gpt2_v6e": script("gpt2_v6e", timed=False),
    "warm_start": script("warm_start", timed=False),
}


def run(console: Console, *, rounds: int, only: list[str]) -> int:
    if unknown := [name for name in only if name not in BENCHMARKS]:
        raise DevError(f"no benchmark is called {', '.join(unknown)}", advice=f"There are {', '.join(BENCHMARKS)}.")
    build.build(console)
    OUT.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in only or BENCHMARKS:
        try:
            with console.stage(name):
                console.say(BENCHMARKS[name](console, rounds, OUT / f"{name}.json"))
        except DevError as error:
            # The others say something all the same.
            console.say(error.report())
            failed.append(name)
    reports = {name: json.loads(path.read_text()) for name in BENCHMARKS if (path := OUT / f"{name}.json").is_file()}
    rows = summary(reports)
    result = {"load_average": os.getloadavg()[0], "processors": os.cpu_count(), "summary": rows, "reports": reports}
    (OUT / "bench.json").write_text(json.dumps(result, indent=1) + "\n")
    console.say(table(rows))
    with console.stage("plot") as stage:
        plot = OUT / "bench.png"
        console.run("plot", [envs.python_of(VENV), FOLDER / "plot.py", OUT / "bench.json", plot])
        stage.note(f"{shown(OUT / 'bench.json')}, {shown(plot)}")
    return 1 if failed else 0


def summary(reports: dict[str, Json]) -> list[Json]:
    """One row for each figure: benchmark, name, value, unit."""
    rows: list[Json] = []

    def add(benchmark: str, name: str, value: float, unit: str) -> None:
        rows.append({"benchmark": benchmark, "name": name, "value": value, "unit": unit})

    for name, r in reports.get("eager_overhead", {}).get("results", {}).items():
        add("eager_overhead", name, r["median_us"], "us an op")
    for chain, modes in reports.get("op_chain", {}).get("results", {}).items():
        for name, r in modes.items():
            add("op_chain", f"{chain}, {name}", r["median_ms"], "ms")
    gpt = reports.get("gpt_step", {})
    for name, r in gpt.get("results", {}).items():
        add("gpt_step", name, r["median_ms"], "ms a step")
    for name, value in gpt.get("ratios", {}).items():
        add("gpt_step", name, value, "ratio")
    for name, r in reports.get("warm_start", {}).get("results", {}).items():
        add("warm_start", f"{name}, warm / cold", r["ratio"], "ratio")
    for r in reports.get("gpt2_v6e", {}).get("results", []):
        if r["most"] and "ratio" in r:
            add("gpt2_v6e", f"{r['name']}, ours / JAX", r["ratio"], "ratio")
    return rows


def table(rows: list[Json]) -> str:
    lines = ["", f"  {'benchmark':16} {'':34} {'median':>9}"]
    lines += [f"  {r['benchmark']:16} {r['name']:34} {r['value']:9.3f} {r['unit']}" for r in rows]
    return "\n".join(lines)
