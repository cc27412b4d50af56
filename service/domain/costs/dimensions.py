"""The dimensions that costs can be grouped and filtered by."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from service.domain.errors import Rejected
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Usage

LABEL = "label:"

_OF: Mapping[str, Callable[[Usage, Attribution], str]] = {
    "project": lambda usage, _: usage.project,
    "team": lambda _, whose: whose.team,
    "owner": lambda _, whose: whose.owner,
    "job": lambda _, whose: whose.job,
    "node": lambda usage, _: usage.node_id,
    "generation": lambda usage, _: usage.sku.generation,
    "accelerator_type": lambda usage, _: usage.accelerator_type,
    "provisioning_model": lambda usage, _: usage.sku.model,
    "zone": lambda usage, _: usage.zone,
    "region": lambda usage, _: usage.sku.region,
}

ACTIVITY = "activity"
"""What the node did: see `service.domain.idle.signals.activity`. The activity changes within a
usage, so a usage as a whole has none."""

DIMENSIONS = (*_OF, ACTIVITY)

_WORD = re.compile(r"(?:\\[\\,]|[^,])+")
_ESCAPED = re.compile(r"\\([\\,])")

_NAMES = "|".join(DIMENSIONS)
_LETTER = r"(\\.|[^,\\])"
_CONDITION = rf" *({_NAMES}|{LABEL}((\\[^:]|[^,:\\])+\\?|\\)):{_LETTER}*"
_GROUP = rf" *(({_NAMES}) *|{LABEL}{_LETTER}*((\\[^ ]|[^ ,\\]) *|\\ +))"


def _list_pattern(word: str, last: str) -> str:
    """The regular expression of words with commas between them.

    Blanks between two commas are dropped. A single backslash at the end stands for itself, so only
    the last word can end in one.
    """
    return rf"(({last})?|( *|{word})(,( *|{word}))*,( *|{last}))"


FILTER = _list_pattern(_CONDITION, rf"{_CONDITION}\\?")
"""The regular expression of filters; Python and ECMA-262 read it alike."""

GROUPS = _list_pattern(_GROUP, rf"({_GROUP}| *{LABEL}{_LETTER}*\\)")
"""The regular expression of the dimensions that costs are grouped by."""


def check_dimensions(names: Iterable[str]) -> None:
    """Raise Rejected, with the dimensions that exist, for an unknown dimension."""
    for name in names:
        if name not in DIMENSIONS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            raise Rejected(
                f"{name[:80]!r} is not a dimension to group costs by",
                field="aggregate",
                dimensions=[*DIMENSIONS, f"{LABEL}<key>"],
            )


def label_key(name: str) -> str:
    """The label key of a dimension; empty if the dimension is not a label."""
    return name.removeprefix(LABEL) if name.startswith(LABEL) else ""


def value_of(name: str, usage: Usage, whose: Attribution) -> str:
    """The value of a usage in a dimension; empty if the usage has no such label."""
    key = label_key(name)
    return whose.labels.get(key, "") if key else _OF[name](usage, whose)


def words_of(texts: Iterable[str]) -> list[str]:
    """The dimensions or filters in a list, separated by commas or repeated. A comma within a word
    is written `\\,`."""
    found = (match[0].strip() for text in texts for match in _WORD.finditer(text))
    return [_ESCAPED.sub(r"\1", word) for word in found if word]


def only_of(texts: Iterable[str]) -> dict[str, list[str]]:
    """Filters such as `team:vision` and `label:run:17` as the accepted values by dimension."""
    only: dict[str, list[str]] = {}
    for text in words_of(texts):
        name, colon, value = text.partition(":")
        if name == "label":
            key, colon, value = value.partition(":")
            name = f"{LABEL}{key}"
        if not colon:
            raise Rejected(
                f"{text[:80]!r} is not a filter; write dimension:value, as in team:vision, and \\,"
                " for a comma within a value",
                field="filter",
            )
        try:
            check_dimensions((name,))
        except Rejected as error:
            raise Rejected(
                f"{name[:80]!r} is not a dimension to filter costs by",
                **{**error.facts, "field": "filter"},
            ) from None
        only.setdefault(name, []).append(value)
    return only


def condition_of(name: str, value: str) -> str:
    """The filter that accepts one value of a dimension only; `only_of` reads it."""
    return f"{name}:{escape_word(value)}"


def escape_word(word: str) -> str:
    """The value of a dimension with commas and backslashes escaped, as `words_of` reads it."""
    return re.sub(r"([\\,])", r"\\\1", word)
