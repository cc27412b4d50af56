"""Reservations by the calendar on a bill, and what the ledger says of them. Pure.

Nothing documents what Google's rows for one name as their resource: the reservation, the machines
that ran in it, or nothing. Whatever it is, what is billed for a reservation in an hour is held
against all that is charged for it: what nodes used and the bill does not name as theirs, and what
nobody used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from service.domain.clock import HOUR
from service.domain.metering.reservation import Reservation
from service.domain.pricing.price_book import RESERVED
from service.domain.reconciliation.variance import Billed, Charged, ComparedPair

Ids = frozenset[str]
"""Of reservations."""

_NONE: Ids = frozenset()
_PATH = re.compile(r"(?:.*/)?reservations/([^/]+)")
_ZONE = re.compile(r"(?:.*/)?(?:zones|locations)/([^/]+)/")


@dataclass(frozen=True, slots=True)
class BilledHour:
    """An hour of a bill and of the ledger: `strangers` are rows that name no node of ours, `nodes`
    both sides of each node, `unused` what of reservations no node used."""

    start: int
    strangers: Sequence[Billed]
    nodes: Sequence[ComparedPair]
    unused: Sequence[Charged]


def reservation_named(resource: str) -> str:
    """The name of the reservation whose full name that is; empty where it is that of none."""
    found = _PATH.fullmatch(resource)
    return found[1] if found else ""


def together(hour: BilledHour, reservations: Sequence[Reservation]) -> Iterator[ComparedPair]:
    """What is compared in an hour: each row of the bill and of the ledger is in exactly one pair.

    A node whose own rows say what we say stays by itself, as do nodes and reservations of which the
    bill says nothing.
    """
    known = {one.id: one for one in reservations}
    then = [one for one in reservations if one.start < hour.start + HOUR and hour.start < one.end]
    rows = _meant(hour.strangers, then)
    loose = [pair for pair in hour.nodes if _is_loose(pair)]
    pools = _pools([meant for _, meant in rows if meant], [_taken_from(pair) for pair in loose])
    for row, meant in rows:
        if not meant:
            yield ComparedPair([row], [])
    for pool in pools:
        inside = [pair for pair in loose if _taken_from(pair) & pool]
        yield ComparedPair(
            [
                *(row for row, meant in rows if meant & pool),
                *(row for pair in inside for row in pair.billed),
            ],
            [
                *(one for one in hour.unused if one.reservation_id in pool),
                *(one for pair in inside for one in pair.charged),
            ],
            sorted((one for one in reservations if one.id in pool), key=_order),
        )
    pooled = _NONE.union(*pools)
    for one in hour.unused:
        if one.reservation_id not in pooled:
            bought = known.get(one.reservation_id)
            yield ComparedPair([], [one], [] if bought is None else [bought])
    for pair in hour.nodes:
        if not (_is_loose(pair) and _taken_from(pair) & pooled):
            yield pair


def _order(one: Reservation) -> tuple[str, str]:
    return one.name, one.id


def _meant(rows: Iterable[Billed], then: Sequence[Reservation]) -> list[tuple[Billed, Ids]]:
    """Each row with the reservations that it may speak of; none where it speaks of something else.

    A full name that is none of theirs may be another word for one, such as its number, as long as
    no row names that one rightly. A record that was withdrawn is spoken of by its name alone.
    """
    standing = [one for one in then if one.withdrawn_at is None]
    by_name = [(row, _named(row, standing) or _named(row, then)) for row in rows]
    rightly = _NONE.union(*(named for _, named in by_name))
    found = []
    for row, named in by_name:
        meant = named
        if not named and row.model == RESERVED:
            meant = frozenset(one.id for one in standing if _fits(row, one))
            meant -= rightly if reservation_named(row.resource) else _NONE
        found.append((row, meant))
    return found


def _named(row: Billed, some: Iterable[Reservation]) -> Ids:
    plain = row.resource if row.model == RESERVED else ""
    name = reservation_named(row.resource) or plain
    return frozenset(one.id for one in some if one.name == name and _fits(row, one))


def _fits(row: Billed, one: Reservation) -> bool:
    found = _ZONE.match(row.resource)
    zone = found[1] if found else row.zone
    where = row.project == one.project and zone in ("", one.zone)
    return where and row.generation in ("", one.generation)


def _is_loose(pair: ComparedPair) -> bool:
    """Whether a node ran in a reservation, and the bill does not say the same of it by its name."""
    if not _taken_from(pair):
        return False
    as_reserved = all(row.model in ("", RESERVED) for row in pair.billed)
    return not pair.billed or (as_reserved and not pair.is_exact(pair.cost - pair.amount))


def _taken_from(pair: ComparedPair) -> Ids:
    return frozenset(one.reservation_id for one in pair.charged if one.reservation_id)


def _pools(billed: Sequence[Ids], charged: Iterable[Ids]) -> list[Ids]:
    """Reservations that cannot be told apart, together: by what a row may speak of, and by what a
    node has of several; of those only that are billed."""
    pools: list[Ids] = []
    for some in (*billed, *charged):
        met = [pool for pool in pools if pool & some]
        pools = [*(pool for pool in pools if not pool & some), some.union(*met)]
    return sorted((pool for pool in pools if any(pool & some for some in billed)), key=min)
