"""Waste, and the agenda: what needs a person, and what happens next by itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.application.health import FleetHealth, HealthService
from service.application.orphans import OrphanService, OrphanSum
from service.domain.attention.agenda import Agenda, AgendaEntry, AgendaKind, build_agenda
from service.domain.attention.waste import (
    WasteKind,
    WasteReport,
    WasteSource,
    WasteSum,
    build_waste_report,
)
from service.domain.budgets.alerts import EXCEEDED, deletes_at
from service.domain.budgets.budget import Budget
from service.domain.clock import DAY, Clock
from service.domain.idle.cleanup import ALARMING, Cleanup
from service.domain.idle.course import BLIND_SECONDS, State
from service.domain.idle.policy import Action, Waste
from service.domain.nodes.keep import Keep, cloud_ends_at, goes_at, keep_of_node, waits_for_job_end
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import PriceBook
from service.store.fleet_counts import FailingDeletion
from service.store.idle import RestingNode
from service.store.idle_fleet import sum_rates
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

AHEAD_SECONDS = DAY
"""How far ahead the agenda looks."""

LIMIT = 50
"""The most entries in each part of the agenda."""

_WASTES = {Waste.CRASH_LOOP: WasteKind.CRASH_LOOP, Waste.NO_PROGRESS: WasteKind.NO_PROGRESS}
_LOOKS = {
    Waste.CRASH_LOOP: (AgendaKind.CRASH_LOOP, "its container restarts and fails each time"),
    Waste.NO_PROGRESS: (AgendaKind.NO_PROGRESS, "its job holds the device and makes no progress"),
}


@dataclass(frozen=True, slots=True)
class _Fleet:
    """What one reading unit found: the resting nodes, the active keeps of those that are proved
    idle, the failing deletions, the READY nodes whose time ends soon, and nano-dollars an hour of
    each billed node (None: a price is unknown)."""

    now: int
    resting: Sequence[RestingNode]
    keeps: Mapping[str, Keep]
    failing: Sequence[FailingDeletion]
    ending: Sequence[Node]
    rates: Mapping[str, int | None]
    budgets: Sequence[AgendaEntry]
    cleanups: Mapping[str, Cleanup]


@dataclass(frozen=True, slots=True)
class BudgetEnd:
    """The deletion of a node by an exceeded budget: the UTC second from which on it is due, and the
    budget's name."""

    at: int
    budget: str


