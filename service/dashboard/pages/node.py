"""The page of one node: its facts, its cost explained, its placements and its events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from service.application.jobs.jobs import OnNode
from service.application.nodes.cost import BurnRate, CostLine, NodeCost
from service.application.services import Services
from service.dashboard.kit.figures import Fact, Moment, count, duration, exact, moment, money
from service.dashboard.kit.links import home_of_job, home_of_reservation
from service.dashboard.kit.node_rows import NOT_KNOWN, TIMES, NodeRow, hardware_of, row_of
from service.dashboard.kit.visible_text import visible
from service.dashboard.kit.worked_sum import WorkedSum, sum_of
from service.dashboard.pages.idle import idle_sentence
from service.dashboard.pages.jobs import tone_of_job
from service.dashboard.pages.queue import Slices, Ticket, slices_of, ticket_of
from service.domain.clock import parse_rfc3339
from service.domain.event import Event
from service.domain.jobs.job import Attempt

_BATCH = 1_000
EVENTS_SHOWN = 200
JOBS_SHOWN = 20
Numbered = TypeVar("Numbered")


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """One attempt in words; `why` it was made just there, where there was a choice."""

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
    """One job that ran on the node, runs on it, or waits for it; `said` tells which."""

    href: str
    name: str
    state: str
    tone: str
    said: str


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One event in words."""

    at: Moment
    kind: str
    message: str
    actor: str


@dataclass(frozen=True, slots=True)
class CostFigures:
    """The node's cost in figures; empty where there is nothing to say. `vm` is what the user's own
    VM has of it, `saved` is against the on-demand price for the same seconds."""

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
    events: tuple[NodeEvent, ...]
    events_left_out: int
    as_of: Moment


def story_of(services: Services, node_id: str) -> NodeSummary:
    """The page as of now; raises NotFound."""
    document = services.nodes.shown(node_id)
    lines = list(_every(lambda after: services.nodes.ledger(node_id, after, _BATCH), _line_number))
    cost = services.nodes.cost(node_id)
    told = list(_every(lambda after: services.nodes.events(node_id, after, _BATCH), _event_number))
    said: Mapping[str, Any] = json.loads(document)
    whys = whys_of(event for _, event in told)
    brief = services.cleanup.briefs([node_id]).get(node_id)
    idle = "" if brief is None else idle_sentence(brief, cost.as_of)
    return NodeSummary(
        alarm=_alarm(said, told),
        ticket=ticket_of(said),
        slices=slices_of(said),
        node=row_of(said, cost.as_of, idle),
        facts=(
            *facts_of(said),
            *_ran_in(services, cost),
            *(Fact(_beside(said), one) for one in cost.not_included),
        ),
        labels=tuple(sorted(said["labels"].items())),
        cost=_cost_figures(cost),
        sum=sum_of(lines, cost, int(said["chips"])),
        placements=tuple(_placement(one, whys, cost.as_of) for one in said["placements"]),
        jobs=tuple(map(job_on_node, services.jobs.on_node(node_id, JOBS_SHOWN))),
        events=tuple(_told(event) for _, event in reversed(told[-EVENTS_SHOWN:])),
        events_left_out=max(0, len(told) - EVENTS_SHOWN),
        as_of=moment(cost.as_of),
    )


def facts_of(said: Mapping[str, Any]) -> Iterator[Fact]:
    """What is known of a node, the empty things left out."""
    hardware = f"{count(said['chips'], 'chip')} on {count(said['hosts'], 'host')}"
    if said["topology"]:
        hardware += f", {said['topology']}{' each' if said['slices'] > 1 else ''}"
    elsewhere = [zone for zone in said["zones"] if zone != said["zone"]]
    plain = (
        ("Type", f"{hardware_of(said)} ({said['generation']})"),
        ("Other types that will do", ", ".join(_other_types(said))),
        ("Hardware", hardware),
        ("Zone", said["zone"]),
        ("Other zones it may go to", ", ".join(elsewhere)),
        ("Provisioning model", _bought(said)),
        ("Queued resource", said["queue_state"]),
        ("Reservation", said["reservation"]),
        ("Runtime version", said["runtime_version"]),
        ("Its VM", _vm(said)),
        ("Project", said["project"]),
        ("Owner", said["owner"]),
        ("Team", said["team"]),
        ("Name in the cloud", said["cloud_id"]),
        ("Health", said["health"]),
        ("Endpoints", ", ".join(_address(one) for one in said["endpoints"])),
        ("After a preemption", "recreated" if said["recreate_on_preemption"] else ""),
        ("Reason for deletion", said["delete_reason"]),
        ("Id", said["id"]),
    )
    yield from (Fact(name, text) for name, text in plain if text)
    for name, key in (
        ("Requested", "created_at"),
        ("First READY", "ready_at"),
        ("Gives up if not READY by", "valid_until"),
        ("Time to live ends", "deletes_at"),
        ("Ended", "ended_at"),
    ):
        if said[key] is not None:
            at = moment(parse_rfc3339(said[key]))
            yield Fact(name, at.full, at)


def _ran_in(services: Services, cost: NodeCost) -> Iterator[Fact]:
    for one in map(services.reservations.written, cost.reservations):
        yield Fact(
            "Ran in", f"{one.name}, from {moment(one.start).date}", href=home_of_reservation(one.id)
        )


def _other_types(said: Mapping[str, Any]) -> list[str]:
    return [one for one in said["accelerator_types"] if one != said["accelerator_type"]]


