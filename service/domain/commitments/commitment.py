"""A commitment: chips of a generation in a region, paid for one or three years, used or not.

Google sells it as a committed-use discount, which covers on-demand usage (reference/pricing.md
sections 2 and 4). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from service.domain.catalog import catalog
from service.domain.catalog.regions import check_region
from service.domain.clock import END_OF_TIME, HOUR, to_rfc3339
from service.domain.errors import Conflict, Rejected
from service.domain.ids import check_labels
from service.domain.money import MAX_NANOS, format_dollars, half_even
from service.domain.pricing.price_book import MAX_NANOS_PER_UNIT, Price, PriceBook, Sku

MAX_CHIPS = 100_000
"""Upper limit of chips, many times the largest slice of any generation."""

MAX_WHOLE = MAX_NANOS // 10
"""Upper limit in nano-dollars, about 922 million dollars: the fees of ten can be summed."""

NAME = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
"""The regular expression of commitment names at Google."""


class Term(StrEnum):
    """How long a commitment lasts."""

    ONE_YEAR = "1y"
    THREE_YEARS = "3y"

    @property
    def years(self) -> int:
        """The length in calendar years."""
        return 1 if self is Term.ONE_YEAR else 3

    @property
    def model(self) -> str:
        """The price model of the listed rate."""
        return f"cud_{self.value}"


class CommitmentState(StrEnum):
    """Where a commitment stands in its term."""

    PLANNED = "planned"
    RUNNING = "running"
    OVER = "over"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Commitment:
    """A commitment as its buyer recorded it: the TPU API does not list commitments.

    `chips` of a `generation` in a `region` are paid for in the whole UTC seconds [start, end),
    used or not. `project` pays and is served; empty for the whole billing account. `contract` is
    the rate of a contract in nano-dollars per chip-hour; None if the list price applies. A wrong
    record is withdrawn with a `reason`, and never erased.
    """

    id: str
    name: str
    project: str
    region: str
    generation: str
    chips: int
    term: Term
    start: int
    contract: int | None = None
    owner: str = ""
    team: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    recorded_at: int = 0
    recorded_by: str = ""
    withdrawn_at: int | None = None
    reason: str = ""

    @property
    def end(self) -> int:
        """The first second after its term."""
        return end_of(self.start, self.term)

    def state_at(self, now: int) -> CommitmentState:
        """The state at `now`; a withdrawn record is WITHDRAWN at every instant."""
        if self.withdrawn_at is not None:
            return CommitmentState.WITHDRAWN
        if now < self.start:
            return CommitmentState.PLANNED
        return CommitmentState.RUNNING if now < self.end else CommitmentState.OVER

    def may_cover(self, project: str) -> bool:
        """Whether it may cover usage of a project."""
        return self.project in ("", project)


def end_of(start: int, term: Term) -> int:
    """The end of a commitment's term: the same UTC date and time, one or three calendar years
    later. For 29 February it is 1 March."""
    first = datetime.fromtimestamp(start, UTC)
    year = first.year + term.years
    try:
        last = first.replace(year=year)
    except ValueError:
        last = first.replace(year=year, month=3, day=1)
    return int(last.timestamp())


def listed_rate(commitment: Commitment, book: PriceBook) -> Price | None:
    """The list price of a commitment at the start of its term, which is fixed; None if unknown.

    Negotiated discounts are not subtracted: enter the contract's rate instead.
    """
    sku = Sku(commitment.generation, commitment.term.model, commitment.region)
    return book.find_listed(sku, commitment.start)


def rate_of(commitment: Commitment, book: PriceBook) -> int | None:
    """The rate of a commitment in nano-dollars per chip-hour: the contract's, or else the list
    price.

    None if neither is known: the commitment is unpriced then, and not free.
    """
    if commitment.contract is not None:
        return commitment.contract
    listed = listed_rate(commitment, book)
    return None if listed is None else listed.per_chip_hour


def fee_in(commitment: Commitment, rate: int, start: int, end: int) -> int:
    """The fee of a commitment in nano-dollars for [start, end), whether it is used or not.

    The amount is R(F(end)) - R(F(start)), so that adjacent windows sum to the whole.
    """
    return _paid_until(commitment, rate, end) - _paid_until(commitment, rate, start)


def _paid_until(commitment: Commitment, rate: int, instant: int) -> int:
    seconds = min(max(instant, commitment.start), commitment.end) - commitment.start
    return half_even(commitment.chips * seconds * rate, HOUR)


def check_commitment(wanted: Commitment, others: Iterable[Commitment], book: PriceBook) -> None:
    """Raise Rejected, with the field, for a commitment that cannot have been bought.

    Raises Conflict if the name is taken in the same project and region at that time. `others` are
    the records that are not withdrawn.
    """
    if not re.fullmatch(NAME, wanted.name):
        raise Rejected(f"{wanted.name[:80]!r} is not the name of a commitment", field="name")
    check_labels(wanted.labels)
    catalog.load_catalog().get_generation(wanted.generation)
    check_region(wanted.region, (offer.region for offer in catalog.load_catalog().offers))
    if not 0 < wanted.chips <= MAX_CHIPS:
        raise Rejected(f"a commitment has 1 to {MAX_CHIPS:,} chips", field="chips")
    if wanted.end > END_OF_TIME:
        raise Rejected("a commitment ends before the year 2100", field="starts_at")
    if wanted.contract is not None and not 0 < wanted.contract <= MAX_NANOS_PER_UNIT:
        raise Rejected(
            f"a rate must be more than zero and at most {format_dollars(MAX_NANOS_PER_UNIT)} a"
            " chip-hour; leave it out if it is unknown",
            field="usd_per_chip_hour",
        )
    rate = rate_of(wanted, book)
    whole = 0 if rate is None else fee_in(wanted, rate, wanted.start, wanted.end)
    if whole > MAX_WHOLE:
        raise Rejected(
            f"{wanted.chips:,} chips cost {format_dollars(whole)} over the term, more than"
            f" {format_dollars(MAX_WHOLE)}; check the chips and the rate",
            field="chips",
        )
    for other in others:
        same = (other.project, other.region, other.name)
        is_same = same == (wanted.project, wanted.region, wanted.name)
        if is_same and other.start < wanted.end and wanted.start < other.end:
            raise Conflict(
                f"{other.name!r} is recorded for {wanted.region} from {to_rfc3339(other.start)} to"
                f" {to_rfc3339(other.end)} already; if that record is wrong, withdraw it first",
                commitment_id=other.id,
            )
