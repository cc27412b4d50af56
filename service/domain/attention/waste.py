"""Waste: what is paid for and does no work. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class WasteKind(StrEnum):
    """Why something is waste, in the order of certainty."""

    FAILING_DELETION = "failing_deletion"
    """A node that is to be deleted, whose deletion fails, and that is still billed."""
    ORPHAN = "orphan"
    UNUSED_RESERVATION = "unused_reservation"
    CRASH_LOOP = "crash_loop"
    NO_PROGRESS = "no_progress"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class WasteSource:
    """One thing that is paid for and does no work.

    `hourly` is nano-dollars an hour; None if a price is unknown. `since` is the UTC second since
    which it does no work, None where that is unknown. `kept_until` is the end of the keep that
    holds an idle node now, None where its date cannot be read. `node_id` is empty for what is no
    node of ours.
    """

    kind: WasteKind
    name: str
    hourly: int | None
    since: int | None = None
    node_id: str = ""
    kept_until: int | None = None


@dataclass(frozen=True, slots=True)
class WasteSum:
    """The number of sources, the known nano-dollars an hour, and the sources without a price."""

    number: int = 0
    hourly: int = 0
    unpriced: int = 0

    @property
    def known_hourly(self) -> int | None:
        """The nano-dollars an hour as far as prices are known; None if no source has a known
        price."""
        return None if self.number and self.unpriced == self.number else self.hourly

    def with_source(self, hourly: int | None) -> WasteSum:
        """The sum with another source, which costs `hourly`."""
        return WasteSum(
            self.number + 1, self.hourly + (hourly or 0), self.unpriced + (hourly is None)
        )


@dataclass(frozen=True, slots=True)
class WasteReport:
    """All waste as of a UTC second. `sources` are the single sources, the most expensive first;
    orphans and unused reservations are one source each. `unknown` are the READY nodes of which it
    is unknown whether they work: they are in no other sum."""

    as_of: int
    sources: tuple[WasteSource, ...]
    by_kind: Mapping[WasteKind, WasteSum]
    unknown: WasteSum

    @property
    def total(self) -> WasteSum:
        """The sum over all kinds, without what is unknown."""
        sums = self.by_kind.values()
        return WasteSum(
            sum(part.number for part in sums),
            sum(part.hourly for part in sums),
            sum(part.unpriced for part in sums),
        )


def build_waste_report(
    as_of: int,
    sources: Iterable[WasteSource],
    summed: Mapping[WasteKind, WasteSum],
    unknown: WasteSum,
) -> WasteReport:
    """Return the waste report of single sources and of kinds that are only known as a sum. A sum
    without any source adds nothing; a source without a price is listed last."""
    found = list(sources)
    by_kind = dict.fromkeys(WasteKind, WasteSum())
    for source in found:
        by_kind[source.kind] = by_kind[source.kind].with_source(source.hourly)
    for kind, total in summed.items():
        if total.number:
            found.append(WasteSource(kind, "", total.known_hourly))
            by_kind[kind] = total
    found.sort(key=lambda source: (-(source.hourly or 0), source.kind, source.name, source.node_id))
    return WasteReport(as_of, tuple(found), by_kind, unknown)
