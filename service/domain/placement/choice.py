"""Where a node is tried next. Pure: it decides, `service.controllers.lifecycle.launch` acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.clock import MINUTE, rfc3339
from service.domain.errors import CloudError
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.placement import Key, Outcome, Placement
from service.domain.placement.cooldown import Rest, died_young, rests

NOT_BARRED: Mapping[Key, Rest] = {}

LOOK_AGAIN_SECONDS = 1_800
"""How long a node waits at most before what it waits for is looked at again: a quota may have been
raised meanwhile."""

SHOWN = 3
"""Reasons that one sentence holds; of more, it says how many."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is tried at `at`: now, or as soon as the first of the candidates need not be left alone.

    `candidates` counts all there are; `passed` are those left alone that would have come before it,
    each with the reason, and where none is free all of them. Instants in whole UTC seconds.
    """

    key: Key
    at: int
    candidates: int
    passed: tuple[tuple[Key, Rest], ...] = ()


def candidates(spec: NodeSpec, tried: Iterable[Placement] = ()) -> tuple[Key, ...]:
    """All that the node may be made of, and where, in the order in which it is tried; without what
    the cloud has refused this very node, which it will not grant the next time either."""
    refused = {one.key for one in tried if one.outcome is Outcome.REFUSED}
    model = str(spec.provisioning_model)
    keys = (
        Key(zone, each.accelerator_type, each.generation, model)
        for each in spec.possible
        for zone in each.zones
    )
    return tuple(key for key in keys if key not in refused)


def concerning(node: Node, history: Iterable[Placement]) -> list[Placement]:
    """The attempts that say something to this node.

    One that asks through Google's queue waits there for what ran out. So neither the stock-outs of
    others nor their early deaths keep it away, but refusals do, and its own failures.
    """
    if not node.spec.queued:
        return list(history)
    return [
        one
        for one in history
        if one.node_id == node.id
        or (one.ready_at is not None and not died_young(one))
        or one.outcome in {Outcome.QUOTA, Outcome.DENIED}
    ]


def choose(
    keys: Sequence[Key],
    history: Iterable[Placement],
    now: int,
    barred: Mapping[Key, Rest] = NOT_BARRED,
    *,
    node_id: str = "",
) -> Choice:
    """The first candidate that need not be left alone; else the one that is free the soonest.

    There is always one: a node is given up by its owner's clock or by refusals, never by patience.
    `barred` are those that a quota is too small for, as long as that is believed. `node_id` is the
    node that asks: what was taken back from it at once it leaves alone for longer than others do.
    """
    resting = left_alone(keys, history, now, barred, node_id=node_id)
    for rank, key in enumerate(keys):
        if key not in resting:
            return Choice(key, now, len(keys), tuple((one, resting[one]) for one in keys[:rank]))
    soonest = min(keys, key=lambda key: resting[key].until)
    others = tuple((key, resting[key]) for key in keys)
    return Choice(soonest, resting[soonest].until, len(keys), others)


def left_alone(
    keys: Sequence[Key],
    history: Iterable[Placement],
    now: int,
    barred: Mapping[Key, Rest] = NOT_BARRED,
    *,
    node_id: str = "",
) -> dict[Key, Rest]:
    """What is to be left alone of these keys, by what became of others or by a quota: whichever
    keeps it the longer."""
    resting = dict(rests(keys, history, now, node_id))
    for key, rest in barred.items():
        if key not in resting or resting[key].until < rest.until:
            resting[key] = rest
    return resting


def made_as(spec: NodeSpec, key: Key) -> NodeSpec:
    """The same wish, of the hardware that is tried now."""
    for one in spec.alternatives:
        if one.accelerator_type == key.accelerator_type:
            return spec.made_of(one)
    return spec


def not_before(node: Node, at: int) -> int:
    """When to look at a node next that waits until `at`: its owner's patience may end sooner."""
    spec = node.spec
    if node.ready_at is not None:
        return at
    patience = None if spec.max_wait_seconds is None else node.created_at + spec.max_wait_seconds
    return min(end for end in (at, patience, spec.valid_until) if end is not None)


def named(key: Key, spec: NodeSpec) -> str:
    """What is tried and where, in as many words as it takes."""
    return f"{key.accelerator_type} in {key.zone}" if spec.alternatives else key.zone


def why(choice: Choice, spec: NodeSpec, now: int) -> str:
    """Why that candidate, as the end of a sentence; empty where there is no other."""
    if choice.candidates == 1:
        return ""
    order = "cheapest" if spec.cheapest_first else "first"
    left = " left" if choice.passed else ""
    said = [f"{order}{left} of {choice.candidates} places", *told(choice.passed, spec, now)]
    return ": " + "; ".join(said)


def told(passed: Sequence[tuple[Key, Rest]], spec: NodeSpec, now: int) -> list[str]:
    """What is left alone, and why, in clauses."""
    said = [_clause(key, rest, spec, now) for key, rest in passed[:SHOWN]]
    more = len(passed) - SHOWN
    return [*said, f"{more} more are in cooldown"] if more > 0 else said


def _clause(key: Key, rest: Rest, spec: NodeSpec, now: int) -> str:
    said = f"{named(key, spec)} {reason_of(rest, key, now)}"
    return said if rest.probing else f"{said}; cooldown until {rfc3339(rest.until)}"


def reason_of(rest: Rest, key: Key, now: int) -> str:
    """Why it is left alone, as what is said of a place."""
    if rest.said:
        return rest.said
    whose = "" if rest.place == key.zone else f" in {rest.place}"
    said = f"{_WORDS[rest.outcome]}{whose} {_ago(now - rest.since)}"
    return f"{said} and another node is trying it now" if rest.probing else said


_WORDS = {
    Outcome.STOCK_OUT: "was out of capacity",
    Outcome.QUOTA: "was refused for lack of quota",
    Outcome.DENIED: "denied the service's own credentials",
    Outcome.FAILED: "failed",
    Outcome.NAME_TAKEN: "failed",
    Outcome.PREEMPTED: "preempted a node at once",
}


def _ago(seconds: int) -> str:
    if seconds < 2 * MINUTE:
        return f"{seconds} s ago"
    return f"{seconds // MINUTE} min ago"


def next_try(choice: Choice, spec: NodeSpec) -> str:
    """What is tried next, and when, in a clause."""
    return f"next: {named(choice.key, spec)} at {rfc3339(choice.at)}"


def refusals(tried: Iterable[Placement], spec: NodeSpec) -> str:
    """Why a node is given up that every candidate has refused; the same reason is said once."""
    places: dict[str, list[str]] = {}
    for one in tried:
        if one.outcome is Outcome.REFUSED:
            places.setdefault(one.reason, []).append(named(one.key, spec))
    if sum(map(len, places.values())) == 1:
        return next(iter(places))
    said = [f"{', '.join(where)}: {reason}" for reason, where in places.items()]
    more = [f"and {len(said) - SHOWN} more reasons"] if len(said) > SHOWN else []
    return "; ".join(["every place refused it", *said[:SHOWN], *more])


def denial(node: Node, error: CloudError) -> str:
    """What a human is to do about credentials that may not create a node."""
    remedy = (
        f"run: {error.facts['run']}"
        if "run" in error.facts
        else "give the service's account the permissions of deploy/iam/steward-role.yaml in"
        f" project {node.spec.project}, or leave that zone out"
    )
    return f"{node.zone} denies the service's own credentials ({error}); {remedy}"
