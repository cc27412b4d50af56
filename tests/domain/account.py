"""A ledger in memory, for tests that post to it."""

from __future__ import annotations

from service.domain.clock import HOUR, floor_to
from service.domain.metering.ledger import (
    LedgerEntry,
    LedgerSlot,
    PostedSlot,
    desired_entries,
    entries_to_post,
)
from service.domain.metering.meter import Meter


def _sum(amounts):
    found = list(amounts)
    return None if None in found else sum(found)


class Account:
    """A ledger in memory, which refuses the same key twice as the database does."""

    def __init__(self):
        self.entries: dict[str, LedgerEntry] = {}
        self.ids: dict[str, int] = {}

    def post(self, usage, book, now, whose=()):
        until = max(floor_to(now, HOUR), usage.start) if usage.end is None else usage.end
        meter = Meter(usage, book, until, whose)
        wanted = desired_entries(meter, usage.start, meter.end)
        added = list(entries_to_post(usage.id, wanted, self.posted()))
        for entry in added:
            assert entry.key not in self.entries
            self.entries[entry.key] = entry
            self.ids[entry.key] = len(self.ids) + 1
        return added

    def posted(self):
        slots: dict[LedgerSlot, list[LedgerEntry]] = {}
        for entry in self.entries.values():
            slots.setdefault(entry.slot, []).append(entry)
        return {
            slot: PostedSlot(
                count=len(lines),
                chip_seconds=sum(line.chip_seconds for line in lines),
                amount=sum(line.amount for line in lines),
                list_amount=_sum(line.list_amount for line in lines),
                price=lines[0].price,
                charge_start=min(line.charge_start for line in lines),
                charge_end=max(line.charge_end for line in lines),
                first_id=self.ids[lines[0].key],
            )
            for slot, lines in slots.items()
        }

    def sums(self):
        """What each slot comes to, at list price too; slots that were taken back altogether do not
        count."""
        return {
            slot: (posted.amount, posted.chip_seconds, posted.list_amount)
            for slot, posted in self.posted().items()
            if posted.amount or posted.chip_seconds
        }
