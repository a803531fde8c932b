"""How eager ops are run."""

from torch_tpu import _core


class eager_mode:
    """Sets the mode, at the call; as a context manager the mode before comes back at the end.

    "strict" issues each op at its call. "debug" also waits for it, so that an error is raised by the line that made it.
    "fused" puts ops off until a value is needed, and runs a sequence that recurs as one program.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._before = _core.eager_mode()
        _core.set_eager_mode(mode)

    def __enter__(self) -> "eager_mode":
        return self

    def __exit__(self, *_: object) -> None:
        _core.set_eager_mode(self._before)


def get_eager_mode() -> str:
    """The mode: "strict", "debug" or "fused"."""
    return _core.eager_mode()
