"""The page of one node: its facts, its explained cost, its placements and its events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.application.cleanup.cleanup import IdleNode
from service.application.jobs.jobs import OnNode
from service.application.nodes.cost import CostLine, NodeCost
from service.application.services import Services
from service.dashboard.actions.nodes import ActionLink, list_node_actions
from service.dashboard.kit.figures import (
    Fact,
    Moment,
    format_count,
    format_duration,
    format_exact,
    format_money,
    to_moment,
)
from service.dashboard.kit.links import job_address, reservation_address
from service.dashboard.kit.node_rows import NOT_KNOWN, TIMES, NodeRow, build_node_row, hardware_of
from service.dashboard.kit.visible_text import escape_invisible, to_sentence
from service.dashboard.kit.worked_sum import WorkedSum, build_sum
from service.dashboard.pages.nodes.connection import ConnectionShown, build_connection
from service.dashboard.pages.nodes.idle import IDLE_ENDS, idle_sentence
from service.dashboard.pages.nodes.idle_course import CourseShown, build_course
from service.dashboard.pages.nodes.job import Log, build_log
from service.dashboard.pages.nodes.jobs import tone_of_job
from service.dashboard.pages.nodes.queue import Slices, Ticket, slices_of, ticket_of
from service.dashboard.pages.nodes.signals import WINDOW, SignalsShown, build_signals
from service.dashboard.pages.nodes.timeline import (
    EVENTS_SHOWN,
    Timeline,
    TimelineEntry,
    build_timeline,
)
from service.domain.clock import MINUTE, parse_rfc3339
from service.domain.event import Event
from service.domain.idle.ends import End
from service.domain.lifecycle.precedence import EndCause, Holder
from service.domain.nodes.keep import cloud_ends_at, is_on_notice, keep_of_node
from service.domain.nodes.node import Asked

JOBS_SHOWN = 20
LINES_SHOWN = 20
"""Lines of output of the job that runs; its own page has more."""

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """One attempt in words. `why` is the reason for its zone and type, if there was a choice."""

    attempt: int
    zone: str
    accelerator_type: str
    model: str
    cloud_id: str
    why: str
    started: Moment
    ended: Moment | None
    took: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobOnNode:
    """One job that ran on the node, runs on it, or waits for it; `said` says which of these."""

    href: str
    name: str
    state: str
    tone: str
    said: str


@dataclass(frozen=True, slots=True)
class JobOutput:
    """The last output of the job that has the node now."""

    href: str
    name: str
    log: Log


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One event in words."""

    at: Moment
    kind: str
    message: str
    actor: str


@dataclass(frozen=True, slots=True)
class CostFigures:
    """The cost of a node in figures; empty ones are unknown or zero. `vm` is the part of the user's
    own VM. `saved` is the difference to the on-demand price of the same seconds."""

    cost: str
    vm: str
    hourly: str
    rate: str
    listed: str
    saved: str
    uncertainty: str
    unpriced: str
    as_of: Moment


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """Everything on the page of a node."""

    node: NodeRow
    alarm: NodeEvent | None
    ticket: Ticket | None
    slices: Slices | None
    facts: tuple[Fact, ...]
    labels: tuple[tuple[str, str], ...]
    cost: CostFigures
    sum: WorkedSum
    placements: tuple[PlacementRow, ...]
    jobs: tuple[JobOnNode, ...]
    timeline: Timeline
    output: JobOutput | None
    connection: ConnectionShown
    signals: SignalsShown | None
    course: CourseShown | None
    actions: tuple[ActionLink, ...]
    as_of: Moment


def build_node_page(services: Services, node_id: str, before: str = "") -> NodeSummary:
    """The page as of now, with the events below the number `before`; from the newest on if that is
    no number. Raises NotFound."""
    number = int(before) if _NUMBER.fullmatch(before) else None
    history = services.nodes.get_timeline(node_id, number, EVENTS_SHOWN)
    cost, alarm = history.cost, history.alarm
    said: Mapping[str, Any] = json.loads(services.nodes.get_document(node_id))
    whys = placement_reasons(history.placing)
    brief = services.cleanup.find_briefs([node_id]).get(node_id)
    idle = "" if brief is None else escape_invisible(idle_sentence(brief, cost.as_of))
    excluded = "Not in its cost" if said["vm"] is None else "What its VM costs"
    jobs = services.jobs.list_on_node(node_id, JOBS_SHOWN)
    watched = services.cleanup.get_node(node_id)
    recent = services.cleanup.read_activity(node_id, WINDOW)
    return NodeSummary(
        # The last alarm may still be true while the node lives.
        alarm=None if alarm is None or said["ended_at"] else _build_event_row(alarm),
        ticket=ticket_of(said),
        slices=slices_of(said),
        node=build_node_row(said, cost.as_of, idle),
        facts=(
            *list_facts(said),
            *_list_idle_facts(said, cost.as_of),
            *(
                Fact(
                    "Ran in",
                    f"{reservation.name}, from {to_moment(reservation.start).date}",
                    href=reservation_address(reservation.id),
                )
                for reservation in map(services.reservations.get_record, cost.reservations)
            ),
            *(Fact(excluded, text) for text in cost.not_included),
        ),
        labels=tuple(
            (escape_invisible(key), escape_invisible(text))
            for key, text in sorted(said["labels"].items())
        ),
        cost=_cost_figures(cost),
        sum=build_sum(history.lines, cost, int(said["chips"])),
        placements=tuple(
            _build_placement_row(attempt, whys, cost.as_of) for attempt in said["placements"]
        ),
        jobs=tuple(map(describe_job, jobs)),
        signals=build_signals(watched, recent, cost.as_of),
        course=build_course(watched, cost.as_of),
        output=_read_output(services, jobs),
        connection=build_connection(services, history.node),
        timeline=build_timeline(history, jobs, _list_coming(watched, cost.as_of)),
        actions=list_node_actions(services.nodes.get(node_id), cost.as_of),
        as_of=to_moment(cost.as_of),
    )


