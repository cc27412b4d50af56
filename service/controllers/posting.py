"""Brings the ledger from what it says of a usage to what it should say."""

from __future__ import annotations

from service.domain.clock import HOUR, floor_to
from service.domain.ledger import desired_entries, entries_to_post
from service.domain.metering import Meter, Usage
from service.domain.pricing import PriceBook
from service.store.unit import Unit


def post(unit: Unit, usage: Usage, book: PriceBook, now: int) -> Usage:
    """Post what is missing: up to its end when that is known, else up to the last full hour.

    The entries, the rollup, the node's sum and the mark of how far the ledger has come are one
    transaction, so a crash leaves all of them or none.
    """
    closed_hour = max(floor_to(now, HOUR), usage.start)
    until = closed_hour if usage.end is None else usage.end
    start = usage.start if usage.dirty else usage.posted_until
    first_hour = 0 if usage.dirty else floor_to(start, HOUR)  # it may once have begun sooner
    whose = unit.attributions.of(usage.node_id)
    meter = Meter(usage, book, until, whose)
    wanted = desired_entries(meter, start, meter.end)
    posted = unit.ledger.posted(usage.id, first_hour)
    entries = list(entries_to_post(usage.id, wanted, posted))
    by_beginning = {one.since: one for one in whose}
    unit.ledger.post(entries, usage, by_beginning, now)
    unit.costs.add(entries, usage, by_beginning)
    unpriced = meter.unpriced_seconds()
    after = unit.usage.posted(usage, meter.end, unpriced)
    amount = sum(entry.amount for entry in entries)
    unit.nodes.posted(after, amount, unpriced - usage.unpriced_seconds)
    return after
