"""Which ops did not run on the device, and which are made of others."""


def fallbacks() -> dict[str, int]:
    """Ops that ran on the CPU because the device has no way to run them, and how often."""
    from torch_tpu import _core

    return _core.fallbacks()


def reset_fallbacks() -> None:
    """Forgets what `fallbacks` counted."""
    from torch_tpu import _core

    _core.reset_fallbacks()


def decompositions() -> list[str]:
    """Ops that ran so far as torch's decomposition into others."""
    from torch_tpu import _decompose

    return sorted(_decompose.registered())
