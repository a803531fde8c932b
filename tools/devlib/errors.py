"""The one error that commands raise on purpose."""


class DevError(Exception):
    """Something failed: what, why, and what to do about it."""

    def __init__(self, what: str, why: str = "", advice: str = "", output: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.advice = advice
        # All that the failed command printed.
        self.output = output

    def report(self) -> str:
        lines = [f"failed: {self.what}"]
        if self.why:
            lines += ["why:", *("  | " + line for line in self.why.rstrip().splitlines())]
        if self.advice:
            lines += ["what to do:", *("  " + line for line in self.advice.splitlines())]
        return "\n".join(lines)
