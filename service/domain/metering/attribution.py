"""Who is charged for a node, from when on: what is changed today leaves yesterday as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from service.domain.errors import Conflict
from service.domain.ids import check_labels
from service.domain.nodes.node import Node

MAX_AHEAD = 60
"""Seconds that many changes at once may push the last one ahead: so long nobody else is charged."""

ALWAYS = 0
"""Where the first attribution of a node begins: there is no second without one."""


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whose a node is from `since`, in whole UTC seconds, until the next one of the same node."""

    node_id: str
    since: int = ALWAYS
    owner: str = ""
    team: str = ""
    job: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def first_of(node: Node) -> Attribution:
    """Whose a node is from its beginning."""
    return Attribution(node.id, ALWAYS, node.owner, node.team, "", node.labels)


def pieces(
    attributions: Sequence[Attribution], start: int, end: int
) -> Iterator[tuple[int, int, Attribution]]:
    """[start, end) in stretches of one attribution each; they are given in their order, and the
    first of them begins with the node."""
    edges = [*(one.since for one in attributions), max(end, attributions[-1].since)]
    for one, (left, right) in zip(attributions, pairwise(edges), strict=True):
        left, right = max(left, start), min(right, end)  # noqa: PLW2901 - clipped to what is asked
        if left < right:
            yield left, right, one


@dataclass(frozen=True, slots=True)
class Reattribution:
    """Who is to be charged from now on; what is None stays as it is. `labels` are merged into those
    that are there; one whose value is None is taken away."""

    owner: str | None = None
    team: str | None = None
    labels: Mapping[str, str | None] = field(default_factory=dict)


def reattributed(
    node: Node, change: Reattribution, latest: Attribution, now: int
) -> tuple[Node, Attribution] | None:
    """The node as it is to be, and whose it is from when on; None where nothing changes.

    Raises Rejected for labels that cannot be, Conflict for a node that is no more.
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
    if node.ended:
        raise Conflict(f"node {node.id} is {node.state}: its cost is already charged")
    since = max(now, latest.since + 1)  # two changes within a second: the first held for it
    if since > now + MAX_AHEAD:
        raise Conflict(
            f"who is charged for node {node.id} was changed {MAX_AHEAD} times in a row; wait a"
            " minute, then send the change once"
        )
    return after, replace(
        latest, since=since, owner=after.owner, team=after.team, labels=after.labels
    )


def difference(before: Node, after: Node) -> str:
    """What changed, as a sentence of the node's story."""
    words = []
    for name in ("owner", "team", "labels"):
        old, new = (_spelled(getattr(node, name)) for node in (before, after))
        if old != new:
            words.append(f"{name} {new}, was {old}")
    return "charged from now on to: " + "; ".join(words)


def _spelled(value: str | Mapping[str, str]) -> str:
    if isinstance(value, str):
        return value or "nobody"
    return ", ".join(f"{key}={text}" for key, text in sorted(value.items())) or "none"
