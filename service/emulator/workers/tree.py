"""The shape of what a metadata server holds: directories of values, and how they are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

Json = object
Query = Mapping[str, str]


class Keys(StrEnum):
    """How the names in a directory appear in JSON."""

    CAMEL = "camel"
    """`machine-type` as `machineType`: what Google named."""
    VERBATIM = "verbatim"
    """As they are: what users named."""
    NUMBERED = "numbered"
    """Not at all: the entries are a list."""


@dataclass(frozen=True)
class TreeRefusal:
    """What stands in place of a value that cannot be had."""

    status: int
    text: str
    content_type: str = "text/html; charset=UTF-8"


@dataclass(frozen=True)
class Lines:
    """A list that is written one a line."""

    items: tuple[str, ...]


Value = str | int | Lines | list[str] | dict[str, Json] | TreeRefusal


@dataclass(frozen=True)
class Leaf:
    """A value, computed when asked for, from the query; only some are part of their directory."""

    value: Callable[[Query], Value]
    recursive: bool = True


@dataclass(frozen=True)
class Directory:
    entries: Mapping[str, Directory | Leaf]
    keys: Keys = Keys.CAMEL

    def names(self) -> list[str]:
        """List what is in it, directories with a slash."""
        return [
            f"{name}/" if isinstance(entry, Directory) else name
            for name, entry in sorted(self.entries.items())
        ]


Entry = Directory | Leaf


def constant(value: Value) -> Leaf:
    return Leaf(lambda _: value)


def as_json(entry: Entry, query: Query) -> Json:
    """Write a value, or a directory with all there is in it."""
    if isinstance(entry, Leaf):
        value = entry.value(query)
        return list(value.items) if isinstance(value, Lines) else value
    shown = {name: as_json(each, query) for name, each in _shown(entry, query)}
    match entry.keys:
        case Keys.CAMEL:
            return {_camel(name): value for name, value in shown.items()}
        case Keys.VERBATIM:
            return shown
        case Keys.NUMBERED:
            return list(shown.values())


def as_lines(entry: Entry, query: Query, path: str = "") -> Iterator[str]:
    """Write a directory as `path value` lines, as `recursive=true&alt=text` asks for."""
    if isinstance(entry, Leaf):
        value = as_json(entry, query)
        yield f"{path} {value if isinstance(value, str) else written(value)}\n"
        return
    for name, each in _shown(entry, query):
        yield from as_lines(each, query, f"{path}/{name}" if path else name)


def written(content: Json) -> str:
    return json.dumps(content, separators=(",", ":"))


def _shown(directory: Directory, query: Query) -> Iterator[tuple[str, Entry]]:
    for name, each in sorted(directory.entries.items()):
        if isinstance(each, Directory) or (
            each.recursive and not isinstance(each.value(query), TreeRefusal)
        ):
            yield name, each


def _camel(name: str) -> str:
    return re.sub(r"-([a-z0-9])", lambda found: found[1].upper(), name)
