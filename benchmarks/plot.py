"""Draws what `tools/dev bench` measured: `python plot.py bench.json bench.png`."""

import json
import sys
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# A row of the figure: its benchmark, and the titles of its figures in time and of its ratios.
ROWS = {
    "eager_overhead": ("a chain of adds of 256 floats", ""),
    "op_chain": ("chains of 90 elementwise ops on a million floats", ""),
    "gpt_step": ("a small GPT's train step", "the same as ratios"),
    "mlp_step": ("an MLP's train step", "the same as ratios"),
    "resnet_step": ("a ResNet-18's train step", "the same as ratios"),
    "warm_start": ("", "the first step, warm / cold"),
    "gpt2_v6e": ("", "GPT-2's train step on a v6e, estimated"),
}


def draw(axes: Axes, title: str, rows: list[dict]) -> None:
    bars = axes.barh([r["name"] for r in rows], [r["value"] for r in rows], color="tab:blue")
    axes.bar_label(bars, fmt="{:.2f}", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set(title=title, xlabel=rows[0]["unit"])
    if rows[0]["unit"] == "ratio":
        axes.axvline(1, color="gray", linewidth=1)
    targets = [(place, r["most"]) for place, r in enumerate(rows) if "most" in r]
    if targets:
        places, most = zip(*targets, strict=True)
        axes.plot(most, places, "|", color="tab:red", markersize=14, markeredgewidth=2, label="the target: at most")
        axes.legend(loc="lower right")


def main() -> None:
    source, target = sys.argv[1:3]
    report = json.loads(Path(source).read_text())
    found = {}
    for name in ROWS:
        rows = [r for r in report["summary"] if r["benchmark"] == name]
        sides = [r for r in rows if r["unit"] != "ratio"], [r for r in rows if r["unit"] == "ratio"]
        if rows:
            found[name] = sides
    heights = [max(map(len, sides)) + 2 for sides in found.values()]
    figure = Figure(figsize=(15, 0.8 + 0.42 * sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(max(1, len(found)), 2, squeeze=False, height_ratios=heights or None)
    for axes in grid.flat:
        axes.set_visible(False)
    for line, (name, sides) in zip(grid, found.items(), strict=False):
        for axes, title, rows in zip(line, ROWS[name], sides, strict=True):
            if rows:
                axes.set_visible(True)
                draw(axes, title, rows)
    load = f"load average {report['load_average']:.1f} on {report['processors']} processors"
    figure.suptitle(f"tools/dev bench, {load}")
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
