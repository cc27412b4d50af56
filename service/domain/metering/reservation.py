"""Calendar-mode reservations: chips in one zone, paid from the first second to the last. Pure.

They are paid whether anything runs on them or not (reference/pricing.md section 2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.catalog import catalog
from service.domain.catalog.regions import is_region
from service.domain.catalog.zones import region_of
from service.domain.clock import DAY, to_rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.ids import check_labels
from service.domain.metering.meter import Evidence, Meter, Usage
from service.domain.money import MAX_NANOS, format_dollars
from service.domain.pricing.billing_rules import calendar_days
from service.domain.pricing.price_book import RESERVED, PriceBook, Sku
from service.domain.pricing.purchases import Purchase, pool_of

MAX_CHIPS = 100_000
"""Upper limit for one reservation, many times the largest slice of any generation."""

MAX_WHOLE = MAX_NANOS // 10
"""Upper limit in nano-dollars, about 922 million dollars: ten such reservations can be summed."""

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
    """A purchase as its buyer recorded it: the TPU API has no way to read it.

    `chips` of one `generation` in a `zone` are paid for in the whole UTC seconds [start, end).
    `name` is the name of the reservation at Google; a node names it to use its capacity. A wrong
    record is withdrawn with a `reason`; its charges are credited, never erased.
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
        """The purchase, for the price book."""
        return Purchase(
            self.id, self.name, self.project, self.zone, self.generation, self.start, self.end
        )

    def state_at(self, now: int) -> ReservationState:
        """The state at `now`; a withdrawn record is WITHDRAWN at every instant."""
        if self.withdrawn_at is not None:
            return ReservationState.WITHDRAWN
        if now < self.start:
            return ReservationState.PLANNED
        return ReservationState.RUNNING if now < self.end else ReservationState.OVER


def check_reservation(wanted: Reservation, others: Iterable[Reservation]) -> None:
    """Raise Rejected, with the field, for a reservation that cannot have been bought.

    Raises Conflict if the name is taken at that time. `others` are the records that are not
    withdrawn.
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
            f" from {to_rfc3339(wanted.start)} to {to_rfc3339(wanted.end)}",
            field="ends_at",
        )
    for other in others:
        same = (other.project, other.zone, other.name) == (wanted.project, wanted.zone, wanted.name)
        if same and other.start < wanted.end and wanted.start < other.end:
            raise Conflict(
                f"{other.name!r} is recorded for {wanted.zone} from {to_rfc3339(other.start)} to"
                f" {to_rfc3339(other.end)} already; if that record is wrong, withdraw it first",
                reservation_id=other.id,
            )


def check_countable(wanted: Reservation, book: PriceBook) -> None:
    """Raise Rejected for a reservation that costs more than MAX_WHOLE at the prices known now.

    Its amounts would overflow the ledger with the first hour.
    """
    with_it = PriceBook(book.prices, book.discounts, (*book.purchases, wanted.purchase))
    whole = Meter(usage_of(wanted, ""), with_it, wanted.end).total_charge()
    if whole > MAX_WHOLE:
        raise Rejected(
            f"{wanted.chips:,} chips cost {format_dollars(whole)} until then, more than"
            f" {format_dollars(MAX_WHOLE)}; check the chips and their price",
            field="chips",
        )


def _check_place(wanted: Reservation) -> None:
    offers = catalog.load_catalog().offers
    there = sorted({offer.generation for offer in offers if offer.zone == wanted.zone})
    sold = sorted({offer.generation for offer in offers if offer.calendar})
    if not there:
        # A region without any offer in the catalogue may have such a zone: Google sells
        # calendar-mode reservations also where the TPU API offers nothing.
        region = region_of(wanted.zone)
        is_listed = any(offer.region == region for offer in offers)
        if is_listed or not is_region(region) or _ZONE.fullmatch(wanted.zone) is None:
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


def usage_of(reservation: Reservation, usage_id: str) -> Usage:
    """The whole calendar-mode reservation as an interval to charge; the purchase defines both
    ends."""
    return Usage(
        id=usage_id,
        node_id=reservation.id,
        project=reservation.project,
        zone=reservation.zone,
        accelerator_type=reservation.generation,
        chips=reservation.chips,
        sku=Sku(
            reservation.generation,
            RESERVED,
            region_of(reservation.zone),
            pool=pool_of(reservation.project, reservation.zone, reservation.name),
        ),
        start=reservation.start,
        start_hi=reservation.start,
        start_evidence=Evidence.PURCHASE,
        end=reservation.end,
        end_lo=reservation.end,
        end_evidence=Evidence.PURCHASE,
        free="" if reservation.withdrawn_at is None else f"withdrawn: {reservation.reason}",
        posted_until=reservation.start,
        dirty=True,
    )
