"""Draws what `tools/dev bench` measured: `python plot.py bench.json bench.png`."""

import json
import sys
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

TITLES = {
    ("eager_overhead", "us an op"): "a chain of adds of 256 floats",
    ("op_chain", "ms"): "chains of 90 elementwise ops on a million floats",
    ("gpt_step", "ms a step"): "a small GPT's train step",
    ("gpt_step", "ratio"): "the same as ratios",
    ("mlp_step", "ms a step"): "an MLP's train step",
    ("mlp_step", "ratio"): "the same as ratios",
    ("resnet_step", "ms a step"): "a ResNet-18's train step",
    ("resnet_step", "ratio"): "the same as ratios",
    ("gpt2_v6e", "ratio"): "GPT-2's train step on a v6e, estimated",
}


def main() -> None:
    source, target = sys.argv[1:3]
    report = json.loads(Path(source).read_text())
    groups = {
        kind: rows for kind in TITLES if (rows := [r for r in report["summary"] if (r["benchmark"], r["unit"]) == kind])
    }
    figure = Figure(figsize=(9, 0.8 + 0.42 * sum(len(rows) + 2 for rows in groups.values())), layout="constrained")
    FigureCanvasAgg(figure)
    heights = [len(rows) + 1 for rows in groups.values()]
    all_axes = figure.subplots(max(1, len(groups)), 1, squeeze=False, height_ratios=heights or None)[:, 0]
    for axes, ((benchmark, unit), rows) in zip(all_axes, groups.items(), strict=False):
        bars = axes.barh([r["name"] for r in rows], [r["value"] for r in rows], color="tab:blue")
        axes.bar_label(bars, fmt="{:.2f}", padding=3)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set(title=TITLES[benchmark, unit], xlabel=unit)
        if unit == "ratio":
            axes.axvline(1, color="gray", linewidth=1)
        targets = [(place, r["most"]) for place, r in enumerate(rows) if "most" in r]
        if targets:
            places, most = zip(*targets, strict=True)
            axes.plot(most, places, "|", color="tab:red", markersize=14, markeredgewidth=2, label="the target: at most")
            axes.legend(loc="lower right")
    load = f"load average {report['load_average']:.1f} on {report['processors']} processors"
    figure.suptitle(f"tools/dev bench, {load}")
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    main()
