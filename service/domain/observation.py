"""What a look at the cloud changes in what we believe of a node and of its usage. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.domain.event import Event
from service.domain.metering import Usage, begin, closed, finish, forgiven, is_billable
from service.domain.names import new_id
from service.domain.node import LOST, CloudNode, Node, NodeState
from service.domain.operation import Operation
from service.domain.pricing import Sku
from service.domain.zones import region_of


@dataclass(frozen=True, slots=True)
class Belief:
    """A node and the usage that a look opened, closed or found running; None when there is none.

    `happened_at` is the instant of the change itself, where the evidence for it is exact.
    """

    node: Node
    usage: Usage | None
    events: tuple[Event, ...] = ()
    happened_at: int | None = None


@dataclass(frozen=True, slots=True)
class Looking:
    """The circumstances of a look: when it was answered, when the one before was asked, both in
    whole UTC seconds, and what the cloud's own record says of operations on this node.

    What was seen held at some instant between `asked` and `now`, which are far apart when the cloud
    is slow: it may have begun as late as `now`, and may have been over right after `asked`.
    """

    now: int
    before: int
    operations: Sequence[Operation] = ()
    asked: int | None = None

    @property
    def came_up(self) -> int | None:
        """When the last create or start was over, by the cloud's record."""
        return max(
            (
                op.ended_at
                for op in self.operations
                if op.verb in ("create", "start") and op.succeeded and op.ended_at is not None
            ),
            default=None,
        )

    @property
    def went_down(self) -> int | None:
        """When the last delete or stop was accepted, by the cloud's record."""
        return max(
            (
                op.created_at
                for op in self.operations
                if op.verb in ("delete", "stop") and op.error is None
            ),
            default=None,
        )


def observed(node: Node, sight: CloudNode, running: Usage | None, looking: Looking) -> Belief:
    """What to believe once the cloud has shown `sight`; `running` is the usage that is open."""
    if _lags(node, sight):
        return Belief(node, running)
    usage = _usage_after(node, sight, running, looking)
    after = replace(
        node.moved(sight.state, looking.now),
        seen_at=looking.now if looking.asked is None else looking.asked,
        # Where only one create was sent, what is seen is what came of it.
        unanswered_at=None if node.unanswered_at == node.sent_at else node.unanswered_at,
        cloud_uid=sight.uid,
        health=sight.health,
        endpoints=sight.endpoints,
    )
    if usage is not None and after.up_since is None:
        first = usage.start if after.ready_at is None else after.ready_at
        after = replace(after, up_since=usage.start, ready_at=first)
    instant = _instant(running, usage)
    if instant is not None and after.state != node.state:
        after = replace(after, state_since=instant)
    told = _said(node, after, sight, looking.now)
    return Belief(after, usage, told, happened_at=instant)


def _lags(node: Node, sight: CloudNode) -> bool:
    """Whether the cloud shows what is long past: a node that was up is never created again."""
    same = node.cloud_uid == sight.uid
    return same and sight.state == NodeState.CREATING and node.up_since is not None


def _instant(running: Usage | None, usage: Usage | None) -> int | None:
    """When the change itself was, where the cloud's record says so; None where a look must do."""
    if usage is None or usage == running:
        return None
    if usage.end is None:
        return usage.start if usage.start == usage.start_hi else None
    return usage.end if usage.end == usage.end_lo else None


def gone(node: Node, running: Usage | None, looking: Looking) -> Usage | None:
    """The usage of a node that the cloud no longer has: closed, or found out about at the last."""
    if running is not None:
        return _close(running, looking)
    return _missed(node, looking)


def _usage_after(
    node: Node, sight: CloudNode, running: Usage | None, looking: Looking
) -> Usage | None:
    if is_billable(sight.state):
        return running if running is not None else _open(node, looking)
    usage = gone(node, running, looking) if _may_have_run(sight.state) or running else None
    if usage is not None and sight.state in LOST:
        return forgiven(usage, sight.created_at)
    return usage


def _may_have_run(state: str) -> bool:
    """Whether READY may lie between the last look and this state."""
    return state not in (NodeState.CREATING, NodeState.STARTING)


def _open(node: Node, looking: Looking) -> Usage:
    came_up = looking.came_up
    if node.up_since is not None and came_up is not None and came_up < looking.before:
        came_up = None  # it began an interval that is over
    start, start_hi, evidence = begin(looking.before, looking.now, came_up)
    spec = node.spec
    return Usage(
        id=new_id(),
        node_id=node.id,
        project=spec.project,
        owner=node.owner,
        team=node.team,
        zone=node.zone,
        accelerator_type=spec.accelerator_type,
        chips=spec.chips,
        sku=Sku(spec.generation, spec.provisioning_model, region_of(node.zone), spec.hosts == 1),
        start=start,
        start_hi=start_hi,
        start_evidence=evidence,
        posted_until=start,
    )


def _close(usage: Usage, looking: Looking) -> Usage:
    went_down = looking.went_down
    if went_down is not None and went_down < usage.start:
        went_down = None
    return closed(usage, *finish(looking.before, looking.now, went_down))


def _missed(node: Node, looking: Looking) -> Usage | None:
    """Usage that two looks both missed: the cloud's record says that the node came up."""
    came_up = looking.came_up
    if node.up_since is not None or came_up is None:
        return None
    return _close(_open(node, looking), replace(looking, before=came_up))


def _said(before: Node, after: Node, sight: CloudNode, now: int) -> tuple[Event, ...]:
    told: list[Event] = []
    if not before.cloud_uid and not before.operation:
        found = f"found {after.cloud_id} in {after.zone}: an earlier request had taken effect"
        told.append(Event(after.id, now, "adopted", found))
    if before.state == after.state:
        return tuple(told)
    message = f"{after.state} in {after.zone}, was {before.state}"
    if sight.health_description:
        message += f": {sight.health_description}"
    facts = {"from": before.state, "to": after.state}
    return (*told, Event(after.id, now, "state", message, facts=facts))
