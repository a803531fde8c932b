"""How eager ops are run."""

from torch_tpu import _core


class eager_mode:
    """Sets the mode, at the call; as a context manager the mode before comes back at the end.

    "strict" issues each op at its call; "debug" also waits for it, so that an error is raised by the line that made it.
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._before = _core.eager_mode()
        if mode == "fused":
            try:
                _core.set_eager_mode(mode)
            except ValueError:
                raise ValueError(
                    'this build of torch_tpu has no fused mode: use eager_mode("strict") or eager_mode("debug")'
                ) from None
        else:
            _core.set_eager_mode(mode)

    def __enter__(self) -> "eager_mode":
        return self

    def __exit__(self, *_: object) -> None:
        _core.set_eager_mode(self._before)


def get_eager_mode() -> str:
    """The mode: "strict" or "debug"."""
    return _core.eager_mode()
