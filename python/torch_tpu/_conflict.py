"""Google's `torch-tpu` has our import name: with both installed, one's files overwrite the other's."""

import os
import sys
import warnings
from collections.abc import Sequence

GOOGLE = "torch-tpu"
OURS = "torch-tpu-rs"
FIX = f"pip uninstall -y {GOOGLE} {OURS} && pip install {OURS}"


def google_distributions(paths: Sequence[str] | None = None) -> list[str]:
    """The metadata folders of Google's distribution on the import path.

    Reads folder names only: importlib.metadata would cost every import of this package 15 ms.
    """
    found = []
    for path in dict.fromkeys(sys.path if paths is None else paths):
        try:
            names = os.listdir(path or ".")
        except OSError:
            continue
        for name in names:
            project, dash, _ = name.partition("-")
            if dash and name.endswith((".dist-info", ".egg-info")) and project.lower() == "torch_tpu":
                found.append(os.path.join(path or ".", name))
    return sorted(found)


def conflict_text(found: Sequence[str]) -> str:
    """What is wrong, for a warning and for doctor."""
    return (
        f"Google's distribution {GOOGLE!r} is installed too ({', '.join(found)}). "
        f"It has the same import name as {OURS!r} and the two overwrite each other's files"
    )


def warn_of_conflict() -> None:
    """Warns when Google's distribution is installed."""
    found = google_distributions()
    if found:
        warnings.warn(f"{conflict_text(found)}. Remove {GOOGLE!r}: {FIX}", RuntimeWarning, stacklevel=3)
