"""Text from outside, with what nobody can see spelled out. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""What tells a terminal to change its colours or to move its cursor (ECMA-48, CSI)."""


def visible(text: str, kept: str = "") -> str:
    """The text with each character that nobody can see, or that turns the text around it, written
    as `\\u202e`. Those in `kept` stay."""
    if text.isprintable():
        return text
    return "".join(char if char in kept or _is_plain(char) else _spelled(char) for char in text)


def visible_line(text: str) -> str:
    """A line of output without the commands of a terminal; of a progress bar that was drawn again
    and again, what a terminal would show last."""
    drawn = _COLOURS.sub("", text).rstrip("\r").rpartition("\r")[2]
    return visible(drawn, kept="\t")


def argv_of(words: Iterable[str]) -> str:
    """The words of a command as a JSON list, so that each is seen to begin and to end."""
    return visible(json.dumps(list(words), ensure_ascii=False))


def _is_plain(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _spelled(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}"
