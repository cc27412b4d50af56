"""The cleanup plan: exactly what would be ended, why and when. Pure.

A plan is known by what it was decided from. Whoever applies it repeats its id; a plan that would be
another one by now is stale, and nothing is done.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from service.domain.errors import Conflict
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """What was known of one node: the version of its row, since when its course is in its state,
    the version of its policy, and what the evidence proves, in words that do not change with the
    time of day."""

    node_version: int
    incarnation: int
    course_since: int
    policy: str
    policy_version: int
    verdict: str


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A node that is stopped or deleted when the plan is applied: why, when the daemon would do it
    by itself (a whole UTC second, None for never), and what it costs an hour in nano-dollars; None
    where no price is known."""

    node_id: str
    name: str
    action: Action
    reason: str
    due_at: int | None
    hourly: int | None
    basis: PlanBasis


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The plan of one project at one instant. `held_by` are the rails that keep the daemon from
    beginning it by itself, `paused` the version of the pause; 0 for none."""

    project: str
    as_of: int
    entries: tuple[PlanEntry, ...]
    held_by: tuple[Rail, ...] = ()
    paused: int = 0

    @property
    def id(self) -> str:
        """The same for the same decision, whenever it is made: times do not count."""
        decided = {
            "project": self.project,
            "entries": [
                [entry.node_id, entry.action, asdict(entry.basis)] for entry in self._sorted()
            ],
            "held_by": sorted(self.held_by),
            "paused": self.paused,
        }
        text = json.dumps(decided, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def saves_hourly(self) -> int:
        """Nano-dollars an hour that all of it costs, as far as prices are known."""
        return sum(entry.hourly or 0 for entry in self.entries)

    def _sorted(self) -> list[PlanEntry]:
        return sorted(self.entries, key=lambda entry: entry.node_id)


def check_fresh(plan_id: str, before: CleanupPlan | None, now: CleanupPlan) -> None:
    """Raise Conflict, with what has changed, where the plan of that id is not the plan of now.
    `before` is the plan of that id; None where nobody knows it."""
    if plan_id == now.id:
        return
    changed = ["there is no such plan"] if before is None else list(differences(before, now))
    raise Conflict(
        f"the plan is stale: {'; '.join(changed[:5])}; make a new plan and read it",
        plan_id=now.id,
        changed=changed,
    )


def differences(before: CleanupPlan, after: CleanupPlan) -> Iterator[str]:
    """What is otherwise than it was, a sentence each."""
    was, is_now = _by_node(before.entries), _by_node(after.entries)
    for node_id in sorted(was.keys() - is_now.keys()):
        yield f"node {was[node_id].name} is no longer in the plan"
    for node_id in sorted(is_now.keys() - was.keys()):
        yield f"node {is_now[node_id].name} is new in the plan"
    for node_id in sorted(was.keys() & is_now.keys()):
        old, new = was[node_id], is_now[node_id]
        if old.action is not new.action:
            yield f"node {new.name}: {new.action} instead of {old.action}"
        elif old.basis != new.basis:
            yield f"node {new.name}: {', '.join(_changes(old.basis, new.basis))} changed"
    if set(before.held_by) != set(after.held_by):
        yield f"rails: {_names(after.held_by)} instead of {_names(before.held_by)}"
    if before.paused != after.paused:
        yield "the pause was changed"


def _by_node(entries: Sequence[PlanEntry]) -> Mapping[str, PlanEntry]:
    return {entry.node_id: entry for entry in entries}


_CALLED = {
    "node_version": "the node",
    "incarnation": "its incarnation",
    "course_since": "its course",
    "policy": "its policy",
    "policy_version": "its policy",
    "verdict": "the verdict",
}


def _changes(before: PlanBasis, after: PlanBasis) -> list[str]:
    old, new = asdict(before), asdict(after)
    return list(dict.fromkeys(_CALLED[name] for name in old if old[name] != new[name]))


def _names(rails: Iterable[Rail]) -> str:
    return ", ".join(sorted(rails)) or "none"
