"""The health of the service: the fleet in figures, and whether requests can be answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from service.application.timekeeping import Timekeeper
from service.domain.clock import Clock
from service.domain.metering.line_items import lines_of
from service.domain.pricing.burn import BilledUnits, burn_of
from service.domain.pricing.price_book import PriceBook, ReservedPrice
from service.domain.pricing.purchases import find_purchase
from service.store.fleet_counts import COMING, FleetCount, OverdueDeletion, RunningCount
from service.store.node_list import decode_parts
from service.store.pricebook import PriceBookCache
from service.store.probe import DatabaseProbe
from service.store.revisions import Revision
from service.store.unit import Unit, Units

STALE_SECONDS = 120
"""Seconds without a look at the cloud after which the figures may be out of date."""


@dataclass(frozen=True, slots=True)
class ProjectLook:
    """When a project was last looked at as a whole (0: never), and which daemon holds its lease."""

    project: str
    looked_at: int
    holder: str


@dataclass(frozen=True, slots=True)
class ComingSum:
    """Nodes that are not billed yet. `burn` is what they will cost in nano-dollars an hour, but for
    reserved capacity, which is paid already, and for `unpriced` nodes, whose price is unknown."""

    nodes: int = 0
    burn: int = 0
    unpriced: int = 0


def sum_coming(numbers: Mapping[str, int], book: PriceBook, now: int) -> ComingSum:
    """The sum over numbers of nodes by price key, at the prices of `now`."""
    total = ComingSum()
    for key, number in numbers.items():
        tpu, *vm = decode_parts(key).list_lines()
        is_reserved = isinstance(book.find_price(tpu.sku, now), ReservedPrice)
        rate = burn_of(vm if is_reserved else [tpu, *vm], book, now)
        total = ComingSum(
            nodes=total.nodes + number,
            burn=total.burn + number * (rate or 0),
            unpriced=total.unpriced + (number if rate is None else 0),
        )
    return total


@dataclass(frozen=True, slots=True)
class FleetHealth:
    """The fleet as of now. `burn` is nano-dollars an hour for what is READY and priced, and for the
    reservations that are paid whatever runs in them. `reserved` counts these reservations; `unused`
    is the part of `burn` for reserved chips that no node uses. `unused_reservations` counts the
    reservations with such chips, `unused_unpriced` those of them with an unknown price. `unpriced`
    counts READY nodes with an unknown price, `unpriced_vms` such VMs of their users,
    `unpriced_reserved` such reservations. `overdue` counts deletions that do not end; `aside`
    counts the intervals of usage that could not be posted to the ledger and are retried later.
    `coming` has the nodes that are requested or starting, and what they add to `burn` once they are
    READY."""

    counts: Sequence[FleetCount]
    ready: int
    chips: int
    burn: int
    reserved: int
    unpriced: int
    overdue: int
    sights: Sequence[ProjectLook]
    as_of: int
    unpriced_reserved: int = 0
    unpriced_vms: int = 0
    aside: int = 0
    unused: int = 0
    unused_reservations: int = 0
    unused_unpriced: int = 0
    coming: ComingSum = ComingSum()

    @property
    def stale(self) -> bool:
        """Whether any project has been unseen for too long, or has no daemon."""
        return any(
            not sight.holder or self.as_of - sight.looked_at > STALE_SECONDS
            for sight in self.sights
        )


@dataclass(frozen=True, slots=True)
class RunningSum:
    """The sum over nodes that are billed now: `burn` is nano-dollars an hour of what is priced,
    `on_reserved` the part of it on reserved capacity, `used` the chips in use by reservation.
    `unpriced` counts nodes with an unknown price, `unpriced_vms` such VMs of their users."""

    nodes: int = 0
    chips: int = 0
    burn: int = 0
    on_reserved: int = 0
    unpriced: int = 0
    unpriced_vms: int = 0
    used: Mapping[str, int] = field(default_factory=dict)


def sum_running(groups: Iterable[RunningCount], book: PriceBook, now: int) -> RunningSum:
    """The sum over groups of nodes that are billed now, at the prices of `now`."""
    total, used = RunningSum(), Counter[str]()
    for group in groups:
        tpus = burn_of([BilledUnits(group.sku, group.chips)], book, now)
        vm = [] if group.vm is None else [BilledUnits(group.vm, group.vms)]
        vms = burn_of(vm, book, now)
        is_reserved = isinstance(book.find_price(group.sku, now), ReservedPrice)
        pool = group.sku.pool
        purchase = find_purchase(book.purchases, pool, group.sku.generation, now) if pool else None
        if purchase is not None:
            used[purchase.id] += group.chips
        total = RunningSum(
            nodes=total.nodes + group.nodes,
            chips=total.chips + group.chips,
            burn=total.burn + (tpus or 0) + (vms or 0),
            on_reserved=total.on_reserved + ((tpus or 0) if is_reserved else 0),
            unpriced=total.unpriced + (group.nodes if tpus is None else 0),
            unpriced_vms=total.unpriced_vms + (group.vms if vms is None else 0),
        )
    return replace(total, used=used)


@dataclass(frozen=True, slots=True)
class OverviewStamp:
    """Everything that the first page depends on. Pages with equal stamps are equal. `running` is
    the number of open intervals of usage: what it takes to make the page grows with it."""

    now: int
    revision: Revision
    sights: tuple[ProjectLook, ...]
    running: int


@dataclass(frozen=True, slots=True)
class LateDeletion:
    """A deletion that does not end. `hourly` is nano-dollars an hour for the part of the node that
    is still billed, 0 if nothing is; None if a price is unknown."""

    overdue: OverdueDeletion
    hourly: int | None


class HealthService:
    """Computes the figures of the fleet from the store, without a call to the cloud."""

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

    def read_fleet(self) -> FleetHealth:
        """How many nodes are in which state, and what they cost an hour."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
            counts = unit.fleet.count_by_state()
            sights = self._read_sights(unit)
            running, bought = unit.fleet.count_running(), unit.usage.list_purchases(now)
            overdue, aside = unit.fleet.count_overdue(), unit.usage.count_aside()
            is_any_coming = any(count.state in COMING for count in counts)
            coming = unit.fleet.count_coming() if is_any_coming else {}
        total = sum_running(running, book, now)
        bought_rate = reserved = unpriced_reserved = 0
        unused_rates: list[int | None] = []
        for usage in bought:
            if usage.start <= now < usage.end_as_of(now + 1) and not usage.free:
                rate = burn_of([usage], book, now)
                reserved, unpriced_reserved = reserved + 1, unpriced_reserved + (rate is None)
                bought_rate += rate or 0
                if total.used.get(usage.node_id, 0) < usage.chips:
                    unused_rates.append(rate)
        unused = max(0, bought_rate - total.on_reserved)
        return FleetHealth(
            counts=counts,
            ready=total.nodes,
            chips=total.chips,
            burn=total.burn + unused,
            reserved=reserved,
            unpriced=total.unpriced,
            overdue=overdue,
            sights=sights,
            as_of=now,
            unpriced_reserved=unpriced_reserved,
            unpriced_vms=total.unpriced_vms,
            aside=aside,
            unused=unused,
            unused_reservations=len(unused_rates) if unused or None in unused_rates else 0,
            unused_unpriced=unused_rates.count(None),
            coming=sum_coming(coming, book, now),
        )

    def count_preemptions(self) -> Sequence[tuple[str, str, int]]:
        """Preempted attempts of all time by generation and provisioning model."""
        with self._units.reading() as unit:
            return unit.fleet.count_preemptions()

    def count_preemptions_since(self, start: int) -> int:
        """Attempts that were preempted since an instant."""
        with self._units.reading() as unit:
            return unit.fleet.count_preemptions_since(start)

    def read_stamp(self) -> OverviewStamp:
        """The current second, the revision of the store, and which daemons look at the cloud."""
        with self._units.reading() as unit:
            sights = self._read_sights(unit)
            revision, running = unit.revisions.read_current(), unit.usage.count_open()
            return OverviewStamp(self._clock(), revision, tuple(sights), running)

    def _read_sights(self, unit: Unit) -> list[ProjectLook]:
        return [
            ProjectLook(project, *unit.leases.read_sight(project)) for project in self._projects
        ]

    def list_overdue(self, limit: int) -> tuple[int, Sequence[LateDeletion]]:
        """The number of overdue deletions, and the oldest of them."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
            number, found = unit.fleet.list_overdue(limit)
            late = []
            for deletion in found:
                running = unit.usage.list_open_of(deletion.node_id)
                lines = [line for usage in running for line in lines_of(usage)]
                late.append(LateDeletion(deletion, burn_of(lines, book, now)))
            return number, late


class ReadinessService:
    """Checks whether requests can be answered now, without a call to the cloud."""

    def __init__(
        self, probe: DatabaseProbe, projects: Sequence[str], timekeeper: Timekeeper | None = None
    ) -> None:
        self._probe = probe
        self._projects = tuple(projects)
        self._timekeeper = timekeeper

    def check_ready(self) -> list[str]:
        """Problems that do not stop the API. Raises StoreUnavailable with the reason if the
        database cannot be read or written."""
        alone = self._probe.check_usable(self._projects)
        said = [] if self._timekeeper is None else [self._timekeeper.warning]
        if alone:
            said.append(
                f"no daemon holds the lease of {', '.join(alone)}: nothing is created, deleted or"
                " metered there; start one with: tpu-steward daemon"
            )
        return [problem for problem in said if problem]
