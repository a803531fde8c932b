"""The loss curve as a picture."""

from collections.abc import Sequence
from pathlib import Path


def smoothed(values: Sequence[float], weight: float = 0.9) -> list[float]:
    """An exponential moving average, unbiased at the start."""
    average, curve = 0.0, []
    for count, value in enumerate(values, 1):
        average = weight * average + (1 - weight) * value
        curve.append(average / (1 - weight**count))
    return curve


def loss_curve(path: Path, losses: Sequence[float], title: str) -> None:
    """Draws the loss of every step, and its moving average, into a PNG."""
    # Half a second that a run which only trains need not pay before its first step.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    steps = range(1, len(losses) + 1)
    axes.plot(steps, losses, color="tab:blue", alpha=0.3, linewidth=1, label="each step")
    axes.plot(steps, smoothed(losses), color="tab:blue", linewidth=2, label="moving average")
    axes.set(title=title, xlabel="step", ylabel="loss")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)
