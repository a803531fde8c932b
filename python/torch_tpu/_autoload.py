"""Connects the package to torch: called by torch itself, through the entry point `torch.backends`."""

import atexit
import os
import sys
from pathlib import Path

SUPPORTED = ("2.13", "2.14", "2.15")
_done = False


def glue_path(torch_version: str) -> Path:
    """The glue library for this torch; ImportError when the version is not supported or the library not there."""
    minor = ".".join(torch_version.split(".")[:2])
    folder = Path(__file__).parent
    path = folder / f"libtorch_tpu_glue_{minor.replace('.', '_')}.so"
    if path.exists():
        return path
    have = sorted(
        p.stem.removeprefix("libtorch_tpu_glue_").replace("_", ".") for p in folder.glob("libtorch_tpu_glue_*.so")
    )
    built = (
        f"this build has a glue for torch {', '.join(have)}" if have else "this build has no glue: run tools/dev build"
    )
    raise ImportError(
        f"torch_tpu supports torch {SUPPORTED[0]} to {SUPPORTED[-1]}; torch {torch_version} is installed and {built}"
    )


def autoload() -> None:
    """Registers the device "tpu" and its module torch.tpu. Does nothing the second time."""
    global _done
    if _done:
        return
    import torch

    from torch_tpu import _core

    # XLA greets on stderr at the level of information. Its CPU plugin also says, as an error for each program from
    # disk, that tuning flags are no features of the processor; a real error reaches us as one. Users may ask for all.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3" if _core.simulates() else "1")

    path = glue_path(torch.__version__)
    # The name and the module come before the first use of the device.
    torch.utils.rename_privateuse1_backend("tpu")
    from torch_tpu import (
        _autocast,
        _control_flow,
        _default_backend,
        _device,
        _dlpack,
        _flex,
        _nested,
        _quick_check,
        _sharing,
        _sparse,
    )

    torch._register_device_module("tpu", _device)
    # `import torch.tpu.memory` gives the same module.
    for part in ("amp", "memory", "random", "streams"):
        sys.modules[f"torch.tpu.{part}"] = getattr(_device, part)
    torch.utils.generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True, for_storage=True)
    _core.open_glue(path)
    _autocast.install()
    _control_flow.install()
    _default_backend.install()
    _dlpack.install()
    _flex.install()
    _nested.install()
    _quick_check.install()
    _sharing.install()
    _sparse.install()
    atexit.register(_core.stop_fused)
    _done = True
