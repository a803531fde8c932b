"""How commands fail: errors raised on purpose, and how a failure is told."""

import argparse
import json
import sys
from typing import NoReturn


class CommandError(Exception):
    """A command cannot do what was asked; its text is all that the user sees.

    `kind` is for scripts: usage, input, output, installation, compile or interrupted. `status` is the
    compiler's status code, where it gave one.
    """

    def __init__(self, text: str, code: int = 1, *, kind: str = "usage", status: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.kind = kind
        self.status = status


def tell(error: CommandError, where: str, *, as_json: bool) -> None:
    """Says on stderr what went wrong; for scripts also as JSON on stdout, where they look for the answer."""
    print(f"{where}: {error}", file=sys.stderr)
    if as_json:
        found = {"kind": error.kind, "code": error.status, "message": str(error)}
        print(json.dumps({"error": {k: v for k, v in found.items() if v is not None}}, indent=2), flush=True)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are errors like any other, so that they can be told as JSON."""

    def error(self, message: str) -> NoReturn:
        """Prints the usage and raises."""
        self.print_usage(sys.stderr)
        raise CommandError(message, 2)
