"""Committed-use discounts as callers record and read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from service.application.answers import Answers
from service.application.projects import choose_projects
from service.domain.clock import MINUTE, Clock, floor_to
from service.domain.commitments.commitment import (
    Commitment,
    check_commitment,
    fee_in,
    listed_rate,
    rate_of,
)
from service.domain.commitments.coverage import (
    CoverageLine,
    PricedCommitment,
    cover_usage,
    price_commitments,
    required_since,
    tpu_line,
)
from service.domain.commitments.standing import CommitmentUsage, usage_in
from service.domain.errors import Rejected
from service.domain.ids import new_id
from service.domain.metering.meter import Meter
from service.domain.pricing.price_book import Price, PriceBook
from service.domain.time_window import Window, parse_window, zone_of
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units

_SAME = (
    *("name", "project", "region", "generation", "chips", "term", "start", "contract"),
    *("owner", "team", "labels"),
)
_fields_of = attrgetter(*_SAME)
_MOST_REPORTS = 32


@dataclass(frozen=True, slots=True)
class CommitmentStatus:
    """A commitment and its fee in nano-dollars, used or not: `so_far` up to `as_of`, `whole` for
    the term. `rate` is nano-dollars per chip-hour; all three are None if no rate is known. `listed`
    is the list price of its first second, None if that is unknown."""

    commitment: Commitment
    rate: int | None
    listed: Price | None
    so_far: int | None
    whole: int | None
    as_of: int


@dataclass(frozen=True, slots=True)
class RecordedCommitment:
    """A recorded commitment; `created` is False if the same one was recorded before."""

    shown: CommitmentStatus
    created: bool


@dataclass(frozen=True, slots=True)
class CommitmentReport:
    """What commitments cover in a window; `names` are those of the nodes, by id."""

    usage: CommitmentUsage
    names: Mapping[str, str]
    as_of: int


class CommitmentService:
    """Records commitments, and computes what they cover from the usage."""

    def __init__(
        self, units: Units, prices: PriceBookCache, clock: Clock, projects: Sequence[str]
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._projects = projects
        self._reports = Answers(_MOST_REPORTS)

    def record(self, wanted: Commitment) -> RecordedCommitment:
        """Record a commitment; its id and time are set here. Recording the same one again
        returns the existing one. Raises Rejected for an invalid commitment, Conflict if the name
        is taken."""
        choose_projects(wanted.project, self._projects)
        commitment = replace(
            wanted,
            id=new_id(),
            recorded_at=self._clock(),
            recorded_by=wanted.recorded_by or "caller",
        )
        with self._units() as unit:
            unit.commitments.lock_until_commit()
            standing = unit.commitments.list_standing()
            known = next(
                (other for other in standing if _fields_of(other) == _fields_of(commitment)), None
            )
            if known is None:
                check_commitment(commitment, standing, self._prices.get_book(unit))
                unit.commitments.add(commitment)
        return RecordedCommitment(self.get((known or commitment).id), known is None)

    def withdraw(self, commitment_id: str, reason: str) -> CommitmentStatus:
        """Withdraw a wrong record, so that no figure counts it. Withdrawing it again changes
        nothing. Raises NotFound, and Rejected without a reason."""
        if not reason.strip():
            raise Rejected("give a reason: why is the record wrong?", field="reason")
        with self._units() as unit:
            commitment = unit.commitments.get(commitment_id)
            unit.commitments.withdraw(commitment.id, reason.strip(), self._clock())
        return self.get(commitment_id)

    def get(self, commitment_id: str) -> CommitmentStatus:
        """One commitment; raises NotFound."""
        with self._units.reading() as unit:
            commitment = unit.commitments.get(commitment_id)
            return _to_status(commitment, self._prices.get_book(unit), self._clock())

    def list_all(self) -> Sequence[CommitmentStatus]:
        """Every commitment ever recorded, the latest to begin first."""
        now = self._clock()
        with self._units.reading() as unit:
            book = self._prices.get_book(unit)
            return [_to_status(commitment, book, now) for commitment in unit.commitments.list_all()]

    def report_usage(self, window: str = "mtd", tz: str = "UTC") -> CommitmentReport:
        """What commitments cover in a window, up to now. Raises Rejected for an invalid window.
        Equal questions within one second get one answer, until the books change."""
        now = self._clock()
        asked = parse_window(window, zone_of(tz), now)
        over = Window(asked.start, max(asked.start, min(asked.end, now)))
        with self._units.reading() as unit:
            key = unit.revisions.read_current().books, self._prices.get_book(unit), over
            report = self._reports.get_or_make(key, lambda: self._build_report(unit, over, now))
            return replace(report, as_of=now)

    def find_usage(self, window: Window) -> CommitmentUsage | None:
        """What commitments cover in a window; None if no commitment stands. The current minute
        is left out, so that the figures of a page are computed once a minute."""
        now = self._clock()
        end = min(floor_to(now, MINUTE), window.end)
        over = Window(window.start, max(window.start, end))
        with self._units.reading() as unit:
            if not unit.commitments.list_standing():
                return None
            key = unit.revisions.read_current().books, self._prices.get_book(unit), over
            report: CommitmentReport = self._reports.get_or_make(
                key, lambda: self._build_report(unit, over, now)
            )
            return report.usage

    def _build_report(self, unit: Unit, window: Window, now: int) -> CommitmentReport:
        book = self._prices.get_book(unit)
        known, unpriced = price_commitments(unit.commitments.list_standing(), book)
        lines = read_lines(unit, known, window, book)
        found = usage_in(window, lines, known, unpriced)
        nodes = unit.nodes.find_many({node_id for node_id, _ in found.users})
        return CommitmentReport(found, {key: node.name for key, node in nodes.items()}, now)


def read_lines(
    unit: Unit, some: Sequence[PricedCommitment], window: Window, book: PriceBook
) -> tuple[CoverageLine, ...]:
    """The usage that commitments may cover, with what covers it. The lines are right from the first
    second of the window, and known up to its end."""
    if not some:
        return ()
    since = required_since(window.start)
    generations = {commitment.commitment.generation for commitment in some}
    usages = unit.usage.list_on_demand(since, window.end, generations)
    whose = unit.attributions.list_used_in(since, window.end)
    meters = (
        Meter(tpu_line(usage), book, window.end, whose.get(usage.node_id, ())) for usage in usages
    )
    return cover_usage(meters, some, since)


def _to_status(commitment: Commitment, book: PriceBook, now: int) -> CommitmentStatus:
    rate = rate_of(commitment, book)
    return CommitmentStatus(
        commitment=commitment,
        rate=rate,
        listed=listed_rate(commitment, book),
        so_far=None
        if rate is None
        else fee_in(commitment, rate, commitment.start, max(commitment.start, now)),
        whole=None if rate is None else fee_in(commitment, rate, commitment.start, commitment.end),
        as_of=now,
    )