def list_facts(said: Mapping[str, Any]) -> Iterator[Fact]:
    """The facts of a node; empty ones are left out."""
    hardware = f"{format_count(said['chips'], 'chip')} on {format_count(said['hosts'], 'host')}"
    if said["topology"]:
        hardware += f", {said['topology']}{' each' if said['slices'] > 1 else ''}"
    other_types = [kind for kind in said["accelerator_types"] if kind != said["accelerator_type"]]
    other_zones = [zone for zone in said["zones"] if zone != said["zone"]]
    endpoints = (
        endpoint["ip"]
        + (f":{endpoint['port']}" if endpoint["port"] else "")
        + (f" ({endpoint['external_ip']})" if endpoint["external_ip"] else "")
        for endpoint in said["endpoints"]
    )
    queued = ", through the queue" if said["queued"] else ""
    vm = said["vm"]
    plain = (
        ("Type", f"{hardware_of(said)} ({said['generation']})"),
        ("Other types that will do", ", ".join(other_types)),
        ("Hardware", hardware),
        ("Zone", said["zone"]),
        ("Other zones it may go to", ", ".join(other_zones)),
        ("Provisioning model", f"{said['provisioning_model']}{queued}"),
        ("Queued resource", said["queue_state"]),
        ("Reservation", said["reservation"]),
        ("Runtime version", said["runtime_version"]),
        ("Its VM", "" if vm is None else f"{vm['machine_type']}, {vm['provisioning_model']}"),
        ("Project", said["project"]),
        ("Owner", said["owner"]),
        ("Team", said["team"]),
        ("Name in the cloud", said["cloud_id"]),
        ("Health", said["health"]),
        ("Endpoints", ", ".join(endpoints)),
        ("After a preemption", "recreated" if said["recreate_on_preemption"] else ""),
        ("Reason for deletion", said["delete_reason"]),
        ("Id", said["id"]),
    )
    yield from (Fact(name, escape_invisible(text)) for name, text in plain if text)
    for name, key in (
        ("Requested", "created_at"),
        ("First READY", "ready_at"),
        ("Gives up if not READY by", "valid_until"),
        ("Time to live ends", "deletes_at"),
        ("Ended", "ended_at"),
    ):
        if said[key] is not None:
            at = to_moment(parse_rfc3339(said[key]))
            yield Fact(name, at.full, at)


def _list_coming(found: IdleNode, now: int) -> Iterator[TimelineEntry]:
    """What will happen to a node if nothing changes, the last first."""
    node = found.node
    if node.has_ended or node.asked is Asked.ABSENT:
        return
    keep = None if is_on_notice(node) else keep_of_node(node)
    coming = [
        (end.at, text)
        for end in found.ends
        if end.at is not None and (text := _describe_end(found, end))
    ]
    if node.ready_at is None and node.spec.valid_until is not None:
        coming.append((node.spec.valid_until, "Given up if it is not READY by then."))
    if keep is not None and keep.until is not None and keep.is_active(now):
        coming.append((keep.until, "The keep ends."))
    for at, text in sorted(coming, reverse=True):
        left = f"in {format_duration(at - now)}" if at > now else "due now"
        yield TimelineEntry(to_moment(at), "Next", escape_invisible(text), left)


def _describe_end(found: IdleNode, end: End) -> str:
    """What happens to a node at an end if nothing changes, in a sentence. Empty if the end does not
    come: the mode may hold an idle node, and a time to live does nothing where Google ends the
    node."""
    text = to_sentence(f"{end.reason}: the node will be deleted")
    match end.ender:
        case EndCause.GOOGLE:
            text = "Google ends the flex-start node."
        case EndCause.JOB_END:
            text = "The job has ended: the node will be deleted."
        case EndCause.TTL:
            is_to_come = cloud_ends_at(found.node) is None
            text = "The time to live ends: the node will be deleted." if is_to_come else ""
        case EndCause.IDLE:
            course = None if found.watched is None else found.watched.course
            is_current = course is not None and course.incarnation == found.node.attempt
            if not is_current or Holder.MODE in end.held_by:
                text = ""
            elif found.subject is not None:
                verb = IDLE_ENDS.get(found.subject.applied.action, "ended")
                text = f"The node will be {verb} for idleness."
        case _:
            pass
    return text


