"""What costs can be grouped and filtered by."""

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
"""What the node did: `service.domain.idle.activity`. It changes within a usage, so no usage as a
whole has one."""

DIMENSIONS = (*_OF, ACTIVITY)

_WORD = re.compile(r"(?:\\[\\,]|[^,])+")
_ESCAPED = re.compile(r"\\([\\,])")

_NAMES = "|".join(DIMENSIONS)
_LETTER = r"(\\.|[^,\\])"
_CONDITION = rf" *({_NAMES}|{LABEL}((\\[^:]|[^,:\\])+\\?|\\)):{_LETTER}*"
_GROUP = rf" *(({_NAMES}) *|{LABEL}{_LETTER}*((\\[^ ]|[^ ,\\]) *|\\ +))"


def _listed(word: str, last: str) -> str:
    """What such words look like with commas between them. What is blank between two is dropped; a
    single backslash at the end stands for itself, which only the last word can end in."""
    return rf"(({last})?|( *|{word})(,( *|{word}))*,( *|{last}))"


FILTER = _listed(_CONDITION, rf"{_CONDITION}\\?")
"""What a filter looks like, as a regular expression that Python and ECMA-262 read alike."""

GROUPS = _listed(_GROUP, rf"({_GROUP}| *{LABEL}{_LETTER}*\\)")
"""The same of what costs are grouped by."""


def check_dimensions(names: Iterable[str]) -> None:
    """Raise Rejected, with those that exist, for a dimension that does not."""
    for name in names:
        if name not in DIMENSIONS and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            raise Rejected(
                f"{name[:80]!r} is not a dimension to group costs by",
                field="aggregate",
                dimensions=[*DIMENSIONS, f"{LABEL}<key>"],
            )


def label_key(name: str) -> str:
    """The key of the label that a dimension asks for; empty where it asks for none."""
    return name.removeprefix(LABEL) if name.startswith(LABEL) else ""


def value_of(name: str, usage: Usage, whose: Attribution) -> str:
    """What a usage counts as in a dimension; empty where it has no such label."""
    key = label_key(name)
    return whose.labels.get(key, "") if key else _OF[name](usage, whose)


def words_of(texts: Iterable[str]) -> list[str]:
    """What is listed with commas or by repetition. A comma within a word is written `\\,`."""
    found = (match[0].strip() for text in texts for match in _WORD.finditer(text))
    return [_ESCAPED.sub(r"\1", word) for word in found if word]


def only_of(texts: Iterable[str]) -> dict[str, list[str]]:
    """Filters such as `team:vision` and `label:run:17` as the values that count by dimension."""
    only: dict[str, list[str]] = {}
    for text in words_of(texts):
        name, value = _condition(text)
        only.setdefault(name, []).append(value)
    return only


def condition_of(name: str, value: str) -> str:
    """The filter that lets only that value of a dimension count, as `only_of` reads it."""
    return f"{name}:{escaped(value)}"


def escaped(word: str) -> str:
    """A word as it is written in a list, so that `words_of` finds it again."""
    return re.sub(r"([\\,])", r"\\\1", word)


def _condition(text: str) -> tuple[str, str]:
    """`team:vision` and `label:run:17` as (dimension, value)."""
    name, colon, value = text.partition(":")
    if name == "label":
        key, colon, value = value.partition(":")
        name = f"{LABEL}{key}"
    if not colon:
        raise Rejected(
            f"{text[:80]!r} is not a filter; write dimension:value, as in team:vision, and \\, for"
            " a comma within a value",
            field="filter",
        )
    try:
        check_dimensions((name,))
    except Rejected as error:
        raise Rejected(
            f"{name[:80]!r} is not a dimension to filter costs by",
            **{**error.facts, "field": "filter"},
        ) from None
    return name, value
