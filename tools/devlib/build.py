"""Builds the Rust crates and puts their libraries where the Python package finds them."""

import os
from pathlib import Path

from .console import Console
from .errors import DevError
from .paths import PACKAGE, target_dir

# What cargo writes, and its name in python/torch_tpu/.
ARTIFACTS = {
    "lib_core.so": "_core.abi3.so",
    "libpjrt_cpu_shim.so": "libpjrt_cpu_shim.so",
    # One a torch minor version; the checkout has that of its environment.
    "libtorch_tpu_glue.so": "libtorch_tpu_glue_2_15.so",
}
ADVICE = (
    "If protoc or libclang is named above, run tools/dev setup; if a crate cannot be downloaded,\n"
    "check that the crate registry is reachable. Otherwise the code does not compile: see the first error in the log."
)


# The crates whose libraries the package carries.
CRATES = ("bridge", "pjrt_cpu_shim", "glue")


def cargo_build(console: Console) -> None:
    command = ["cargo", "build", "--release", "--locked"]
    for crate in CRATES:
        command += ["-p", crate]
    console.run("cargo build", command, advice=ADVICE)


def place(release: Path | None = None, package: Path = PACKAGE) -> list[str]:
    """Links the built libraries into the package; returns the names that changed."""
    release = release or target_dir() / "release"
    changed = []
    for built, name in ARTIFACTS.items():
        source = release / built
        if not source.is_file():
            raise DevError(f"cargo built no {built}", f"looked in {release}", "Run tools/dev build.")
        link, wanted = package / name, os.path.relpath(source, package)
        if link.is_symlink() and str(link.readlink()) == wanted:
            continue
        link.unlink(missing_ok=True)
        link.symlink_to(wanted)
        changed.append(name)
    return changed


def build(console: Console) -> None:
    with console.stage("cargo build"):
        cargo_build(console)
    with console.stage("libraries into python/torch_tpu") as stage:
        stage.note(", ".join(place()) or "in place")
