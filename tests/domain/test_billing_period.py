"""Months: where they begin and end, and which one a charge goes into."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.billing_period import GRACE, PeriodState, billed_in, period_named, period_of
from service.domain.clock import DAY, parse_rfc3339
from service.domain.errors import Rejected

INSTANTS = st.integers(0, 4_000_000_000)


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
