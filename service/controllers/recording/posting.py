"""Brings the ledger entries of a usage to their desired values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from service.domain.clock import HOUR, floor_to
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import (
    LedgerEntry,
    desired_entries,
    entries_to_post,
    subtract_used,
)
from service.domain.metering.line_items import lines_of
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import PriceBook, reservation_in
from service.store.unit import LastWrites, Unit


def post_usage(unit: Unit, usage: Usage, book: PriceBook, now: int) -> Usage:
    """Post what is missing: up to the end of the usage if it has ended, else up to the last full
    hour.

    The entries, the rollup, the node's sum and `posted_until` are written in one transaction, so a
    crash leaves all of them or none. The change to the unused part of a reservation belongs to the
    same transaction.
    """
    closed_hour = max(floor_to(now, HOUR), usage.start)
    until = closed_hour if usage.end is None else usage.end
    start = usage.start if usage.dirty else usage.posted_until
    first_hour = 0 if usage.dirty else floor_to(start, HOUR)  # it may once have begun sooner
    whose = unit.attributions.list_by_node(usage.node_id)
    amount = unpriced = 0
    written: list[LedgerEntry] = []
    for line in lines_of(usage):
        meter = Meter(line, book, until, whose)
        wanted = desired_entries(meter, start, meter.end)
        posted = unit.ledger.sum_by_slot(line, first_hour)
        entries = list(entries_to_post(usage.id, wanted, posted))
        _write_entries(unit, entries, line, whose, now)
        amount += sum(entry.amount for entry in entries)
        unpriced += meter.unpriced_seconds()
        written += entries
    after = unit.usage.save_posted(usage, usage.end_as_of(until), unpriced)
    more = unpriced - usage.unpriced_seconds
    unit.at_the_end(
        LastWrites.NODES, usage.node_id, lambda: unit.nodes.add_posted(after, amount, more)
    )
    _post_what_they_left(unit, written, book, now)
    return after


def post_unused(unit: Unit, bought: Usage, book: PriceBook, now: int) -> Usage:
    """Post the unused part of a reservation, up to the last full hour in which all of its usage is
    known."""
    running = [
        usage.posted_until
        for usage in unit.usage.list_reserved(bought.start, bought.end_as_of(now))
        if usage.end is None and (usage.project, usage.zone) == (bought.project, bought.zone)
    ]
    known = floor_to(min([now, *running]), HOUR)
    until = bought.end_as_of(max(bought.posted_until, known))
    start = bought.start if bought.dirty else bought.posted_until
    return _post_unused(unit, bought, book, (start, until), now)


def _post_unused(
    unit: Unit, bought: Usage, book: PriceBook, part: tuple[int, int], now: int
) -> Usage:
    start, until = part
    first_hour = floor_to(start, HOUR)
    whose = unit.attributions.list_by_node(bought.node_id)
    meter = Meter(bought, book, until, whose)
    used = unit.ledger.sum_used(bought.node_id, first_hour)
    wanted = subtract_used(desired_entries(meter, max(bought.start, first_hour), meter.end), used)
    posted = unit.ledger.sum_by_slot(bought, first_hour)
    entries = list(entries_to_post(bought.id, wanted, posted))
    _write_entries(unit, entries, bought, whose, now)
    return unit.usage.save_posted(bought, meter.end, meter.unpriced_seconds())


def _post_what_they_left(
    unit: Unit, written: Iterable[LedgerEntry], book: PriceBook, now: int
) -> None:
    """Post the unused part of reservations again, in hours whose usage has changed."""
    first: dict[str, int] = {}
    for entry in written:
        bought = reservation_in(entry.slot.price_id)
        if bought:
            first[bought] = min(entry.slot.hour, first.get(bought, entry.slot.hour))
    for reservation_id, hour in first.items():
        work = partial(_post_left, unit, reservation_id, hour, book, now)
        unit.at_the_end(LastWrites.RESERVATIONS, reservation_id, work)


def _post_left(unit: Unit, reservation_id: str, hour: int, book: PriceBook, now: int) -> None:
    bought_usage = unit.usage.get_purchase(reservation_id)
    if hour < bought_usage.posted_until and not bought_usage.dirty:
        part = max(hour, bought_usage.start), bought_usage.posted_until
        _post_unused(unit, bought_usage, book, part, now)


def _write_entries(
    unit: Unit, entries: Sequence[LedgerEntry], line: Usage, whose: Sequence[Attribution], now: int
) -> None:
    by_start = {attribution.since: attribution for attribution in whose}
    unit.ledger.post(entries, line, by_start, now)
    unit.costs.add(entries, line, by_start)
