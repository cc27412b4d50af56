"""Nodes, as the API shows them, as rows of a table. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.dashboard.kit.figures import Moment, format_duration, format_money, to_moment
from service.dashboard.kit.visible_text import escape_invisible
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
FAILING = "DELETING (failing)"
"""The state on pages of a node whose deletion fails. The cloud shows another one."""

_ASKED: Mapping[str, str] = {Asked.ABSENT: "deletion requested", Asked.STOPPED: "stop requested"}


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node in words. `hourly` is empty when no price is known. `billed` is whether the node is
    charged now; `rate_note` says when `hourly` is not what is charged now. `tone` is one of a few
    signs and goes with the state. `waited` is the time in the queue, empty outside of it. `summary`
    is an open request, or says how its deletion fails. `idle` describes the idleness, empty while
    the node works."""

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
    summary: str
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
    """The sign for a state; `unknown` for a state that this service does not know."""
    return _TONES.get(state, "unknown")


def build_node_row(said: Mapping[str, Any], now: int, idle: str = "") -> NodeRow:
    """The row of a node as the API shows the node, with its age as of `now`. `idle` describes its
    idleness."""
    created = parse_rfc3339(said["created_at"])
    ended = said["ended_at"]
    until = now if ended is None else parse_rfc3339(ended)
    hourly = said["hourly_cost"]
    state, since = said["state"], parse_rfc3339(said["state_since"])
    cost = parse_usd(said["cost"])
    is_cost_unknown = cost == 0 and hourly is None and said["ready_at"] is not None
    rate_note = ""
    if not is_billable(state):
        billed = sum(is_billable(part["state"]) for part in said["slice_states"])
        rate_note = f"{billed:,} of {said['slices']:,} slices billed" if billed else "once READY"
    is_failing = said["deletion_failure"] is not None
    if is_failing:
        since = parse_rfc3339(said["deletion_failure"]["since"])
    return NodeRow(
        id=said["id"],
        name=said["name"],
        owner=said["owner"],
        team=said["team"],
        hardware=hardware_of(said),
        chips=said["chips"],
        zone=said["zone"],
        model=said["provisioning_model"],
        state=FAILING if is_failing else state,
        tone="trouble" if is_failing else tone_of(state),
        since=to_moment(since),
        summary=describe_failure(said, now) if is_failing else describe_request(said),
        waited=format_duration(now - since) if state == NodeState.QUEUED else "",
        idle=idle,
        error=escape_invisible(said["last_error"]),
        created=to_moment(created),
        age=format_duration(until - created),
        ended=None if ended is None else to_moment(until),
        hourly="" if hourly is None else format_money(parse_usd(hourly)),
        billed=is_billable(state),
        rate_note=rate_note,
        cost=NOT_KNOWN if is_cost_unknown else format_money(cost),
    )


def describe_failure(said: Mapping[str, Any], now: int) -> str:
    """The failing deletion of a node: its state in the cloud, the call that is tried, how often it
    failed since when, and the next try."""
    failure = said["deletion_failure"]
    since, tries = format_duration(now - parse_rfc3339(failure["since"])), failure["tries"]
    times = "once" if tries == 1 else f"{tries:,} times"
    done = f"{failure['call']} failed {times} in {since}" if tries else f"not gone after {since}"
    room = "" if said["delete_requested_at"] else ", to make room for the next attempt"
    text = f"{said['state']} in the cloud; {done}{room}"
    if failure["next_try_at"] is None:
        return text
    wait = parse_rfc3339(failure["next_try_at"]) - now
    return f"{text}; next try {f'in {format_duration(wait)}' if wait > 0 else 'at the next check'}"


def hardware_of(said: Mapping[str, Any]) -> str:
    """The accelerator type, preceded by the number of slices if there are several."""
    kind = str(said["accelerator_type"])
    return kind if said["slices"] == 1 else f"{said['slices']:,} {TIMES} {kind}"


def describe_request(said: Mapping[str, Any]) -> str:
    """The open request for a node, `deletion requested` or `stop requested`. Empty if there is
    none, or if the state of the node shows it."""
    if said["ended_at"] is not None or said["state"] in (NodeState.DELETING, NodeState.STOPPED):
        return ""
    return _ASKED.get(said["asked"], "")
