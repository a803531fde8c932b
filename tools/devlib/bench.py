"""`tools/dev bench`: what our layers cost, and how the whole compares with its peers."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import build, envs, tests
from .console import Console
from .errors import DevError
from .paths import ROOT, VENV, VENV_JAX, VENV_PEERS, shown

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
        env = {**envs.path_with_venv(), "TORCH_TPU_PLATFORM": "sim"}
        return console.run(name, command, env=env, advice=ADVICE).rstrip()

    return run


STEPS = ("gpt_step", "mlp_step", "resnet_step")
BENCHMARKS: dict[str, Callable[[Console, int, Path], str]] = {
    "chain_overhead": chain_overhead,
    "eager_overhead": script("eager_overhead"),
    "op_chain": script("op_chain"),
    **{name: script("train_step", "--model", name.removesuffix("_step")) for name in STEPS},
    "gpt2_v6e": script("gpt2_v6e", timed=False),
    "warm_start": script("warm_start", timed=False),
}
# What has sides in .venv-jax, and in .venv-peers.
WITH_JAX = {"eager_overhead", "gpt2_v6e", *STEPS}
WITH_XLA = {"eager_overhead", "op_chain", *STEPS}


def make_peers(console: Console, names: set[str]) -> None:
    """The environments of the peers; without them the benchmarks say what they leave out."""
    for venv, ensure, users in ((VENV_JAX, envs.ensure_jax, WITH_JAX), (VENV_PEERS, envs.ensure_peers, WITH_XLA)):
        if names & users:
            try:
                with console.stage(venv.name) as stage:
                    ensure(console, stage)
            except DevError as error:
                console.say(error.report())


def run(console: Console, *, rounds: int, only: list[str]) -> int:
    if unknown := [name for name in only if name not in BENCHMARKS]:
        raise DevError(f"no benchmark is called {', '.join(unknown)}", advice=f"There are {', '.join(BENCHMARKS)}.")
    build.build(console)
    make_peers(console, set(only or BENCHMARKS))
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
    """One row for each figure: benchmark, name, value, unit; the processors' figure and the target where it has one."""
    rows: list[Json] = []

    def add(benchmark: str, name: str, value: float, unit: str, **more: float | None) -> None:
        told = {key: figure for key, figure in more.items() if figure is not None}
        rows.append({"benchmark": benchmark, "name": name, "value": value, "unit": unit, **told})

    for name, r in reports.get("eager_overhead", {}).get("results", {}).items():
        add("eager_overhead", name, r["median_us"], "us an op", processor=r.get("processor_us"))
    for chain, modes in reports.get("op_chain", {}).get("results", {}).items():
        for name, r in modes.items():
            add("op_chain", f"{chain}, {name}", r["median_ms"], "ms", processor=r.get("processor_ms"))
    for benchmark in STEPS:
        report = reports.get(benchmark, {})
        for name, r in report.get("results", {}).items():
            add(benchmark, name, r["median_ms"], "ms a step", processor=r.get("processor_ms"))
        used, targets = report.get("processor_ratios", {}), report.get("targets", {})
        for name, value in report.get("ratios", {}).items():
            add(benchmark, name, value, "ratio", processor=used.get(name), most=targets.get(name))
    for name, r in reports.get("warm_start", {}).get("results", {}).items():
        add("warm_start", f"{name}, warm / cold", r["ratio"], "ratio")
    for r in reports.get("gpt2_v6e", {}).get("results", []):
        if r["most"] and "ratio" in r:
            add("gpt2_v6e", f"{r['name']}, ours / JAX", r["ratio"], "ratio", most=r["most"])
    return rows


def table(rows: list[Json]) -> str:
    """The rows for a reader. A target is one for the time, whatever the processors' figure says."""
    lines = ["", f"  {'benchmark':15} {'':29} {'median':>9} {'processors':>10} unit       target"]
    for r in rows:
        used = f"{r['processor']:10.3f}" if "processor" in r else f"{'':10}"
        line = f"  {r['benchmark']:15} {r['name']:29} {r['value']:9.3f} {used} {r['unit']:9}"
        if "most" in r:
            line += f"  <= {r['most']:.2f} {'met' if r['value'] <= r['most'] else 'missed'}"
        lines.append(line.rstrip())
    return "\n".join(lines)