class AttentionService:
    """Reads the store only. The overview, `GET /v1/fleet/waste`, `GET /v1/fleet/agenda` and
    `/metrics` show the same figures."""

    def __init__(
        self,
        units: Units,
        prices: PriceBookCache,
        clock: Clock,
        projects: Sequence[str],
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = tuple(projects)
        self._health = HealthService(units, prices, clock, projects)
        self._orphans = OrphanService(units, prices, clock, projects)

    def read_waste(self) -> WasteReport:
        """Everything that is paid for now and does no work."""
        return self.read_both(0)[0]

    def read_agenda(self, limit: int = LIMIT) -> Agenda:
        """What a person has to decide, and what happens by itself within a day."""
        return self.read_both(limit)[1]

    def read_both(
        self, limit: int = LIMIT, health: FleetHealth | None = None
    ) -> tuple[WasteReport, Agenda]:
        """The waste and the agenda, as of one instant. With `health`, the fleet is not counted
        again."""
        fleet, health = self._read_fleet(), health or self._health.read_fleet()
        total = sum(self._orphans.sum_by_kind().values(), OrphanSum())
        orphans = WasteSum(total.number, total.hourly, total.unpriced)
        unknown = WasteSum()
        for node in fleet.resting:
            if node.state is State.UNKNOWN:
                unknown = unknown.with_source(fleet.rates.get(node.node_id))
        waste = build_waste_report(
            fleet.now,
            _list_sources(fleet),
            {
                WasteKind.ORPHAN: orphans,
                WasteKind.UNUSED_RESERVATION: WasteSum(
                    health.unused_reservations, health.unused, health.unused_unpriced
                ),
            },
            unknown,
        )
        entries = [*_list_failing(fleet)]
        if orphans.number:
            what = "1 resource is" if orphans.number == 1 else f"{orphans.number} resources are"
            text = f"{what} in the cloud and in no record here: adopt or delete"
            hourly = orphans.known_hourly
            entries.append(AgendaEntry(AgendaKind.ORPHANS, "", text, hourly=hourly))
        entries += fleet.budgets
        for project, cleanup in fleet.cleanups.items():
            for held in cleanup.holds:
                if held.rail in ALARMING:
                    text, since = f"No idle node is deleted: {held.reason}", held.since
                    hold = AgendaEntry(
                        AgendaKind.CLEANUP_HOLDS, project, text, since=since, at=held.until
                    )
                    entries.append(hold)
        if health.unpriced:
            what = "1 node has" if health.unpriced == 1 else f"{health.unpriced} nodes have"
            text = f"{what} no known price, and the cost is in no figure"
            entries.append(AgendaEntry(AgendaKind.UNPRICED, "", text))
        entries += [*_list_resting(fleet), *_list_ending(fleet)]
        return waste, build_agenda(fleet.now, entries, limit)

    def find_budget_ends(self) -> Mapping[str, BudgetEnd]:
        """The nodes that an exceeded budget will delete, by id, with the earliest deletion."""
        now = self._clock()
        with self._units.reading() as unit:
            ends: dict[str, BudgetEnd] = {}
            for budget, _, at in _list_exceeded(unit, now):
                if at is None:
                    continue
                for node_id in unit.holds.list_deletable(budget.scope):
                    if node_id not in ends or at < ends[node_id].at:
                        ends[node_id] = BudgetEnd(at, budget.name)
            return ends

    def count_failing_deletions(self) -> int:
        """How many deletions failed at least once or are overdue, and have not ended."""
        with self._units.reading() as unit:
            return len(unit.fleet.list_failing_deletions())

    def _read_fleet(self) -> _Fleet:
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
            ending = unit.nodes.find_many(unit.fleet.list_ending(now + AHEAD_SECONDS))
            resting = unit.idle_courses.list_resting(self._projects)
            failing = unit.fleet.list_failing_deletions()
            shown = {
                *ending,
                *(node.node_id for node in resting),
                *(deletion.node_id for deletion in failing),
            }
            # The active keeps of the nodes that are proved idle, by request or by label.
            idle = unit.nodes.find_many(
                node.node_id for node in resting if node.state is not State.UNKNOWN
            )
            keeps = {
                node_id: keep
                for node_id, node in idle.items()
                if (keep := keep_of_node(node)) is not None and keep.is_active(now)
            }
            rates = sum_rates(unit.usage.find_open_of(sorted(shown)), book, now)
            cleanups = {project: unit.cleanups.get(project) for project in self._projects}
            return _Fleet(
                now,
                resting,
                keeps,
                failing,
                list(ending.values()),
                rates,
                list(_list_budgets(unit, book, now)),
                cleanups,
            )


def _list_sources(fleet: _Fleet) -> Iterator[WasteSource]:
    """The single nodes that are waste. A failing deletion counts only while it is billed."""
    for failing in fleet.failing:
        if failing.node_id in fleet.rates:
            yield WasteSource(
                WasteKind.FAILING_DELETION,
                failing.name,
                fleet.rates[failing.node_id],
                failing.asked_at,
                failing.node_id,
            )
    for node in fleet.resting:
        if node.state is State.UNKNOWN or node.verdict is None:
            continue
        waste = node.verdict.waste
        keep = fleet.keeps.get(node.node_id)
        yield WasteSource(
            WasteKind.IDLE if waste is None else _WASTES[waste],
            node.name,
            fleet.rates.get(node.node_id),
            node.verdict.since,
            node.node_id,
            None if keep is None else keep.until,
        )


def _list_failing(fleet: _Fleet) -> Iterator[AgendaEntry]:
    for failing in fleet.failing:
        tries = f"{failing.tries} attempts in a row failed" if failing.tries > 1 else "it failed"
        why = f"; the last error: {failing.error}" if failing.error else ""
        billed = failing.node_id in fleet.rates
        yield AgendaEntry(
            AgendaKind.FAILING_DELETION,
            failing.name,
            f"Its deletion does not end: {tries}{why}"
            if failing.tries
            else "Its deletion is overdue",
            since=failing.asked_at,
            hourly=fleet.rates[failing.node_id] if billed else 0,
            subject_id=failing.node_id,
        )


def _list_exceeded(unit: Unit, now: int) -> Iterator[tuple[Budget, int, int | None]]:
    """The exceeded budgets of the current period: the budget, since when, and from when on it
    deletes its nodes; None if it deletes none."""
    exceeded = unit.alerts.find_by_kind(EXCEEDED)
    for budget in unit.budgets.list_all():
        window, alert = budget.window_at(now), exceeded.get(budget.id)
        if window is None or alert is None or alert.fired_at is None:
            continue
        if alert.period == window.start:
            yield budget, alert.fired_at, deletes_at(budget, alert)


def _list_budgets(unit: Unit, book: PriceBook, now: int) -> Iterator[AgendaEntry]:
    """The exceeded budgets of the current period: with what the nodes cost that a budget deletes
    or, if it deletes none, with what all its nodes cost."""
    for budget, since, at in _list_exceeded(unit, now):
        text = "The budget is exceeded"
        if at is None:
            costly = [hold.node_id for hold, _, _ in unit.holds.list_open([budget.scope])]
        else:
            costly = list(unit.holds.list_deletable(budget.scope))
            nodes = "1 node" if len(costly) == 1 else f"{len(costly):,} nodes"
            text += (
                f", and {nodes} will be deleted" if costly else ", and no node is left to delete"
            )
        rates = sum_rates(unit.usage.find_open_of(sorted(costly)), book, now).values()
        will_delete = at is not None and at > now
        yield AgendaEntry(
            AgendaKind.BUDGET_DELETES if will_delete else AgendaKind.BUDGET_EXCEEDED,
            budget.name,
            text,
            at=at if will_delete else None,
            since=since,
            hourly=None if None in rates else sum(filter(None, rates)),
            subject_id=budget.id,
        )


def _list_resting(fleet: _Fleet) -> Iterator[AgendaEntry]:
    """What happens to idle nodes, and what a person has to look at."""
    for node in fleet.resting:
        hourly, now = fleet.rates.get(node.node_id), fleet.now
        if node.state is State.UNKNOWN:
            if now - node.since >= BLIND_SECONDS:
                reason = "" if node.verdict is None else f": {node.verdict.reason}"
                yield AgendaEntry(
                    AgendaKind.UNKNOWN,
                    node.name,
                    f"It is unknown whether the node is active{reason}",
                    since=node.since,
                    hourly=hourly,
                    subject_id=node.node_id,
                )
            continue
        since = None if node.verdict is None else node.verdict.since
        is_kept = node.node_id in fleet.keeps
        if node.due_at is not None and not is_kept:
            yield _describe_idle_end(fleet, node, node.due_at)
        elif is_kept:
            continue
        elif node.told is Action.OBSERVE:
            yield AgendaEntry(
                AgendaKind.UNTOLD,
                node.name,
                "The node is idle, and stays: its policy names no recipient",
                since=since,
                hourly=hourly,
                subject_id=node.node_id,
            )
        elif node.verdict is not None and node.verdict.waste is not None:
            kind, looks = _LOOKS[node.verdict.waste]
            yield AgendaEntry(
                kind,
                node.name,
                f"The node does no work: {looks}",
                since=since,
                hourly=hourly,
                subject_id=node.node_id,
            )


def _describe_idle_end(fleet: _Fleet, node: RestingNode, due_at: int) -> AgendaEntry:
    """The end of an idle node: when it is due, when its turn comes, or when the holds end."""
    due_at = max(due_at, fleet.now)
    verb = "stopped" if node.told is Action.STOP else "deleted"
    cleanup = fleet.cleanups[node.project]
    expected = cleanup.expect_end(node.node_id, due_at, fleet.now)
    waits = ""
    if expected.held_by:
        waits = f" later, because the cleanup waits: {expected.held_by[0].reason}"
    elif cleanup.holds:
        waits = f", unless the cleanup still waits then: {cleanup.holds[0].reason}"
    elif expected.at != due_at:
        waits = " when its turn comes, as the cleanup ends few nodes at a time"
    return AgendaEntry(
        AgendaKind.IDLE_END,
        node.name,
        f"The node is idle, and will be {verb}{waits}",
        at=expected.at,
        since=None if node.verdict is None else node.verdict.since,
        hourly=fleet.rates.get(node.node_id),
        subject_id=node.node_id,
    )


def _list_ending(fleet: _Fleet) -> Iterator[AgendaEntry]:
    """The nodes whose time to live, job or run duration ends within the time ahead."""
    for node in fleet.ending:
        google = cloud_ends_at(node)
        at = google if google is not None else goes_at(node)
        if at is None or at > fleet.now + AHEAD_SECONDS:
            continue
        if google is not None:
            kind, text = AgendaKind.GOOGLE_END, "Google ends the flex-start node"
        elif waits_for_job_end(node):
            kind, text = AgendaKind.JOB_END, "The job has ended, and the node will be deleted"
        else:
            kind, text = AgendaKind.TTL_END, "The time to live ends, and the node will be deleted"
        cleanup = fleet.cleanups.get(node.spec.project)
        is_paused = kind is AgendaKind.TTL_END and cleanup is not None and cleanup.is_paused
        yield AgendaEntry(
            kind,
            node.name,
            f"{text} once the pause of the cleanup ends" if is_paused else text,
            at=None if is_paused else max(at, fleet.now),
            hourly=fleet.rates.get(node.id),
            subject_id=node.id,
        )
