"""A reservation by the calendar: chips in one zone, paid for from its first second to its last,
whether anything runs on them or not (reference/pricing.md section 2). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.catalog import catalog
from service.domain.catalog.regions import is_region
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.ids import check_labels
from service.domain.metering.meter import Evidence, Meter, Usage
from service.domain.money import MAX_NANOS, dollars
from service.domain.pricing.billing_rules import calendar_days
from service.domain.pricing.price_book import RESERVED, PriceBook, Sku
from service.domain.pricing.purchases import Purchase, pool_of

MAX_CHIPS = 100_000
"""No reservation is larger than the largest slice of any generation, many times over."""

MAX_WHOLE = MAX_NANOS // 10
"""Nano-dollars, about 922 million dollars: ten of the largest can still be summed."""

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-(ai[0-9]+)?[a-z]")


class ReservationState(StrEnum):
    """How far a reservation has come."""

    PLANNED = "planned"
    RUNNING = "running"
    OVER = "over"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was bought, as its buyer wrote it down: Google has no way to ask it of the TPU API.

    `chips` of one `generation` in a `zone` are paid for in the whole UTC seconds [start, end).
    `name` is that of the reservation at Google, which a node names to be taken from it. A record
    that was wrong is withdrawn with a `reason`; what it had charged is taken back, never erased.
    """

    id: str
    name: str
    project: str
    zone: str
    generation: str
    chips: int
    start: int
    end: int
    owner: str = ""
    team: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    recorded_at: int = 0
    recorded_by: str = ""
    withdrawn_at: int | None = None
    reason: str = ""

    @property
    def purchase(self) -> Purchase:
        """What the price book has to know of it."""
        return Purchase(
            self.id, self.name, self.project, self.zone, self.generation, self.start, self.end
        )

    def state(self, now: int) -> ReservationState:
        """How far it has come by then; a record that was withdrawn was never true."""
        if self.withdrawn_at is not None:
            return ReservationState.WITHDRAWN
        if now < self.start:
            return ReservationState.PLANNED
        return ReservationState.RUNNING if now < self.end else ReservationState.OVER


def check(wanted: Reservation, others: Iterable[Reservation]) -> None:
    """Refuse what cannot have been bought. `others` are those that stand.

    Raises Rejected with the field, or Conflict where the name is taken at that time.
    """
    if not _NAME.fullmatch(wanted.name):
        raise Rejected(f"{wanted.name[:80]!r} is not the name of a reservation", field="name")
    check_labels(wanted.labels)
    _check_place(wanted)
    shortest, longest = (days * DAY for days in calendar_days(wanted.start))
    if not 0 < wanted.chips <= MAX_CHIPS:
        raise Rejected(f"a reservation has 1 to {MAX_CHIPS:,} chips", field="chips")
    if not shortest <= wanted.end - wanted.start <= longest:
        raise Rejected(
            f"a calendar-mode reservation lasts {shortest // DAY} to {longest // DAY} days, not"
            f" from {rfc3339(wanted.start)} to {rfc3339(wanted.end)}",
            field="ends_at",
        )
    for other in others:
        same = (other.project, other.zone, other.name) == (wanted.project, wanted.zone, wanted.name)
        if same and other.start < wanted.end and wanted.start < other.end:
            raise Conflict(
                f"{other.name!r} is recorded for {wanted.zone} from {rfc3339(other.start)} to"
                f" {rfc3339(other.end)} already; if that record is wrong, withdraw it first",
                reservation_id=other.id,
            )


def check_countable(wanted: Reservation, book: PriceBook) -> None:
    """Refuse what comes to more than can be counted at the prices known now: it would break the
    ledger with its first hour. Raises Rejected."""
    with_it = PriceBook(book.prices, book.discounts, (*book.purchases, wanted.purchase))
    whole = Meter(usage_of(wanted, ""), with_it, wanted.end).total()
    if whole > MAX_WHOLE:
        raise Rejected(
            f"{wanted.chips:,} chips cost {dollars(whole)} until then, more than"
            f" {dollars(MAX_WHOLE)}; check the chips and their price",
            field="chips",
        )


def _check_place(wanted: Reservation) -> None:
    offers = catalog.load().offers
    there = sorted({one.generation for one in offers if one.zone == wanted.zone})
    sold = sorted({one.generation for one in offers if one.calendar})
    if not there and not _is_unlisted(wanted.zone):
        raise Rejected(f"there is no zone {wanted.zone[:80]!r}", field="zone")
    if there and wanted.generation not in there:
        raise Rejected(
            f"{wanted.zone} has {' and '.join(there)}, not {wanted.generation[:80]}",
            field="generation",
            generations=there,
        )
    if wanted.generation not in sold:
        raise Rejected(
            f"{wanted.generation[:80]} has no calendar-mode reservations: Google offers"
            f" {', '.join(sold)} so",
            field="generation",
            generations=sold,
        )


def _is_unlisted(zone: str) -> bool:
    """Whether there may be such a zone although the catalogue has none of its region: Google sells
    by the calendar also where the TPU API offers nothing."""
    region = region_of(zone)
    known = any(one.region == region for one in catalog.load().offers)
    return not known and is_region(region) and _ZONE.fullmatch(zone) is not None


def usage_of(one: Reservation, usage_id: str) -> Usage:
    """All of it as an interval to charge: both ends are known, by what was bought."""
    return Usage(
        id=usage_id,
        node_id=one.id,
        project=one.project,
        zone=one.zone,
        accelerator_type=one.generation,
        chips=one.chips,
        sku=Sku(
            one.generation,
            RESERVED,
            region_of(one.zone),
            pool=pool_of(one.project, one.zone, one.name),
        ),
        start=one.start,
        start_hi=one.start,
        start_evidence=Evidence.PURCHASE,
        end=one.end,
        end_lo=one.end,
        end_evidence=Evidence.PURCHASE,
        free="" if one.withdrawn_at is None else f"withdrawn: {one.reason}",
        posted_until=one.start,
        dirty=True,
    )
