"""The page of what was bought by the calendar: how far each has come, and how much was used."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.pricing.reservations import ReservationStatus
from service.application.services import Services
from service.dashboard.kit.figures import Moment, count, duration, exact, moment, money
from service.dashboard.kit.links import home_of_reservation
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.pages.spend_chart import share
from service.domain.metering.reservation import ReservationState

SHOWN = 100
"""Reservations on the page; the command line lists all."""

WIDTH = 1_000
"""Units that a bar is drawn in: all of it is the whole period of every chip."""

_ORDER = tuple(ReservationState[name] for name in ("RUNNING", "PLANNED", "OVER", "WITHDRAWN"))


@dataclass(frozen=True, slots=True)
class ReservationBar:
    """What was paid so far, and the part of it that nodes used, in parts of WIDTH; `now` is where
    the period has come to."""

    paid: int
    used: int
    now: int


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """One reservation in words; `tone` is the sign for how it stands. Empty where there is nothing
    to say; `bar` is None for a record that was withdrawn."""

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
    unused: str
    unused_share: str
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


def reservations_of(services: Services) -> ReservationsPage:
    """The page as of now: what runs, what is to come, what is over, and what was a mistake."""
    found = sorted(services.reservations.all(), key=_place)
    return ReservationsPage(
        rows=tuple(map(row_of, found[:SHOWN])),
        left_out=max(0, len(found) - SHOWN),
        as_of=moment(services.health.fleet().as_of),
    )


def _place(shown: ReservationStatus) -> int:
    return _ORDER.index(shown.reservation.state(shown.as_of))


def row_of(shown: ReservationStatus) -> ReservationRow:
    """A reservation in words."""
    one = shown.reservation
    tone, verdict = _verdict(shown)
    used_seconds = shown.chip_seconds - shown.unused_chip_seconds
    bar = bar_of(shown)
    return ReservationRow(
        id=one.id,
        href=home_of_reservation(one.id),
        name=one.name,
        what=f"{count(one.chips, one.generation + ' chip')} in {one.zone}",
        whose=", ".join(name for name in (one.team, one.owner) if name),
        project=one.project,
        tone=tone,
        verdict=verdict,
        start=moment(one.start),
        end=moment(one.end),
        lasts=duration(one.end - one.start),
        price="" if shown.price is None else exact(shown.price.per_chip_hour),
        cost=_known(shown, shown.cost),
        used=_known(shown, shown.cost - shown.unused),
        used_share=share(used_seconds, shown.chip_seconds),
        unused=_known(shown, shown.unused),
        unused_share=share(shown.unused_chip_seconds, shown.chip_seconds),
        whole=NOT_KNOWN if shown.whole is None else money(shown.whole),
        bar=bar,
        bar_words="" if bar is None else _bar_words(bar, shown),
        reason=one.reason,
        withdrawn=None if one.withdrawn_at is None else moment(one.withdrawn_at),
        doubts=tuple(_doubts(shown)),
    )


def bar_of(shown: ReservationStatus) -> ReservationBar | None:
    """The bar in whole units, so that what is used is never more than what has gone by."""
    one = shown.reservation
    if one.withdrawn_at is not None:
        return None
    lasts = one.end - one.start
    gone = min(max(shown.as_of - one.start, 0), lasts)
    paid = shown.chip_seconds * WIDTH // (lasts * one.chips)
    used = (shown.chip_seconds - shown.unused_chip_seconds) * WIDTH // (lasts * one.chips)
    return ReservationBar(paid, min(max(used, 0), paid), gone * WIDTH // lasts)


def _bar_words(bar: ReservationBar, shown: ReservationStatus) -> str:
    """What the bar shows, for those who do not see it."""
    gone = f"{share(bar.now, WIDTH) or 'nothing'} of the period has passed"
    if not shown.chip_seconds:
        return gone
    used = shown.chip_seconds - shown.unused_chip_seconds
    return f"{gone}; {share(used, shown.chip_seconds) or 'nothing'} of that was used"


def _known(shown: ReservationStatus, nanos: int) -> str:
    """An amount so far; not nothing where nobody knows the price of any of it."""
    unknown = shown.unpriced_seconds > 0 and shown.chip_seconds == 0
    return NOT_KNOWN if unknown else money(nanos)


def _verdict(shown: ReservationStatus) -> tuple[str, str]:
    """The sign and the words for how it stands."""
    one, now = shown.reservation, shown.as_of
    match one.state(now):
        case ReservationState.PLANNED:
            return "coming", f"begins in {duration(one.start - now)}"
        case ReservationState.RUNNING:
            tone = "trouble" if shown.price is None or _overused(shown) else "up"
            return tone, f"running, {duration(one.end - now)} left"
        case ReservationState.OVER:
            return "still", f"over for {duration(now - one.end)}"
        case ReservationState.WITHDRAWN:
            return "still", "withdrawn"


def _overused(shown: ReservationStatus) -> bool:
    return shown.unused_chip_seconds < 0


def _doubts(shown: ReservationStatus) -> list[str]:
    """What may be wrong with the record or the figures, in sentences."""
    found = []
    if shown.unpriced_seconds:
        found.append(
            f"No price is known for {duration(shown.unpriced_seconds)} of it. Its cost is in no"
            " figure here."
        )
    elif shown.price is None and shown.reservation.withdrawn_at is None:
        found.append("The price is unknown; its cost is in no figure until you add one.")
    if _overused(shown):
        found.append(
            "Nodes used more chips than were bought: the record is wrong, or the nodes ran"
            " elsewhere."
        )
    return found
