"""Attributions: who is charged for a node, and since when. A change does not affect the past."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from service.domain.errors import Conflict
from service.domain.ids import check_labels
from service.domain.nodes.node import Node

MAX_AHEAD = 60
"""Maximum number of seconds by which repeated changes may start in the future. Until then the
earlier attribution is charged."""

ALWAYS = 0
"""Start of the first attribution of a node: every second has an attribution."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Who is charged from `since` (whole UTC seconds) until the next attribution of the node."""

    node_id: str
    since: int = ALWAYS
    owner: str = ""
    team: str = ""
    job: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def first_attribution(node: Node) -> Attribution:
    """The attribution of a node from its beginning."""
    return Attribution(node.id, ALWAYS, node.owner, node.team, "", node.labels)


def split_by_attribution(
    attributions: Sequence[Attribution], start: int, end: int
) -> Iterator[tuple[int, int, Attribution]]:
    """The parts of [start, end), each with its attribution.

    The attributions come in order, and the first begins with the node.
    """
    edges = [*(whose.since for whose in attributions), max(end, attributions[-1].since)]
    for whose, (since, until) in zip(attributions, pairwise(edges), strict=True):
        left, right = max(since, start), min(until, end)
        if left < right:
            yield left, right, whose


@dataclass(frozen=True, slots=True)
class Reattribution:
    """A change of who is charged from now on; a field that is None stays as it is.

    `labels` are merged into the present labels; a label with the value None is removed.
    """

    owner: str | None = None
    team: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)


def apply_reattribution(
    node: Node, change: Reattribution, latest: Attribution, now: int
) -> tuple[Node, Attribution] | None:
    """The changed node and its new attribution; None if nothing changes.

    Raises Rejected for invalid labels, Conflict for a node that has ended.
    """
    merged = {**node.labels, **change.labels}
    labels = {key: value for key, value in merged.items() if value is not None}
    check_labels(labels)
    after = replace(
        node,
        owner=node.owner if change.owner is None else change.owner,
        team=node.team if change.team is None else change.team,
        labels=labels,
    )
    if after == node:
        return None
    if node.has_ended:
        raise Conflict(f"node {node.id} is {node.state}: its cost is already charged")
    since = max(now, latest.since + 1)  # of two changes within a second, the first lasts a second
    if since > now + MAX_AHEAD:
        raise Conflict(
            f"who is charged for node {node.id} was changed {MAX_AHEAD} times in a row; wait a"
            " minute, then send the change once"
        )
    return after, replace(
        latest, since=since, owner=after.owner, team=after.team, labels=after.labels
    )


def describe_change(before: Node, after: Node) -> str:
    """The changes of an attribution, as a sentence of the node's events."""
    words = []
    for name in ("owner", "team", "labels"):
        old, new = (_format_value(getattr(node, name)) for node in (before, after))
        if old != new:
            words.append(f"{name} {new}, was {old}")
    return "charged from now on to: " + "; ".join(words)


def _format_value(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value or "nobody"
    return ", ".join(f"{key}={text}" for key, text in sorted(value.items())) or "none"
