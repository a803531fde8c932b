"""The one error that commands raise on purpose."""


class CommandError(Exception):
    """A command cannot do what was asked; its text is all that the user sees."""

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code
