"""What usage costs after commitments: nothing is lost or made, however time is cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.commitments.coverage import price_commitments as with_rates
from service.domain.metering.meter import Evidence
from service.domain.metering.usage import FIRST_MINUTE
from service.domain.money import NANOS
from service.domain.pricing.price_book import PriceBook, Sku
from tests import factories
from tests.commitments import RATE, commitment, covered, priced, used
from tests.domain.drawn import moderate
from tests.hands import NOON

LIST = 1_200_000_000
MIDNIGHT = NOON + DAY // 2


def ran(node="a", start=NOON, end=NOON + HOUR, chips=8, **changes):
    return factories.usage(
        id=f"u-{node}-{start}", node_id=node, chips=chips, start=start, end=end, **changes
    )


def on(model="on_demand", region="us-west4", generation="v5e"):
    return Sku(generation, model, region, single_device=True)


# ---- by hand


def test_a_covered_node_costs_its_part_of_the_fee():
    found = used([ran()], [commitment()], NOON, NOON + HOUR)
    (standing,) = found.standings
    assert standing.fee == standing.total_covered.cost == 8 * RATE
    assert (
        standing.total_covered.chip_seconds == standing.committed == standing.eligible == 8 * HOUR
    )
    assert standing.unused_fee == standing.unused_chip_seconds == 0
    assert standing.saving == 8 * LIST - 8 * RATE
    assert found.total_figures.charged == 8 * LIST
    assert found.total_figures.amortised_cost == 8 * RATE


def test_usage_beyond_the_commitment_is_paid_as_charged():
    found = used([ran(chips=16)], [commitment()], NOON, NOON + HOUR)
    assert found.total_figures.amortised_cost == 8 * RATE + 8 * LIST
    assert found.total_figures.eligible == 16 * HOUR
    assert found.standings[0].total_covered.chip_seconds == 8 * HOUR


def test_a_commitment_that_is_used_too_little_loses_money():
    found = used([ran(end=NOON + HOUR)], [commitment()], NOON, NOON + 2 * HOUR)
    (standing,) = found.standings
    assert standing.unused_fee == 8 * RATE
    assert standing.saving == 8 * LIST - 16 * RATE
    assert standing.saving < 0


def test_what_is_avoided_is_what_was_charged_with_its_discounts():
    book = PriceBook([factories.price(1_000_000_000)])
    found = used([ran()], [commitment()], NOON, NOON + HOUR, book)
    assert found.standings[0].total_covered.avoided == 8_000_000_000


@pytest.mark.parametrize("model", ["spot", "preemptible", "reserved", "flex_start"])
def test_only_on_demand_usage_is_covered(model):
    book = PriceBook([factories.price(), factories.price(900, model=model, id="other")])
    other = ran(sku=on(ProvisioningModel(model)))
    found = used([other], [commitment()], NOON, NOON + HOUR, book)
    assert found.users == {}
    assert found.unused_fee == found.fee == 8 * RATE


def test_usage_that_is_free_or_has_no_known_price_is_not_covered():
    later = PriceBook([factories.price(effective_from=NOON + HOUR // 2)])
    free = ran("b", free=FIRST_MINUTE)
    found = used([ran(), free], [commitment()], NOON, NOON + HOUR, later)
    assert found.total_figures.covered.chip_seconds == 8 * HOUR // 2
    assert set(found.by_node()) == {"a"}


def test_reserved_capacity_that_was_bought_by_the_calendar_is_not_covered():
    bought = ran(sku=on("on_demand"), start_evidence=Evidence.PURCHASE)
    assert covered([bought], [commitment()], NOON, NOON + HOUR) == ()


def test_the_chips_of_a_legacy_node_are_covered_and_its_machine_is_not():
    old = ran(vm="n1-standard-8", vm_model="on_demand")
    found = used([old], [commitment()], NOON, NOON + HOUR)
    assert found.total_figures.charged == 8 * LIST
    assert found.total_figures.amortised_cost == 8 * RATE


def test_a_commitment_without_a_known_rate_covers_nothing_and_is_named():
    book = PriceBook([factories.price()])
    known, unknown = with_rates([commitment(), commitment(id="c-2", contract=None)], book)
    assert [figures.commitment.id for figures in known] == ["c-1"]
    assert [figures.id for figures in unknown] == ["c-2"]


def test_a_withdrawn_commitment_counts_nowhere():
    assert with_rates([commitment(withdrawn_at=NOON)], factories.book()) == ((), ())


def test_usage_before_the_term_is_not_eligible():
    found = used([ran(start=NOON - HOUR)], [commitment()], NOON - HOUR, NOON + HOUR)
    assert found.total_figures.eligible == found.total_figures.covered.chip_seconds == 8 * HOUR
    assert found.total_figures.charged == 16 * LIST
    assert found.total_figures.amortised_cost == 8 * LIST + 8 * RATE


def test_two_terms_at_once_make_usage_eligible_once():
    two = [commitment(), commitment(id="c-2", chips=4)]
    found = used([ran(chips=16)], two, NOON, NOON + HOUR)
    assert found.total_figures.eligible == 16 * HOUR
    assert found.total_figures.covered.chip_seconds == 12 * HOUR


def test_each_team_pays_for_what_its_nodes_were_covered():
    found = used([ran("a"), ran("b", chips=24)], [commitment()], NOON, NOON + HOUR)
    assert {team: one.covered.cost for team, one in found.by_team().items()} == {
        "team-a": 2 * RATE,
        "team-b": 6 * RATE,
    }


# ---- however it is drawn

PLACES = [on(), on(region="us-central1"), on("spot")]
USAGES = st.lists(
    st.builds(
        lambda node, chips, start, lasts, sku, project: ran(
            node, start, start + lasts, chips, sku=sku, project=project
        ),
        st.sampled_from("abcdef"),
        st.sampled_from([1, 4, 7, 8, 16]),
        st.integers(MIDNIGHT - 9 * HOUR, MIDNIGHT + 9 * HOUR),
        st.integers(0, 20 * HOUR),
        st.sampled_from(PLACES),
        st.sampled_from(["lab", "other"]),
    ),
    max_size=6,
    unique_by=lambda one: one.node_id,
)
COMMITMENTS = st.lists(
    st.builds(
        lambda number, chips, start, rate, project: commitment(
            id=f"c-{number}", chips=chips, start=start, contract=rate, project=project
        ),
        st.integers(1, 9),
        st.integers(1, 24),
        st.integers(NOON - 370 * DAY, MIDNIGHT + 20 * HOUR),
        st.integers(1, 3 * NANOS),
        st.sampled_from(["", "", "lab"]),
    ),
    max_size=3,
    unique_by=lambda one: one.id,
)
BOOKS = st.dictionaries(
    st.integers(NOON, MIDNIGHT + DAY), st.integers(1, 3 * NANOS), max_size=3
).map(
    lambda prices: PriceBook(
        [
            factories.price(NANOS, 0, id="first"),
            factories.price(NANOS, 0, id="central", region="us-central1"),
            factories.price(NANOS // 3, 0, id="spot", model="spot"),
            *(factories.price(nanos, at, id=f"later/{at}") for at, nanos in prices.items()),
        ]
    )
)
FIRST, LAST = NOON, MIDNIGHT + 30 * HOUR
CUTS = st.lists(st.integers(FIRST, LAST), max_size=5)


@moderate
@given(usages=USAGES, some=COMMITMENTS, book=BOOKS)
def test_amortised_and_unused_are_the_fee_and_what_is_left_to_pay(usages, some, book):
    found = used(usages, some, FIRST, LAST, book)
    nodes = found.by_node().values()
    left_to_pay = sum(node.charged - node.covered.avoided for node in nodes)
    assert sum(node.amortised_cost for node in nodes) + found.unused_fee == found.fee + left_to_pay
    teams = found.by_team().values()
    assert sum(team.amortised_cost for team in teams) == sum(node.amortised_cost for node in nodes)
    assert (
        sum(standing.saving for standing in found.standings)
        == found.total_figures.covered.avoided - found.fee
    )


@moderate
@given(usages=USAGES, some=COMMITMENTS, book=BOOKS, cuts=CUTS)
def test_adjacent_windows_sum_to_the_whole_wherever_they_are_cut(usages, some, book, cuts):
    """Each window reads the usage of its own days alone, as whoever asks for it does."""
    whole = used(usages, some, FIRST, LAST, book)
    parts = [
        used([usage for usage in usages if (usage.end or 0) > left - DAY], some, left, right, book)
        for left, right in pairwise(sorted([FIRST, *cuts, LAST]))
    ]
    for node, figures in whole.by_node().items():
        of_node = [part.users.get((node, f"team-{node}")) for part in parts]
        assert sum(figures.covered.cost for figures in of_node if figures) == figures.covered.cost
        assert (
            sum(figures.covered.avoided for figures in of_node if figures)
            == figures.covered.avoided
        )
        assert sum(figures.eligible for figures in of_node if figures) == figures.eligible
    for name in ("fee", "unused_fee", "saving"):
        assert sum(getattr(part, name) for part in parts) == getattr(whole, name)


@pytest.mark.parametrize("cut", range(MIDNIGHT - 10, MIDNIGHT + 60, 7))
def test_a_window_that_begins_on_another_day_rounds_as_the_whole_does(cut):
    """Of a share of a node; whoever asks for the second window does not read the first day."""
    first, last = MIDNIGHT - HOUR, MIDNIGHT + HOUR
    usages = [ran("a", first + 13, last - 17, 7), ran("b", first - DAY, last, 4)]
    some = [commitment(chips=7, contract=777_777_777)]
    book = PriceBook([factories.price(999_999_989)])
    whole = used(usages, some, first, last, book)
    parts = [used(usages, some, a, b, book) for a, b in ((first, cut), (cut, last))]
    for node in "ab":
        costs = [part.by_node()[node].covered.cost for part in parts]
        avoided = [part.by_node()[node].covered.avoided for part in parts]
        assert sum(costs) == whole.by_node()[node].covered.cost
        assert sum(avoided) == whole.by_node()[node].covered.avoided


@moderate
@given(usages=USAGES, some=COMMITMENTS, book=BOOKS, start=st.integers(FIRST, LAST - 60))
def test_no_window_covers_more_than_is_committed_or_eligible(usages, some, book, start):
    found = used(usages, some, start, start + 60, book)
    total = found.total_figures
    assert total.covered.chip_seconds <= min(
        total.eligible, sum(standing.committed for standing in found.standings)
    )
    for standing in found.standings:
        assert standing.total_covered.chip_seconds <= min(standing.committed, standing.eligible)
        assert standing.unused_chip_seconds >= 0


@moderate
@given(usages=USAGES, some=COMMITMENTS)
def test_an_unused_fee_is_worth_the_unused_chips_to_a_few_nano_dollars(usages, some):
    """Each node, day and change of coverage rounds once."""
    found = used(usages, some, FIRST, LAST, PriceBook([factories.price()]))
    for standing in found.standings:
        exact = standing.unused_chip_seconds * standing.priced.rate
        assert abs(standing.unused_fee * HOUR - exact) <= 40 * HOUR


@moderate
@given(usages=USAGES, chips=st.integers(100, 200), book=BOOKS)
def test_a_node_that_is_wholly_covered_avoids_exactly_what_it_was_charged(usages, chips, book):
    all_of_it = commitment(chips=chips, start=NOON - DAY)
    found = used(usages, [all_of_it], FIRST, LAST, book)
    for user in found.users.values():
        assert user.covered.avoided == user.charged
        assert user.amortised_cost == user.covered.cost


def test_lines_are_those_of_committed_regions_and_generations_alone():
    usages = [ran("a"), ran("b", sku=on(region="us-central1"))]
    lines = covered(usages, [commitment()], NOON, NOON + HOUR)
    assert [line.meter.usage.node_id for line in lines] == ["a"]
    assert priced(commitment())[0].rate == RATE
