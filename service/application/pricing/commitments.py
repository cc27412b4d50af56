"""What callers may say and ask of committed-use discounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from service.application.answers import Answers
from service.application.projects import every
from service.domain.clock import MINUTE, Clock, floor_to
from service.domain.commitments.commitment import Commitment, check, fee, listed_rate, rate_of
from service.domain.commitments.coverage import (
    CoverageLine,
    PricedCommitment,
    cover,
    priced,
    since_of,
    tpu_line,
)
from service.domain.commitments.standing import CommitmentUsage, usage_in
from service.domain.errors import Rejected
from service.domain.ids import new_id
from service.domain.metering.meter import Meter
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.time_window import Window, parse_window, zone_of
from service.store.pricebook import PriceShelf
from service.store.unit import Unit, Units

_SAME = (
    *("name", "project", "region", "generation", "chips", "term", "start", "contract"),
    *("owner", "team", "labels"),
)
_MOST_REPORTS = 32


@dataclass(frozen=True, slots=True)
class CommitmentStatus:
    """A commitment and its fee in nano-dollars, used or not: `so_far` up to `as_of`, `whole` for
    the term. `rate` is nano-dollars per chip-hour; all three are None where no rate is known.
    `listed` is the list price of its first second, None where none is known."""

    commitment: Commitment
    rate: int | None
    listed: Price | None
    so_far: int | None
    whole: int | None
    as_of: int


@dataclass(frozen=True, slots=True)
class RecordedCommitment:
    """A commitment that was recorded; `created` is False when the same was there already."""

    shown: CommitmentStatus
    created: bool


@dataclass(frozen=True, slots=True)
class CommitmentReport:
    """What commitments cover in a window; `names` are those of the nodes, by id."""

    usage: CommitmentUsage
    names: Mapping[str, str]
    as_of: int


class CommitmentService:
    """Records commitments, and works out what they cover from the usage, when asked."""

    def __init__(
        self, units: Units, prices: PriceShelf, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects
        self._reports = Answers(_MOST_REPORTS)

    def record(self, wanted: Commitment) -> RecordedCommitment:
        """Record a commitment; its id and the time are given here. The same once more is the one
        that is there. Raises Rejected for what cannot be, Conflict where the name is taken."""
        every(wanted.project, self._projects)
        one = replace(
            wanted,
            id=new_id(),
            recorded_at=self._clock(),
            recorded_by=wanted.recorded_by or "caller",
        )
        with self._units() as unit:
            unit.commitments.take_turns()
            standing = unit.commitments.standing()
            known = next((other for other in standing if _is_same(one, other)), None)
            if known is None:
                check(one, standing, self._prices.book(unit))
                unit.commitments.add(one)
        return RecordedCommitment(self.get((known or one).id), known is None)

    def withdraw(self, commitment_id: str, reason: str) -> CommitmentStatus:
        """Withdraw a wrong record, so that it counts in no figure. The second time changes
        nothing. Raises NotFound, and Rejected without a reason."""
        if not reason.strip():
            raise Rejected("give a reason: why is the record wrong?", field="reason")
        with self._units() as unit:
            one = unit.commitments.get(commitment_id)
            unit.commitments.withdraw(one.id, reason.strip(), self._clock())
        return self.get(commitment_id)

    def get(self, commitment_id: str) -> CommitmentStatus:
        """One commitment; raises NotFound."""
        with self._units.reading() as unit:
            one = unit.commitments.get(commitment_id)
            return _shown(one, self._prices.book(unit), self._clock())

    def all(self) -> Sequence[CommitmentStatus]:
        """Every commitment ever recorded, the latest to begin first."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.book(unit)
            return [_shown(one, book, now) for one in unit.commitments.all()]

    def usage(self, window: str = "mtd", tz: str = "UTC") -> CommitmentReport:
        """What commitments cover in a window, up to now. Raises Rejected where the window makes no
        sense. Whoever asks the same in one second gets one answer, until the books change."""
        now = self._clock()
        asked = parse_window(window, zone_of(tz), now)
        over = Window(asked.start, max(asked.start, min(asked.end, now)))
        with self._units.reading() as unit:
            key = unit.revisions.now().books, self._prices.book(unit), over
            report = self._reports.of(key, lambda: self._report(unit, over, now))
            return replace(report, as_of=now)

    def among(self, window: Window) -> CommitmentUsage | None:
        """What commitments cover in a window; None where none stands. The present minute is left
        out, so the figures of a page are computed once a minute."""
        now = self._clock()
        end = min(floor_to(now, MINUTE), window.end)
        over = Window(window.start, max(window.start, end))
        with self._units.reading() as unit:
            if not unit.commitments.standing():
                return None
            key = unit.revisions.now().books, self._prices.book(unit), over
            report: CommitmentReport = self._reports.of(key, lambda: self._report(unit, over, now))
            return report.usage

    def _report(self, unit: Unit, window: Window, now: int) -> CommitmentReport:
        book = self._prices.book(unit)
        known, unpriced = priced(unit.commitments.standing(), book)
        lines = read_lines(unit, known, window, book)
        found = usage_in(window, lines, known, unpriced)
        nodes = unit.nodes.many({node_id for node_id, _ in found.users})
        return CommitmentReport(found, {key: node.name for key, node in nodes.items()}, now)


def read_lines(
    unit: Unit, some: Sequence[PricedCommitment], window: Window, book: PriceBook
) -> tuple[CoverageLine, ...]:
    """The usage that commitments may cover, with what covers it: right from the first second of
    the window on, and known up to its end."""
    if not some:
        return ()
    since = since_of(window.start)
    generations = {one.commitment.generation for one in some}
    usages = unit.usage.on_demand(since, window.end, generations)
    whose = unit.attributions.used_in(since, window.end)
    meters = (Meter(tpu_line(one), book, window.end, whose.get(one.node_id, ())) for one in usages)
    return cover(meters, some, since)


def _shown(one: Commitment, book: PriceBook, now: int) -> CommitmentStatus:
    rate = rate_of(one, book)
    return CommitmentStatus(
        commitment=one,
        rate=rate,
        listed=listed_rate(one, book),
        so_far=None if rate is None else fee(one, rate, one.start, max(one.start, now)),
        whole=None if rate is None else fee(one, rate, one.start, one.end),
        as_of=now,
    )


def _is_same(one: Commitment, other: Commitment) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in _SAME)
