"""Commitments with sensible fields, and usage that they cover."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.domain.commitments.commitment import Commitment, Term
from service.domain.commitments.coverage import (
    CoverageLine,
    PricedCommitment,
    cover_usage,
    required_since,
    tpu_line,
)
from service.domain.commitments.standing import CommitmentUsage, usage_in
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Meter, Usage
from service.domain.pricing.price_book import PriceBook
from service.domain.time_window import Window
from tests import factories
from tests.hands import NOON

RATE = 840_000_000
"""Nano-dollars per chip-hour: 0.84 dollars."""


def commitment(**changes: Any) -> Commitment:
    """Eight v5e chips in us-west4 for a year from noon on, at 0.84 dollars a chip-hour."""
    base = Commitment(
        id="c-1",
        name="base",
        project="",
        region="us-west4",
        generation="v5e",
        chips=8,
        term=Term.ONE_YEAR,
        start=NOON,
        contract=RATE,
    )
    return replace(base, **changes)


def priced(*some: Commitment) -> tuple[PricedCommitment, ...]:
    """Commitments at the rates of their contracts."""
    return tuple(PricedCommitment(commitment, commitment.contract or RATE) for commitment in some)


def covered(
    usages: Iterable[Usage],
    some: Iterable[Commitment],
    start: int,
    end: int,
    book: PriceBook | None = None,
) -> tuple[CoverageLine, ...]:
    """The lines of usage that is known up to `end`, for figures from `start` on."""
    known = factories.book() if book is None else book
    meters = [
        Meter(
            tpu_line(usage), known, end, (Attribution(usage.node_id, team=f"team-{usage.node_id}"),)
        )
        for usage in usages
    ]
    return cover_usage(meters, priced(*some), required_since(start))


def used(
    usages: Iterable[Usage],
    some: Iterable[Commitment],
    start: int,
    end: int,
    book: PriceBook | None = None,
) -> CommitmentUsage:
    """What commitments cover in a window of usage."""
    kept = tuple(some)
    lines = covered(usages, kept, start, end, book)
    return usage_in(Window(start, end), lines, priced(*kept))
