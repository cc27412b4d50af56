"""The page of calendar-mode reservations: how far each has come, and how much of it is used."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.pricing.reservations import ReservationStatus
from service.application.services import Services
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_exact,
    format_money,
    to_moment,
)
from service.dashboard.kit.links import reservation_address
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.commitments.commitment import Commitment, CommitmentState
from service.domain.metering.reservation import Reservation, ReservationState

SHOWN = 100
"""The most reservations on the page; the command line lists all."""

WIDTH = 1_000
"""Units of a bar: its whole width is the whole period of every chip."""

_ORDER = tuple(ReservationState[name] for name in ("RUNNING", "PLANNED", "OVER", "WITHDRAWN"))


@dataclass(frozen=True, slots=True)
class ReservationBar:
    """The paid part so far, and the part of it that nodes used, in parts of WIDTH; `now` is the
    position of the current time in the period."""

    paid: int
    used: int
    now: int


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """One reservation in words; empty texts have nothing to say. `tone` is the sign for the state.
    `utilization` is the used share, also if it is zero; `is_low` says that less than half was used
    so far. `bar` is None for a withdrawn record."""

    id: str
    href: str
    name: str
    what: str
    whose: str
    project: str
    tone: str
    verdict: str
    start: Moment
    end: Moment
    lasts: str
    price: str
    cost: str
    used: str
    used_share: str
    utilization: str
    unused: str
    unused_share: str
    is_low: bool
    whole: str
    bar: ReservationBar | None
    bar_words: str
    reason: str
    withdrawn: Moment | None
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReservationsPage:
    """Everything on the page."""

    rows: tuple[ReservationRow, ...]
    left_out: int
    as_of: Moment


def build_reservations_page(services: Services) -> ReservationsPage:
    """The page as of now: running reservations first, then planned, past and withdrawn ones."""
    found = sorted(
        services.reservations.list_all(),
        key=lambda shown: _ORDER.index(shown.reservation.state_at(shown.as_of)),
    )
    return ReservationsPage(
        rows=tuple(map(build_reservation_row, found[:SHOWN])),
        left_out=max(0, len(found) - SHOWN),
        as_of=to_moment(services.health.read_fleet().as_of),
    )


def build_reservation_row(shown: ReservationStatus) -> ReservationRow:
    """The row of a reservation."""
    reservation = shown.reservation
    is_overused = shown.unused_chip_seconds < 0
    is_trouble = is_overused or shown.price is None
    tone, verdict = describe_term(reservation, shown.as_of, is_trouble=is_trouble)
    chips = format_count(reservation.chips, f"{reservation.generation} chip")
    used_share = format_share(shown.chip_seconds - shown.unused_chip_seconds, shown.chip_seconds)
    bar = build_bar(shown)
    bar_words = ""
    if bar is not None:
        bar_words = f"{format_share(bar.now, WIDTH) or 'nothing'} of the period has passed"
        if shown.chip_seconds:
            bar_words += f"; {used_share or 'nothing'} of that was used"
    return ReservationRow(
        id=reservation.id,
        href=reservation_address(reservation.id),
        name=reservation.name,
        what=f"{chips} in {reservation.zone}",
        whose=", ".join(name for name in (reservation.team, reservation.owner) if name),
        project=reservation.project,
        tone=tone,
        verdict=verdict,
        start=to_moment(reservation.start),
        end=to_moment(reservation.end),
        lasts=format_duration(reservation.end - reservation.start),
        price="" if shown.price is None else format_exact(shown.price.per_chip_hour),
        cost=_format_known(shown, shown.cost),
        used=_format_known(shown, shown.cost - shown.unused),
        used_share=used_share,
        utilization=(used_share or "0 %") if shown.chip_seconds else "",
        unused=_format_known(shown, shown.unused),
        unused_share=format_share(shown.unused_chip_seconds, shown.chip_seconds),
        is_low=0 < shown.chip_seconds < 2 * shown.unused_chip_seconds,
        whole=NOT_KNOWN if shown.whole is None else format_money(shown.whole),
        bar=bar,
        bar_words=bar_words,
        reason=reservation.reason,
        withdrawn=None if reservation.withdrawn_at is None else to_moment(reservation.withdrawn_at),
        doubts=tuple(_list_doubts(shown)),
    )


def build_bar(shown: ReservationStatus) -> ReservationBar | None:
    """The bar in whole units; its used part never exceeds its paid part. None for a withdrawn
    record."""
    reservation = shown.reservation
    if reservation.withdrawn_at is not None:
        return None
    lasts = reservation.end - reservation.start
    gone = min(max(shown.as_of - reservation.start, 0), lasts)
    paid = shown.chip_seconds * WIDTH // (lasts * reservation.chips)
    used = (shown.chip_seconds - shown.unused_chip_seconds) * WIDTH // (lasts * reservation.chips)
    return ReservationBar(paid, min(max(used, 0), paid), gone * WIDTH // lasts)


def _format_known(shown: ReservationStatus, nanos: int) -> str:
    """An amount so far; `not known` if no price is known for any of the time."""
    unknown = shown.unpriced_seconds > 0 and shown.chip_seconds == 0
    return NOT_KNOWN if unknown else format_money(nanos)


def describe_term(
    bought: Reservation | Commitment, now: int, *, is_trouble: bool
) -> tuple[str, str]:
    """The sign and the words for the state of a reservation or a commitment. `is_trouble` marks one
    that runs."""
    match bought.state_at(now):
        case ReservationState.PLANNED | CommitmentState.PLANNED:
            return "coming", f"begins in {format_duration(bought.start - now)}"
        case ReservationState.RUNNING | CommitmentState.RUNNING:
            left = format_duration(bought.end - now)
            return "trouble" if is_trouble else "up", f"running, {left} left"
        case ReservationState.OVER | CommitmentState.OVER:
            return "still", f"over for {format_duration(now - bought.end)}"
        case ReservationState.WITHDRAWN | CommitmentState.WITHDRAWN:
            return "still", "withdrawn"


def _list_doubts(shown: ReservationStatus) -> list[str]:
    """Sentences about what may be wrong with the record or the figures."""
    found = []
    if shown.unpriced_seconds:
        found.append(
            f"No price is known for {format_duration(shown.unpriced_seconds)} of it. Its cost is"
            " in no figure here."
        )
    elif shown.price is None and shown.reservation.withdrawn_at is None:
        found.append("The price is unknown; its cost is in no figure until you add one.")
    if shown.unused_chip_seconds < 0:
        found.append(
            "Nodes used more chips than were bought: the record is wrong, or the nodes ran"
            " elsewhere."
        )
    return found
