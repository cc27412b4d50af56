"""The tree of a metadata server: directories of values, and their output formats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

Json = object
Query = Mapping[str, str]


class Keys(StrEnum):
    """The form of a directory's names in JSON."""

    CAMEL = "camel"
    """`machine-type` as `machineType`: names of Google."""
    VERBATIM = "verbatim"
    """Unchanged: names of users."""
    NUMBERED = "numbered"
    """No names: the entries are a list."""


@dataclass(frozen=True)
class TreeRefusal:
    """An error in place of a value."""

    status: int
    text: str
    content_type: str = "text/html; charset=UTF-8"


@dataclass(frozen=True)
class Lines:
    """A list with one item per line."""

    items: tuple[str, ...]


Value = str | int | Lines | list[str] | dict[str, Json] | TreeRefusal


@dataclass(frozen=True)
class Leaf:
    """A value that is computed from each query; `recursive` values are part of their directory."""

    value: Callable[[Query], Value]
    recursive: bool = True


@dataclass(frozen=True)
class Directory:
    entries: Mapping[str, Directory | Leaf]
    keys: Keys = Keys.CAMEL

    def list_names(self) -> list[str]:
        """Return the names of the entries, directories with a slash."""
        return [
            f"{name}/" if isinstance(entry, Directory) else name
            for name, entry in sorted(self.entries.items())
        ]


Entry = Directory | Leaf


def constant_leaf(value: Value) -> Leaf:
    return Leaf(lambda _: value)


def as_json(entry: Entry, query: Query) -> Json:
    """Return a value, or a directory with all its entries."""
    if isinstance(entry, Leaf):
        value = entry.value(query)
        return list(value.items) if isinstance(value, Lines) else value
    values = {name: as_json(child, query) for name, child in _list_visible(entry, query)}
    match entry.keys:
        case Keys.CAMEL:
            return {
                re.sub(r"-([a-z0-9])", lambda letter: letter[1].upper(), name): value
                for name, value in values.items()
            }
        case Keys.VERBATIM:
            return values
        case Keys.NUMBERED:
            return list(values.values())


def as_lines(entry: Entry, query: Query, path: str = "") -> Iterator[str]:
    """Yield a directory as `path value` lines, the format of `recursive=true&alt=text`."""
    if isinstance(entry, Leaf):
        value = as_json(entry, query)
        yield f"{path} {value if isinstance(value, str) else dump_json(value)}\n"
        return
    for name, child in _list_visible(entry, query):
        yield from as_lines(child, query, f"{path}/{name}" if path else name)


def dump_json(content: Json) -> str:
    return json.dumps(content, separators=(",", ":"))


def _list_visible(directory: Directory, query: Query) -> Iterator[tuple[str, Entry]]:
    for name, entry in sorted(directory.entries.items()):
        if isinstance(entry, Directory) or (
            entry.recursive and not isinstance(entry.value(query), TreeRefusal)
        ):
            yield name, entry
