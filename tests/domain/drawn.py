"""Usage, prices and attributions as hypothesis draws them."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Attribution
from service.domain.pricing.price_book import PriceBook
from tests import factories
from tests.hands import NOON

moderate = settings(max_examples=60, deadline=None)

STARTS = st.integers(NOON, NOON + 3 * DAY)
SPANS = st.integers(0, 5 * DAY)
CHIPS = st.sampled_from([1, 4, 8, 16, 256, 8_960])
NANOS = st.integers(1, 12_000_000_000)
CHANGES = st.dictionaries(st.integers(NOON - DAY, NOON + 8 * DAY), NANOS, max_size=5)


def book_of(own, groups):
    """Prices by the instant from which they hold, of the region itself and of its group."""
    rows = [factories.price(nanos, at, id=f"own/{at}") for at, nanos in own.items()]
    rows += [
        factories.price(nanos, at, id=f"group/{at}", region="us") for at, nanos in groups.items()
    ]
    return PriceBook(rows)


BOOKS = st.builds(book_of, CHANGES, CHANGES)


@st.composite
def ran(draw):
    start = draw(STARTS)
    return factories.usage(chips=draw(CHIPS), start=start, end=start + draw(SPANS))


def exact(usage, book, start, end):
    """The cost as it would be written on paper: chips x hours x price, with no rounding at all."""
    start, end = max(start, usage.start), min(end, usage.end)
    edges = {start, end, *(p.effective_from for p in book.prices)}
    total = Fraction(0)
    for left, right in pairwise(sorted(edge for edge in edges if start <= edge <= end)):
        rows = [p for p in book.prices if p.effective_from <= left]
        best = max(rows, key=lambda p: (p.region != "us", p.effective_from), default=None)
        if best is not None:
            total += Fraction(usage.chips * (right - left) * best.nanos, HOUR)
    return total


def _whose(changes):
    teams = sorted(changes.items())
    later = [Attribution("node-1", since, team=team) for since, team in teams]
    return (Attribution("node-1", team="first"), *later)


ATTRIBUTIONS = st.builds(
    _whose,
    st.dictionaries(
        st.integers(NOON - HOUR, NOON + 8 * DAY), st.sampled_from(["vision", "nlp", ""]), max_size=4
    ),
)
"""Whose a node is: from the beginning one team's, then up to four others'."""
