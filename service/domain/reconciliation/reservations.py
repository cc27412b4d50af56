"""Calendar-mode reservations on a bill and in the ledger. Pure.

Google does not document the resource of a reservation's rows: the reservation, the machines that
ran in it, or nothing. In each case the billed amount of a reservation in an hour is compared with
all charges for it: the usage of nodes that the bill does not name, and the unused rest.
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
    both sides of each node, `unused` the charges for the unused part of reservations."""

    start: int
    strangers: Sequence[Billed]
    nodes: Sequence[ComparedPair]
    unused: Sequence[Charged]


def reservation_named(resource: str) -> str:
    """Return the short name of a reservation on a bill, from its full name there. Empty for another
    resource."""
    found = _PATH.fullmatch(resource)
    return found[1] if found else ""


def pair_hour(hour: BilledHour, reservations: Sequence[Reservation]) -> Iterator[ComparedPair]:
    """Yield the pairs of an hour, with the reservations on the bill and in the ledger. Each row of
    the bill and of the ledger is in exactly one pair.

    A node stays by itself if its own rows agree with the ledger. So do nodes and reservations
    without rows on the bill.
    """
    known = {reservation.id: reservation for reservation in reservations}
    rows = _match_rows(
        hour.strangers,
        [
            reservation
            for reservation in reservations
            if reservation.start < hour.start + HOUR and hour.start < reservation.end
        ],
    )
    loose = [pair for pair in hour.nodes if _is_loose(pair)]
    pools = _pool_ids([ids for _, ids in rows if ids], [_taken_from(pair) for pair in loose])
    for row, ids in rows:
        if not ids:
            yield ComparedPair([row], [])
    for pool in pools:
        inside = [pair for pair in loose if _taken_from(pair) & pool]
        bought_together = [reservation for reservation in reservations if reservation.id in pool]
        yield ComparedPair(
            [
                *(row for row, ids in rows if ids & pool),
                *(row for pair in inside for row in pair.billed),
            ],
            [
                *(entry for entry in hour.unused if entry.reservation_id in pool),
                *(entry for pair in inside for entry in pair.charged),
            ],
            sorted(bought_together, key=lambda reservation: (reservation.name, reservation.id)),
        )
    pooled = _NONE.union(*pools)
    for entry in hour.unused:
        if entry.reservation_id not in pooled:
            bought = known.get(entry.reservation_id)
            yield ComparedPair([], [entry], [] if bought is None else [bought])
    for pair in hour.nodes:
        if not (_is_loose(pair) and _taken_from(pair) & pooled):
            yield pair


def _match_rows(
    rows: Iterable[Billed], reservations: Sequence[Reservation]
) -> list[tuple[Billed, Ids]]:
    """Each row with the reservations that it may be of; without ids for another resource.

    An unknown full name may be an alias, such as the number, of a reservation that no row names. A
    withdrawn reservation is matched by its name alone.
    """
    standing = [reservation for reservation in reservations if reservation.withdrawn_at is None]
    by_name = [(row, _match_name(row, standing) or _match_name(row, reservations)) for row in rows]
    named = _NONE.union(*(ids for _, ids in by_name))
    found = []
    for row, own_ids in by_name:
        ids = own_ids
        if not ids and row.model == RESERVED:
            ids = frozenset(
                reservation.id for reservation in standing if _fits_row(reservation, row)
            )
            ids -= named if reservation_named(row.resource) else _NONE
        found.append((row, ids))
    return found


def _match_name(row: Billed, reservations: Iterable[Reservation]) -> Ids:
    plain = row.resource if row.model == RESERVED else ""
    name = reservation_named(row.resource) or plain
    return frozenset(
        reservation.id
        for reservation in reservations
        if reservation.name == name and _fits_row(reservation, row)
    )


def _fits_row(reservation: Reservation, row: Billed) -> bool:
    found = _ZONE.match(row.resource)
    zone = found[1] if found else row.zone
    where = row.project == reservation.project and zone in ("", reservation.zone)
    return where and row.generation in ("", reservation.generation)


def _is_loose(pair: ComparedPair) -> bool:
    """Whether a node ran in a reservation, and the bill has no equal amount under its name."""
    if not _taken_from(pair):
        return False
    as_reserved = all(row.model in ("", RESERVED) for row in pair.billed)
    return not pair.billed or (as_reserved and not pair.is_exact(pair.cost - pair.amount))


def _taken_from(pair: ComparedPair) -> Ids:
    return frozenset(entry.reservation_id for entry in pair.charged if entry.reservation_id)


def _pool_ids(billed: Sequence[Ids], charged: Iterable[Ids]) -> list[Ids]:
    """Billed reservations in groups that cannot be told apart: because a row may be of several, or
    because a node used several."""
    pools: list[Ids] = []
    for some in (*billed, *charged):
        met = [pool for pool in pools if pool & some]
        pools = [*(pool for pool in pools if not pool & some), some.union(*met)]
    return sorted((pool for pool in pools if any(pool & some for some in billed)), key=min)
