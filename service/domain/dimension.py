"""What costs can be grouped and filtered by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from service.domain.attribution import Attribution
from service.domain.errors import Rejected
from service.domain.metering import Usage

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
    "activity": lambda _usage, _whose: ACTIVITY,
}

ACTIVITY = "unknown"
"""Until something tells what is idle, nobody can say of any second whether it was."""

DIMENSIONS = tuple(_OF)


def check_dimensions(names: Iterable[str]) -> None:
    """Raise Rejected, with those that exist, for a dimension that does not."""
    for name in names:
        if name not in _OF and not (name.startswith(LABEL) and len(name) > len(LABEL)):
            raise Rejected(
                f"{name[:80]!r} is not something costs can be grouped by",
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
