"""Months: where they begin and end, and which one a charge goes into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.billing_period import (
    GRACE,
    PeriodState,
    billed_in,
    check_not_past,
    check_open,
    open_since,
    period_named,
    period_of,
)
from service.domain.clock import DAY, HOUR, parse_rfc3339
from service.domain.errors import Rejected
from tests.hands import NOON

INSTANTS = st.integers(0, 4_000_000_000)
OCTOBER, NOVEMBER = (parse_rfc3339(f"2026-{month}-01T00:00:00Z") for month in (10, 11))


@given(INSTANTS)
def test_every_instant_lies_in_the_one_month_that_has_its_name(instant):
    period = period_of(instant)
    assert period.start <= instant < period.end
    assert period_named(period.name) == period
    assert 28 * DAY <= period.end - period.start <= 31 * DAY
    assert period_of(period.end).start == period.end, "the next one begins where it ends"


@pytest.mark.parametrize(
    ("instant", "name"),
    [
        ("2026-10-31T23:59:59Z", "2026-10"),
        ("2026-11-01T00:00:00Z", "2026-11"),
        ("2026-12-31T23:59:59Z", "2026-12"),
        ("2028-02-29T12:00:00Z", "2028-02"),
    ],
)
def test_months_are_those_of_the_calendar_in_utc(instant, name):
    assert period_of(parse_rfc3339(instant)).name == name


@given(INSTANTS, st.integers(0, 400 * DAY))
def test_a_charge_goes_into_its_own_month_until_that_is_closed(charged, later):
    now, own = charged + later, period_of(charged)
    billed = billed_in(charged, now)
    if own.state_at(now) is PeriodState.CLOSED:
        assert billed == period_of(now).start >= own.end
    else:
        assert billed is None
        assert now < own.end + GRACE


@given(INSTANTS, INSTANTS)
def test_a_month_never_opens_again(instant, other):
    order = list(PeriodState)
    period, (early, late) = period_of(instant), sorted((instant, other))
    assert order.index(period.state_at(early)) <= order.index(period.state_at(late))


@pytest.mark.parametrize(
    "name", ["", "2026", "2026-00", "2026-11-01", "1969-12", "\uff12\uff10\uff12\uff16-11"]
)
def test_what_is_no_month_is_refused(name):
    with pytest.raises(Rejected):
        period_named(name)


@pytest.mark.parametrize(
    ("now", "since"),
    [
        (NOON, NOVEMBER),
        (NOVEMBER, OCTOBER),
        (NOVEMBER + 72 * HOUR - 1, OCTOBER),
        (NOVEMBER + 72 * HOUR, NOVEMBER),
    ],
)
def test_a_month_takes_changes_until_it_is_closed(now, since):
    assert open_since(now) == since


def test_what_is_dated_into_a_closed_month_is_refused_with_the_one_that_is_open():
    with pytest.raises(Rejected, match=r"2026-10 is closed.* is 2026-11"):
        check_open(NOVEMBER - 1, NOON, "effective_from")
    check_open(NOVEMBER, NOON, "effective_from")
    check_open(NOVEMBER - 1, NOVEMBER + HOUR, "effective_from")


def test_what_is_dated_into_the_past_is_refused():
    with pytest.raises(Rejected, match="a discount cannot change the past"):
        check_not_past(NOON - 1, NOON, "a discount", "effective_from")
    with pytest.raises(Rejected, match="closed"):
        check_not_past(OCTOBER, NOON, "a discount", "effective_from")
    check_not_past(NOON, NOON, "a discount", "effective_from")
