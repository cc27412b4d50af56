"""The cleanup plan: exactly the nodes that would end, with reason and time. Pure.

The id of a plan is a hash of its basis. A caller applies a plan by its id. A plan whose id has
changed since is stale, and is not applied.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from service.domain.errors import Conflict
from service.domain.idle.cleanup import ExpectedEnd
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail


@dataclass(frozen=True, slots=True)
class PlanBasis:
    """The basis of the decision on one node: the version of its row, the begin of its course's
    state, the version of its policy, and the verdict as a text that does not depend on the time."""

    node_version: int
    incarnation: int
    course_since: int
    policy: str
    policy_version: int
    verdict: str


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A node that is stopped or deleted when the plan is applied: the reason, when the daemon would
    do it by itself (a whole UTC second, None for never), and its cost an hour in nano-dollars; None
    where the price is unknown. `expected` is when the daemon does it with the rails that hold now;
    None for never."""

    node_id: str
    name: str
    action: Action
    reason: str
    due_at: int | None
    hourly: int | None
    basis: PlanBasis
    expected: ExpectedEnd | None = None


@dataclass(frozen=True, slots=True)
class CleanupPlan:
    """The plan of one project at one instant. `held_by` are the rails that keep the daemon from
    applying it, `paused` the version of the pause; 0 for none."""

    project: str
    as_of: int
    entries: tuple[PlanEntry, ...]
    held_by: tuple[Rail, ...] = ()
    paused: int = 0

    @property
    def id(self) -> str:
        """A hash of the decision. The same decision at another time has the same id."""
        decided = {
            "project": self.project,
            "entries": [
                [entry.node_id, entry.action, asdict(entry.basis)]
                for entry in sorted(self.entries, key=lambda entry: entry.node_id)
            ],
            "held_by": sorted(self.held_by),
            "paused": self.paused,
        }
        text = json.dumps(decided, separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    @property
    def saves_hourly(self) -> int:
        """Nano-dollars an hour of all nodes together, as far as prices are known."""
        return sum(entry.hourly or 0 for entry in self.entries)


def check_fresh(plan_id: str, before: CleanupPlan | None, current: CleanupPlan) -> None:
    """Raise Conflict, with the changes, if the plan with this id is not the current cleanup plan.
    `before` is the plan with this id; None where it is unknown."""
    if plan_id == current.id:
        return
    changed = (
        ["there is no such plan"] if before is None else list(list_differences(before, current))
    )
    raise Conflict(
        f"the plan is stale: {'; '.join(changed[:5])}; make a new plan and read it",
        plan_id=current.id,
        changed=changed,
    )


def list_differences(before: CleanupPlan, after: CleanupPlan) -> Iterator[str]:
    """Yield a text for each difference between two cleanup plans."""
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
            old_basis, new_basis = asdict(old.basis), asdict(new.basis)
            changed = [_CALLED[name] for name in old_basis if old_basis[name] != new_basis[name]]
            yield f"node {new.name}: {', '.join(dict.fromkeys(changed))} changed"
    if set(before.held_by) != set(after.held_by):
        yield f"rails: {_format_rails(after.held_by)} instead of {_format_rails(before.held_by)}"
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


def _format_rails(rails: Iterable[Rail]) -> str:
    return ", ".join(sorted(rails)) or "none"
