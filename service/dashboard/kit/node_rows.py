"""The documents that nodes are shown by, as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.dashboard.kit.figures import Moment, duration, moment, money
from service.domain.clock import parse_rfc3339
from service.domain.money import parse_usd
from service.domain.nodes.node import Asked, NodeState
from service.domain.pricing.billing_rules import is_billable

NOT_KNOWN = "not known"
TIMES = "\N{MULTIPLICATION SIGN}"

_TONES: Mapping[str, str] = {
    NodeState.READY: "up",
    NodeState.REQUESTED: "coming",
    NodeState.QUEUED: "coming",
    NodeState.CREATING: "coming",
    NodeState.STARTING: "coming",
    NodeState.RESTARTING: "coming",
    NodeState.REIMAGING: "coming",
    NodeState.UNHIDING: "coming",
    NodeState.STOPPING: "going",
    NodeState.DELETING: "going",
    NodeState.HIDING: "going",
    NodeState.STOPPED: "still",
    NodeState.HIDDEN: "still",
    NodeState.DELETED: "still",
    NodeState.PREEMPTED: "trouble",
    NodeState.TERMINATED: "trouble",
    NodeState.REPAIRING: "trouble",
    NodeState.FAILED: "trouble",
}
_ASKED: Mapping[str, str] = {Asked.ABSENT: "deletion requested", Asked.STOPPED: "stop requested"}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node in words. `hourly` is empty when no price is known; `billed` says whether it is
    charged now, `rate_note` what to say where that is not all of it; `tone` which of a few signs
    goes with its state; `waited` for how long it has been in the queue, empty where it is not;
    `idle` what is known of its idleness, empty where it works."""

    id: str
    name: str
    owner: str
    team: str
    hardware: str
    chips: int
    zone: str
    model: str
    state: str
    tone: str
    since: Moment
    wish: str
    waited: str
    idle: str
    error: str
    created: Moment
    age: str
    ended: Moment | None
    hourly: str
    billed: bool
    rate_note: str
    cost: str


def tone_of(state: str) -> str:
    """The sign for a state; one that nobody has told us of has its own."""
    return _TONES.get(state, "unknown")


def row_of(said: Mapping[str, Any], now: int, idle: str = "") -> NodeRow:
    """A node as the API shows it as a row, with its age as of `now`, and the line about its
    idleness."""
    created = parse_rfc3339(said["created_at"])
    ended = said["ended_at"]
    until = now if ended is None else parse_rfc3339(ended)
    hourly = said["hourly_cost"]
    state = said["state"]
    return NodeRow(
        id=said["id"],
        name=said["name"],
        owner=said["owner"],
        team=said["team"],
        hardware=hardware_of(said),
        chips=said["chips"],
        zone=said["zone"],
        model=said["provisioning_model"],
        state=state,
        tone=tone_of(state),
        since=moment(parse_rfc3339(said["state_since"])),
        wish=wish_of(said),
        waited=_waited(said, now),
        idle=idle,
        error=said["last_error"],
        created=moment(created),
        age=duration(until - created),
        ended=None if ended is None else moment(until),
        hourly="" if hourly is None else money(parse_usd(hourly)),
        billed=is_billable(state),
        rate_note=_rate_note(said),
        cost=_cost_of(said),
    )


def hardware_of(said: Mapping[str, Any]) -> str:
    """The accelerator type, and how many slices of it."""
    kind = str(said["accelerator_type"])
    return kind if said["slices"] == 1 else f"{said['slices']:,} {TIMES} {kind}"


def _rate_note(said: Mapping[str, Any]) -> str:
    """When its rate is not what is charged now: that none of it is, or only some slices are."""
    if is_billable(said["state"]):
        return ""
    billed = sum(is_billable(one["state"]) for one in said["slice_states"])
    return f"{billed:,} of {said['slices']:,} slices billed" if billed else "once READY"


def _waited(said: Mapping[str, Any], now: int) -> str:
    if said["state"] != NodeState.QUEUED:
        return ""
    return duration(now - parse_rfc3339(said["state_since"]))


def _cost_of(said: Mapping[str, Any]) -> str:
    """What it cost so far; not nothing where it ran at a price that nobody knows."""
    nanos = parse_usd(said["cost"])
    unknown = nanos == 0 and said["hourly_cost"] is None and said["ready_at"] is not None
    return NOT_KNOWN if unknown else money(nanos)


def wish_of(said: Mapping[str, Any]) -> str:
    """What is asked of a node where that is not what it shows; empty where it is."""
    if said["ended_at"] is not None or said["state"] in (NodeState.DELETING, NodeState.STOPPED):
        return ""
    return _ASKED.get(said["asked"], "")
