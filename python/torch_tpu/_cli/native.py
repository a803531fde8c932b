"""Loads the Rust core."""

import importlib
from types import ModuleType

from torch_tpu._cli.errors import CommandError


def load_core() -> ModuleType:
    """The module torch_tpu._core, or an error that says how to get it."""
    try:
        return importlib.import_module("torch_tpu._core")
    except ImportError as error:
        raise CommandError(
            f"the Rust core cannot be loaded: {error}. In a checkout run `tools/dev build`; "
            "otherwise reinstall torch-tpu-rs",
            kind="installation",
        ) from None
