"""How a command fails: a few lines for a person, and an exit code."""

from __future__ import annotations

FAILED = 1
MISUSED = 2


class Failure(Exception):
    """What went wrong and what to do about it, in lines; the program ends with `code`."""

    def __init__(self, *lines: str, code: int = FAILED) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines
        self.code = code


def is_text(said: str) -> bool:
    """Whether what came from outside was UTF-8: bytes that were not have become surrogates."""
    return not any("\ud800" <= letter <= "\udfff" for letter in said)
