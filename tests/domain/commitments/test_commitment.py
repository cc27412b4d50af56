"""What can be recorded as a commitment, how long it lasts, and at what rate."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, END_OF_TIME, HOUR, parse_rfc3339, to_rfc3339
from service.domain.commitments.commitment import (
    MAX_CHIPS,
    CommitmentState,
    Term,
    check_commitment,
    end_of,
    fee_in,
    listed_rate,
    rate_of,
)
from service.domain.errors import Conflict, Rejected
from service.domain.money import NANOS
from service.domain.pricing.price_book import PriceBook
from service.domain.pricing.shipped_prices import embedded_prices
from tests.commitments import RATE, commitment
from tests.domain.drawn import moderate
from tests.hands import NOON

BOOK = PriceBook(embedded_prices())


@pytest.mark.parametrize(
    ("start", "term", "end"),
    [
        ("2026-11-05T12:00:00Z", Term.ONE_YEAR, "2027-11-05T12:00:00Z"),
        ("2026-11-05T12:00:00Z", Term.THREE_YEARS, "2029-11-05T12:00:00Z"),
        ("2027-03-01T00:00:00Z", Term.ONE_YEAR, "2028-03-01T00:00:00Z"),
        ("2028-02-29T00:00:00Z", Term.ONE_YEAR, "2029-03-01T00:00:00Z"),
        ("2028-02-29T00:00:00Z", Term.THREE_YEARS, "2031-03-01T00:00:00Z"),
        ("2028-02-28T23:59:59Z", Term.ONE_YEAR, "2029-02-28T23:59:59Z"),
    ],
)
def test_a_term_is_one_or_three_calendar_years(start, term, end):
    assert to_rfc3339(end_of(parse_rfc3339(start), term)) == end


def test_a_commitment_can_be_recorded_for_the_past_and_without_a_project():
    check_commitment(commitment(), [], BOOK)
    check_commitment(commitment(start=NOON - 300 * DAY, contract=None), [], BOOK)
    check_commitment(commitment(project="lab", term=Term.THREE_YEARS), [], BOOK)


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Base"}, "name"),
        ({"name": "../../etc"}, "name"),
        ({"region": "moon-east1"}, "region"),
        ({"region": "us-west4-a"}, "region"),
        ({"generation": "v9"}, "generation"),
        ({"chips": 0}, "chips"),
        ({"chips": MAX_CHIPS + 1}, "chips"),
        ({"chips": MAX_CHIPS, "contract": 100_000 * NANOS}, "chips"),
        ({"contract": 0}, "usd_per_chip_hour"),
        ({"contract": -1}, "usd_per_chip_hour"),
        ({"contract": 100_000 * NANOS + 1}, "usd_per_chip_hour"),
        ({"start": END_OF_TIME - DAY}, "starts_at"),
        ({"labels": {"steward-id": "x"}}, "labels"),
    ],
)
def test_what_cannot_have_been_bought_is_refused_with_its_field(wrong, field):
    with pytest.raises(Rejected) as refused:
        check_commitment(commitment(**wrong), [], BOOK)
    assert refused.value.facts["field"] == field


def test_a_name_is_taken_in_a_project_and_region_for_the_term():
    base = commitment(id="c-0")
    with pytest.raises(Conflict) as refused:
        check_commitment(commitment(start=NOON + DAY), [base], BOOK)
    assert refused.value.facts["commitment_id"] == "c-0"
    check_commitment(commitment(start=base.end), [base], BOOK)
    check_commitment(commitment(name="more"), [base], BOOK)
    check_commitment(commitment(project="lab"), [base], BOOK)
    check_commitment(commitment(region="us-central1"), [base], BOOK)


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (NOON - 1, CommitmentState.PLANNED),
        (NOON, CommitmentState.RUNNING),
        (NOON + 365 * DAY - 1, CommitmentState.RUNNING),
        (NOON + 365 * DAY, CommitmentState.OVER),
    ],
)
def test_its_state_follows_from_its_term(now, state):
    assert commitment().state_at(now) is state
    assert commitment(withdrawn_at=NOON).state_at(now) is CommitmentState.WITHDRAWN


def test_the_rate_is_the_contracts_or_the_list_price_of_its_first_second():
    plain = commitment(contract=None)
    assert rate_of(plain, BOOK) == 840_000_000
    assert rate_of(replace(plain, term=Term.THREE_YEARS), BOOK) == 540_000_000
    assert rate_of(replace(plain, contract=777), BOOK) == 777
    listed = listed_rate(plain, BOOK)
    assert listed is not None
    assert listed.id == "v5e/cud_1y/chip_hour/us-west4/2026-08-06"


@pytest.mark.parametrize("changes", [{"start": NOON - 365 * DAY}, {"region": "us-east1"}])
def test_without_a_list_price_at_its_first_second_the_rate_is_not_known(changes):
    assert rate_of(commitment(contract=None, **changes), BOOK) is None


def test_the_fee_is_paid_from_the_first_second_to_the_last_used_or_not():
    one = commitment()
    assert fee_in(one, RATE, NOON, NOON + HOUR) == 8 * RATE
    assert fee_in(one, RATE, NOON - DAY, NOON) == 0
    assert fee_in(one, RATE, NOON - DAY, one.end + DAY) == 8 * 365 * 24 * RATE
    assert fee_in(one, RATE, one.end, one.end + DAY) == 0


@moderate
@given(
    cut=st.integers(NOON - DAY, NOON + 400 * DAY),
    rate=st.integers(1, 10**10),
    chips=st.integers(1, 999),
)
def test_fees_of_adjacent_windows_sum_to_the_whole_term(cut, rate, chips):
    one = commitment(chips=chips)
    whole = fee_in(one, rate, NOON - DAY, NOON + 400 * DAY)
    assert fee_in(one, rate, NOON - DAY, cut) + fee_in(one, rate, cut, NOON + 400 * DAY) == whole
