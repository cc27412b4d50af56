"""The failure of a command: lines for the user, and an exit code."""

from __future__ import annotations

FAILED = 1
MISUSED = 2


class Failure(Exception):
    """The error and the next step, in lines. The program ends with exit code `code`."""

    def __init__(self, *lines: str, code: int = FAILED) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


def is_text(said: str) -> bool:
    """Whether an argument or a variable was UTF-8. Other bytes have become surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in said)
