"""What to commit to, held against every number of chips on small inputs, second by second."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.commitments import recommendation as subject
from service.domain.commitments.recommendation import (
    FEWEST_DAYS,
    MONTH_HOURS,
    ChipSpan,
    CommitmentRates,
    DailyUse,
    Recommendation,
    daily_use,
    hours_a_day,
    recommend_commitment,
)

START = 1_790_000_000 // DAY * DAY
WHOLE = FEWEST_DAYS * DAY
LIST, ONE_YEAR, THREE_YEARS = 2_700_000_000, 1_890_000_000, 1_215_000_000
YEAR = CommitmentRates(1, LIST, ONE_YEAR)


def spans_of(daily: list[list[tuple[int, int]]]) -> list[ChipSpan]:
    """Chips from the beginning of each day on, for so many hours: (hours, chips)."""
    return [
        ChipSpan(START + day * DAY, START + day * DAY + hours * HOUR, chips)
        for day, some in enumerate(daily)
        for hours, chips in some
    ]


def every_day(*some: tuple[int, int], days: int = FEWEST_DAYS) -> DailyUse:
    """The same on each day."""
    return daily_use(spans_of([list(some)] * days), START, days)


def used_by_hour(spans: list[ChipSpan], days: int = FEWEST_DAYS) -> list[int]:
    """The chips in use in each hour; all begin and end on the hour."""
    return [
        sum(span.chips for span in spans if span.start <= hour and hour + HOUR <= span.end)
        for hour in range(START, START + days * DAY, HOUR)
    ]


def cost_of(used: list[int], chips: int, rates: CommitmentRates) -> int:
    """What all of the use costs with so many chips committed, added up hour by hour."""
    assert rates.on_demand is not None
    assert rates.committed is not None
    beyond = sum(max(0, use - chips) for use in used)
    return chips * rates.committed * len(used) + beyond * rates.on_demand


def brute_force(used: list[int], rates: CommitmentRates) -> int:
    """The fewest chips of those that cost the least, of all numbers of them."""
    return min(range(max(used) + 2), key=lambda chips: (cost_of(used, chips, rates), chips))


_DAY = st.lists(st.tuples(st.integers(0, 24), st.integers(1, 4)), max_size=3)
_DAYS = st.lists(_DAY, min_size=FEWEST_DAYS, max_size=FEWEST_DAYS)


@settings(max_examples=25, deadline=None)
@given(_DAYS, st.sampled_from([YEAR, CommitmentRates(3, LIST, THREE_YEARS)]))
def test_the_best_number_is_the_cheapest_of_all(daily, rates):
    spans = spans_of(daily)
    found = recommend_commitment(daily_use(spans, START, FEWEST_DAYS), rates)
    used = used_by_hour(spans)
    best = brute_force(used, rates)
    assert found.best == best
    months = Fraction(MONTH_HOURS * HOUR, WHOLE)
    saved = (cost_of(used, 0, rates) - cost_of(used, best, rates)) * months
    assert abs(found.best_saving - saved) <= 1


@settings(max_examples=40, deadline=None)
@given(_DAYS, st.lists(st.tuples(st.integers(0, WHOLE), st.integers(0, WHOLE)), max_size=4))
def test_more_use_never_recommends_fewer_chips(daily, more):
    spans = spans_of(daily)
    added = [ChipSpan(START + min(use), START + max(use), 3) for use in more]
    fewer, most = (
        recommend_commitment(daily_use(some, START, FEWEST_DAYS), YEAR)
        for some in (spans, spans + added)
    )
    assert fewer.chips <= most.chips
    assert fewer.best <= most.best


@settings(max_examples=40, deadline=None)
@given(_DAYS, st.sampled_from([YEAR, CommitmentRates(3, LIST, THREE_YEARS)]))
def test_what_is_recommended_pays_in_nine_of_ten_draws(daily, rates):
    found = recommend_commitment(daily_use(spans_of(daily), START, FEWEST_DAYS), rates)
    assert found.chips <= min(found.best, found.low)
    assert found.low <= found.high
    assert found.saving_low <= found.saving_high
    assert (found.saving_low > 0) == (found.chips > 0)
    assert (found.reason == "") == (found.chips > 0)


@pytest.mark.parametrize("chips", [1, 8, 256])
@pytest.mark.parametrize("days", [28, 30, 90])
def test_constant_use_of_some_chips_recommends_these_chips(chips, days):
    found = recommend_commitment(every_day((24, chips), days=days), YEAR)
    assert (found.chips, found.best, found.low, found.high) == (chips, chips, chips, chips)
    assert found.utilisation == 1_000_000
    assert found.saving == found.saving_low == chips * (LIST - ONE_YEAR) * MONTH_HOURS
    assert found.cost_if_unused == chips * ONE_YEAR * 8_760


def test_use_below_break_even_recommends_nothing_for_a_year():
    course = every_day((16, 8))
    found = recommend_commitment(course, YEAR)
    assert (found.chips, found.best, found.saving) == (0, 0, 0)
    assert found.reason == "no chip was in use for long enough to save money"
    assert recommend_commitment(course, CommitmentRates(3, LIST, THREE_YEARS)).chips == 8


def test_the_break_even_itself_does_not_pay_and_a_second_more_does():
    edge = CommitmentRates(1, 24, 12)
    assert recommend_commitment(every_day((12, 5)), edge).chips == 0
    longer = [ChipSpan(span.start, span.end + 1, span.chips) for span in spans_of([[(12, 5)]] * 28)]
    assert recommend_commitment(daily_use(longer, START, FEWEST_DAYS), edge).chips == 5


def test_committed_chips_take_their_use_first():
    spans = spans_of([[(24, 8), (20, 4)]] * FEWEST_DAYS)
    assert recommend_commitment(daily_use(spans, START, FEWEST_DAYS), YEAR).chips == 12
    assert recommend_commitment(daily_use(spans, START, FEWEST_DAYS, committed=5), YEAR).chips == 7
    assert recommend_commitment(daily_use(spans, START, FEWEST_DAYS, committed=12), YEAR).chips == 0


def test_use_that_has_lately_begun_is_not_taken_for_sure():
    """Three weeks in four would have paid; of four weeks drawn, fewer often are."""
    spans = spans_of([[]] * 7 + [[(24, 8)]] * 21)
    found = recommend_commitment(daily_use(spans, START, FEWEST_DAYS), YEAR)
    assert (found.chips, found.best, found.low) == (0, 8, 0)
    assert found.best_saving > 0
    assert found.reason.startswith(
        "8 chips would have saved money in these days, but not in nine of ten"
    )


def test_the_same_data_has_the_same_answer_and_another_place_other_draws():
    daily = [[(24, 8)] if day % 5 else [(3, 8)] for day in range(40)]
    course = daily_use(spans_of(daily), START, 40)
    assert recommend_commitment(course, YEAR, "v6e us-east5") == recommend_commitment(
        course, YEAR, "v6e us-east5"
    )
    draws = {tuple(map(tuple, subject._Weeks(course).draw_weeks(asked))) for asked in ("a", "b")}
    assert len(draws) == 2


def test_too_few_days_give_no_recommendation():
    found = recommend_commitment(every_day((24, 8), days=27), YEAR)
    assert found == Recommendation(
        YEAR, 27, reason="27 full days of use are known; a recommendation needs 28"
    )


def test_one_day_is_told_as_one():
    reason = recommend_commitment(every_day((24, 8), days=1), YEAR).reason
    assert reason == "1 full day of use is known; a recommendation needs 28"


@pytest.mark.parametrize(
    ("rates", "reason"),
    [
        (CommitmentRates(1, None, 5), "the price book has no on-demand price"),
        (CommitmentRates(3, 5, None), "the price book has no price cud_3y"),
        (CommitmentRates(1, 5, 5), "committed chips cost no less than what you pay on demand"),
    ],
)
def test_without_two_prices_that_differ_there_is_a_reason(rates, reason):
    found = recommend_commitment(every_day((24, 8)), rates)
    assert found.chips == 0
    assert found.reason.startswith(reason)


def test_seconds_at_each_number_of_chips_add_up_to_the_day():
    course = daily_use(
        [ChipSpan(START + 10, START + DAY + 7, 3), ChipSpan(0, START + 20, 2)], START, 2
    )
    assert course.days == (((2, 10), (3, DAY - 20), (5, 10)), ((0, DAY - 7), (3, 7)))
    assert course.extremes == [(2, 5), (0, 3)]


@pytest.mark.parametrize(
    ("ppm", "told"), [(700_000, "16 h 48 min"), (450_000, "10 h 48 min"), (500_000, "12 h")]
)
def test_break_even_is_told_in_hours_of_a_day(ppm, told):
    assert hours_a_day(ppm) == told


def off_by_one_chip(patch):
    chips = subject._Weeks.chips_of
    patch.setattr(
        subject._Weeks, "chips_of", lambda self, number: chips(self, number) + bool(number)
    )


def average_instead_of_share(patch):
    counted = daily_use

    def averaged(spans, start, days):
        whole = counted(spans, start, days)
        flat = tuple(
            ((sum(level * seconds for level, seconds in day) // DAY, DAY),) for day in whole.days
        )
        return DailyUse(start, flat)

    patch.setattr(f"{__name__}.daily_use", averaged)


def wrong_price_model(patch):
    paying = subject._count_paying
    patch.setattr(
        subject,
        "_count_paying",
        lambda weeks, seconds, _, committed: paying(weeks, seconds, ONE_YEAR, committed // 2),
    )


@pytest.mark.parametrize("broken", [off_by_one_chip, average_instead_of_share, wrong_price_model])
def test_a_rule_of_recommendations_that_is_broken_is_found(monkeypatch, broken):
    spans = spans_of([[(24, 8), (14, 16)]] * FEWEST_DAYS)
    assert daily_use(spans, START, FEWEST_DAYS) == every_day((24, 8), (14, 16))
    right = brute_force(used_by_hour(spans), YEAR)
    assert recommend_commitment(daily_use(spans, START, FEWEST_DAYS), YEAR).best == right
    broken(monkeypatch)
    assert recommend_commitment(daily_use(spans, START, FEWEST_DAYS), YEAR).best != right
