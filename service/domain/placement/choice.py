"""Decides where a node is tried next. Pure; `service.controllers.lifecycle.launch` acts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.domain.clock import to_rfc3339
from service.domain.errors import CloudError
from service.domain.nodes.node import Node, NodeSpec
from service.domain.nodes.placement import HardwareKey, Outcome, Placement
from service.domain.placement.cooldown import (
    NOT_BARRED,
    Cooldown,
    cooldowns_with_quota,
    describe_cooldown,
    was_short_lived,
)

RECHECK_SECONDS = 1_800
"""Longest time between two tries of a waiting node: a quota may have been raised meanwhile."""

SHOWN = 3
"""Reasons that a sentence names; it counts the others."""


@dataclass(frozen=True, slots=True)
class PlacementChoice:
    """The candidate that is tried at `at` (whole UTC seconds): now, or when its cooldown ends.

    `candidates` is the number of all candidates. `passed` are the earlier ones that are in
    cooldown, with their cooldowns; if none is free, all of them.
    """

    key: HardwareKey
    at: int
    candidates: int
    passed: tuple[tuple[HardwareKey, Cooldown], ...] = ()


def list_candidates(spec: NodeSpec, tried: Iterable[Placement] = ()) -> tuple[HardwareKey, ...]:
    """The candidates of a choice: the types and zones of a node, in the order of the tries.

    Candidates that Google has refused this node are left out: the answer would be the same.
    """
    refused = {attempt.key for attempt in tried if attempt.outcome is Outcome.REFUSED}
    model = str(spec.provisioning_model)
    keys = (
        HardwareKey(zone, hardware.accelerator_type, hardware.generation, model)
        for hardware in spec.possible_hardware
        for zone in hardware.zones
    )
    return tuple(key for key in keys if key not in refused)


def relevant_attempts(node: Node, history: Iterable[Placement]) -> list[Placement]:
    """The earlier attempts that count for the choice of this node's place.

    A queued resource waits at Google for hardware that is out of capacity. So the stockouts and
    short lives of other nodes do not count for it; refusals and its own failures do.
    """
    if not node.spec.queued:
        return list(history)
    return [
        attempt
        for attempt in history
        if attempt.node_id == node.id
        or (attempt.ready_at is not None and not was_short_lived(attempt))
        or attempt.outcome in {Outcome.QUOTA, Outcome.DENIED}
    ]


def choose_candidate(
    keys: Sequence[HardwareKey],
    history: Iterable[Placement],
    now: int,
    barred: Mapping[HardwareKey, Cooldown] = NOT_BARRED,
    *,
    node_id: str = "",
) -> PlacementChoice:
    """The choice of the first candidate without a cooldown. Without such a candidate it is the one
    whose cooldown ends first.

    There always is a choice: a node is given up after its `max_wait_seconds` or after refusals, not
    for a cooldown. `barred` are candidates for which a quota is too small. `node_id` is the node
    that is placed: hardware that was preempted from it has a longer cooldown for it.
    """
    cooldowns = cooldowns_with_quota(keys, history, now, barred, node_id=node_id)
    for rank, key in enumerate(keys):
        if key not in cooldowns:
            passed = tuple((earlier, cooldowns[earlier]) for earlier in keys[:rank])
            return PlacementChoice(key, now, len(keys), passed)
    soonest = min(keys, key=lambda key: cooldowns[key].until)
    others = tuple((key, cooldowns[key]) for key in keys)
    return PlacementChoice(soonest, cooldowns[soonest].until, len(keys), others)


def with_hardware(spec: NodeSpec, key: HardwareKey) -> NodeSpec:
    """The spec of a request with the hardware of the chosen `key`."""
    for hardware in spec.alternatives:
        if hardware.accelerator_type == key.accelerator_type:
            return spec.made_of(hardware)
    return spec


def next_look_at(node: Node, at: int) -> int:
    """When a node that waits until `at` for its chosen place is polled next. Its longest wait may
    end earlier."""
    spec = node.spec
    if node.ready_at is not None:
        return at
    patience = None if spec.max_wait_seconds is None else node.created_at + spec.max_wait_seconds
    return min(end for end in (at, patience, spec.valid_until) if end is not None)


def describe_candidate(key: HardwareKey, spec: NodeSpec) -> str:
    """A candidate of the choice as text: `v6e-8 in us-east5-a`; the zone alone for one type."""
    return f"{key.accelerator_type} in {key.zone}" if spec.alternatives else key.zone


def explain_choice(choice: PlacementChoice, spec: NodeSpec, now: int) -> str:
    """The reason for a choice as the end of a sentence; empty if there is one candidate."""
    if choice.candidates == 1:
        return ""
    order = "cheapest" if spec.cheapest_first else "first"
    left = " left" if choice.passed else ""
    said = [
        f"{order}{left} of {choice.candidates} places",
        *describe_passed(choice.passed, spec, now),
    ]
    return ": " + "; ".join(said)


def describe_passed(
    passed: Sequence[tuple[HardwareKey, Cooldown]], spec: NodeSpec, now: int
) -> list[str]:
    """One clause for each candidate that the choice passed because of its cooldown, SHOWN at
    most."""
    said = []
    for key, rest in passed[:SHOWN]:
        clause = f"{describe_candidate(key, spec)} {describe_cooldown(rest, key, now)}"
        end = "" if rest.probing else f"; cooldown until {to_rfc3339(rest.until)}"
        said.append(clause + end)
    more = len(passed) - SHOWN
    return [*said, f"{more} more are in cooldown"] if more > 0 else said


def describe_next_try(choice: PlacementChoice, spec: NodeSpec) -> str:
    """The next choice of place as text: `next: v6e-8 in us-east5-a at 2026-...`."""
    return f"next: {describe_candidate(choice.key, spec)} at {to_rfc3339(choice.at)}"


def describe_refusals(tried: Iterable[Placement], spec: NodeSpec) -> str:
    """Why a node without any choice left is given up: every candidate was refused. Equal reasons
    are named once."""
    places: dict[str, list[str]] = {}
    for attempt in tried:
        if attempt.outcome is Outcome.REFUSED:
            places.setdefault(attempt.reason, []).append(describe_candidate(attempt.key, spec))
    if sum(map(len, places.values())) == 1:
        return next(iter(places))
    said = [f"{', '.join(where)}: {reason}" for reason, where in places.items()]
    more = [f"and {len(said) - SHOWN} more reasons"] if len(said) > SHOWN else []
    return "; ".join(["every place refused it", *said[:SHOWN], *more])


def describe_denial(node: Node, error: CloudError) -> str:
    """What an administrator must do about a chosen zone that denies the service's credentials."""
    remedy = (
        f"run: {error.facts['run']}"
        if "run" in error.facts
        else "give the service's account the permissions of deploy/iam/steward-role.yaml in"
        f" project {node.spec.project}, or leave that zone out"
    )
    return f"{node.zone} denies the service's own credentials ({error}); {remedy}"