def _vm(said: Mapping[str, Any]) -> str:
    """The user's own VM that drives it."""
    vm = said["vm"]
    return "" if vm is None else f"{vm['machine_type']}, {vm['provisioning_model']}"


def _beside(said: Mapping[str, Any]) -> str:
    return "Not in its cost" if said["vm"] is None else "What its VM costs"


def _bought(said: Mapping[str, Any]) -> str:
    return f"{said['provisioning_model']}{', through the queue' if said['queued'] else ''}"


def _address(endpoint: Mapping[str, Any]) -> str:
    text = f"{endpoint['ip']}:{endpoint['port']}" if endpoint["port"] else endpoint["ip"]
    return f"{text} ({endpoint['external_ip']})" if endpoint["external_ip"] else text


def _cost_figures(cost: NodeCost) -> CostFigures:
    saved = 0 if cost.list_cost is None else cost.list_cost - cost.cost
    prices = [one.price for one in cost.rates]
    known = [one.units * one.price for one in cost.rates if one.price is not None]
    return CostFigures(
        cost=NOT_KNOWN if cost.unpriced_seconds and not cost.cost else money(cost.cost),
        vm=", ".join(_cost_of_vm(one) for one in cost.lines if one.is_vm),
        hourly="" if None in prices or not prices else money(sum(known)),
        rate=_rate(cost.rates),
        listed="" if cost.list_cost in (None, cost.cost) else money(cost.list_cost or 0),
        saved=money(saved) if saved > 0 else "",
        uncertainty=money(cost.uncertainty) if cost.uncertainty else "",
        unpriced=" and ".join(_unpriced(cost.lines)),
        as_of=moment(cost.as_of),
    )


def _cost_of_vm(line: CostLine) -> str:
    unknown = line.unpriced_seconds and not line.cost
    return NOT_KNOWN if unknown else money(line.cost)


def _rate(rates: Sequence[BurnRate]) -> str:
    """How the price of an hour is made, or of what it is not known; empty once it has ended."""
    unknown = [one.what for one in rates if one.price is None]
    if unknown:
        return f"none is known for {' and '.join(unknown)}"
    parts = (
        f"{exact(one.price)} for the VM"
        if one.is_vm
        else f"{one.units:,} {TIMES} {exact(one.price)} per chip-hour"
        for one in rates
        if one.price is not None
    )
    return " + ".join(parts)


def _unpriced(lines: Sequence[CostLine]) -> Iterator[str]:
    """How long what was used at a price that nobody knows."""
    for one in lines:
        if one.unpriced_seconds:
            used = f"its VM ({one.what})" if one.is_vm else "its use"
            yield f"{duration(one.unpriced_seconds)} of {used}"


def job_on_node(found: OnNode) -> JobOnNode:
    """A job in words, with what it has to do with the node."""
    job = found.job
    return JobOnNode(
        href=home_of_job(job.id),
        name=visible(job.spec.run_name) or job.id,
        state=job.state,
        tone=tone_of_job(job.state),
        said=_here(found.attempts),
    )


def _here(attempts: Sequence[Attempt]) -> str:
    if not attempts:
        return "waits for this node"
    first, last = attempts[0], attempts[-1]
    which = f"attempt {last.number}"
    if first is not last:
        which = f"attempts {first.number} to {last.number}"
    began = moment(first.claimed_at).full
    if last.released_at is None:
        return f"has this node now: {which}, since {began}"
    return f"{which}, {began} to {moment(last.released_at).full}"


def whys_of(events: Iterable[Event]) -> Mapping[int, str]:
    """Why each attempt was made where it was, of those for which that was said."""
    facts = [event.facts for event in events if event.kind == "placement"]
    found = ((one.get("attempt"), one.get("why")) for one in facts)
    return {number: f"{why}." for number, why in found if isinstance(number, int) and why}


def _alarm(said: Mapping[str, Any], told: Sequence[tuple[int, Event]]) -> NodeEvent | None:
    """What a human was told last, as long as it may still be so."""
    alarms = [event for _, event in told if event.kind == "alarm"]
    return _told(alarms[-1]) if alarms and said["ended_at"] is None else None


def _placement(said: Mapping[str, Any], whys: Mapping[int, str], now: int) -> PlacementRow:
    started = parse_rfc3339(said["started_at"])
    ended = None if said["ended_at"] is None else parse_rfc3339(said["ended_at"])
    return PlacementRow(
        attempt=said["attempt"],
        zone=said["zone"],
        accelerator_type=said["accelerator_type"],
        model=said["provisioning_model"],
        cloud_id=said["cloud_id"],
        why=whys.get(said["attempt"], ""),
        started=moment(started),
        ended=None if ended is None else moment(ended),
        took=duration((now if ended is None else ended) - started),
        outcome=said["outcome"].replace("_", " "),
        reason=said["reason"],
    )


def _told(event: Event) -> NodeEvent:
    return NodeEvent(moment(event.at), event.kind, sentence(event.message), event.actor)


def sentence(message: str) -> str:
    """A message with a capital and a full stop, otherwise as it was written."""
    text = message.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def _every(
    fetch: Callable[[int], Sequence[Numbered]], number: Callable[[Numbered], int]
) -> Iterator[Numbered]:
    """All there is of something that is read in numbered batches."""
    after = 0
    while batch := fetch(after):
        yield from batch
        after = number(batch[-1])


def _line_number(line: Any) -> int:
    found: int = line.id
    return found


def _event_number(told: tuple[int, Event]) -> int:
    return told[0]
