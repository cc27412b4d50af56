"""Text from outside as it is shown: visible, and in whole sentences. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
"""Commands to a terminal to change its colours or to move its cursor (ECMA-48, CSI)."""

_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)Z\b")
"""An instant as messages have it (RFC 3339)."""


def escape_invisible(text: str, kept: str = "") -> str:
    """The text with each invisible character, and each that changes the direction of the text
    around it, written as `\\u202e`. Characters in `kept` stay."""
    if text.isprintable():
        return text
    shown = []
    for char in text:
        if char in kept or char.isprintable() or unicodedata.category(char) == "Zs":
            shown.append(char)
        else:
            number = ord(char)
            shown.append(f"\\u{number:04x}" if number < 0x1_0000 else f"\\U{number:08x}")
    return "".join(shown)


def escape_log_line(text: str) -> str:
    """A line of output without commands to a terminal. Of a progress bar that was drawn several
    times, the last state, as a terminal shows it."""
    drawn = _COLOURS.sub("", text).rstrip("\r").rpartition("\r")[2]
    return escape_invisible(drawn, kept="\t")


def format_argv(words: Iterable[str]) -> str:
    """The words of a command as a JSON list, which shows where each word begins and ends."""
    return escape_invisible(json.dumps(list(words), ensure_ascii=False))


def to_sentence(message: str) -> str:
    """A message with a capital letter and a full stop, and with its instants written as on the rest
    of the page; otherwise unchanged."""
    text = _INSTANT.sub(r"\1 \2 UTC", message.strip())
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")