def _list_idle_facts(said: Mapping[str, Any], now: int) -> Iterator[Fact]:
    """The keep that holds now, and the node's own idle policy."""
    keep, policy = None if said["ended_at"] else said.get("keep"), said.get("idle")
    if keep and keep["until"] is None:
        yield Fact("Kept", "until a date that cannot be read")
    elif keep and (until := parse_rfc3339(keep["until"])) > now:
        yield Fact("Kept until", f"{to_moment(until).full}: {escape_invisible(keep['reason'])}")
    if policy:
        # Without rounding: `150 s`, `30 min`, `1 h 30 min`.
        after, grace = (
            f"{seconds:,} s" if seconds % MINUTE else format_duration(seconds)
            for seconds in (policy["after_seconds"], policy["grace_seconds"])
        )
        yield Fact("Idle policy", f"{policy['action']} after {after}, grace {grace}")


def _cost_figures(cost: NodeCost) -> CostFigures:
    saved = 0 if cost.list_cost is None else cost.list_cost - cost.cost
    factors = (
        f"{format_exact(rate.price)} for the VM"
        if rate.is_vm
        else f"{rate.units:,} {TIMES} {format_exact(rate.price)} per chip-hour"
        for rate in cost.rates
        if rate.price is not None
    )
    without_price = [rate.what for rate in cost.rates if rate.price is None]
    unpriced = (
        f"{format_duration(part.unpriced_seconds)} of"
        f" {f'its VM ({part.what})' if part.is_vm else 'its use'}"
        for part in cost.lines
        if part.unpriced_seconds
    )
    return CostFigures(
        cost=_format_cost(cost),
        vm=", ".join(_format_cost(part) for part in cost.lines if part.is_vm),
        hourly="" if cost.burn is None or not cost.rates else format_money(cost.burn),
        rate=f"none is known for {' and '.join(without_price)}"
        if without_price
        else " + ".join(factors),
        listed="" if cost.list_cost in (None, cost.cost) else format_money(cost.list_cost or 0),
        saved=format_money(saved) if saved > 0 else "",
        uncertainty=format_money(cost.uncertainty) if cost.uncertainty else "",
        unpriced=" and ".join(unpriced),
        as_of=to_moment(cost.as_of),
    )


def _format_cost(part: NodeCost | CostLine) -> str:
    return NOT_KNOWN if part.unpriced_seconds and not part.cost else format_money(part.cost)


def _read_output(services: Services, jobs: Iterable[OnNode]) -> JobOutput | None:
    """The last lines of the job that has the node now; None if none has it."""
    for found in jobs:
        if found.attempts and found.attempts[-1].released_at is None and not found.job.ended:
            job = found.job
            end = services.job_logs.read_end(job.id)
            log = build_log(end, several=job.attempt > 1, most=LINES_SHOWN)
            name = escape_invisible(job.spec.run_name) or job.id
            return JobOutput(job_address(job.id), name, log)
    return None


def describe_job(found: OnNode) -> JobOnNode:
    """A job in words, with its relation to the node."""
    job = found.job
    said = "waits for this node"
    if found.attempts:
        first, last = found.attempts[0], found.attempts[-1]
        began = to_moment(first.claimed_at).full
        which = f"attempt {last.number}"
        if first is not last:
            which = f"attempts {first.number} to {last.number}"
        if last.released_at is None:
            said = f"has this node now: {which}, since {began}"
        else:
            said = f"{which}, {began} to {to_moment(last.released_at).full}"
    return JobOnNode(
        href=job_address(job.id),
        name=escape_invisible(job.spec.run_name) or job.id,
        state=job.state,
        tone=tone_of_job(job.state),
        said=said,
    )


def placement_reasons(events: Iterable[Event]) -> Mapping[int, str]:
    """The reason for the zone and type of each attempt; attempts without a recorded reason are left
    out."""
    facts = [event.facts for event in events if event.kind == "placement"]
    found = ((fact.get("attempt"), fact.get("why")) for fact in facts)
    return {number: f"{why}." for number, why in found if isinstance(number, int) and why}


def _build_placement_row(
    said: Mapping[str, Any], whys: Mapping[int, str], now: int
) -> PlacementRow:
    started = parse_rfc3339(said["started_at"])
    ended = None if said["ended_at"] is None else parse_rfc3339(said["ended_at"])
    return PlacementRow(
        attempt=said["attempt"],
        zone=said["zone"],
        accelerator_type=said["accelerator_type"],
        model=said["provisioning_model"],
        cloud_id=said["cloud_id"],
        why=whys.get(said["attempt"], ""),
        started=to_moment(started),
        ended=None if ended is None else to_moment(ended),
        took=format_duration((now if ended is None else ended) - started),
        outcome=said["outcome"].replace("_", " "),
        reason=escape_invisible(said["reason"]),
    )


def _build_event_row(event: Event) -> NodeEvent:
    message = escape_invisible(to_sentence(event.message))
    return NodeEvent(to_moment(event.at), event.kind, message, event.actor)
