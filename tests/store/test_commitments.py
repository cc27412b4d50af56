"""Commitments in the database, and the usage that they may cover."""

from __future__ import annotations

import pytest

from service.domain.clock import HOUR
from service.domain.commitments.commitment import Term
from service.domain.errors import NotFound
from service.domain.metering.meter import Evidence
from service.domain.pricing.price_book import Sku
from tests.commitments import commitment
from tests.hands import NOON
from tests.store.given import ran, stored


def test_a_commitment_is_read_as_it_was_recorded(units):
    one = commitment(
        project="lab", term=Term.THREE_YEARS, owner="ada", team="infra", labels={"order": "4711"}
    )
    listed = commitment(id="c-2", name="listed", contract=None, start=NOON + HOUR)
    with units() as unit:
        unit.commitments.lock_until_commit()
        unit.commitments.add(one)
        unit.commitments.add(listed)
    with units.reading() as unit:
        assert unit.commitments.get("c-1") == one
        assert unit.commitments.list_all() == unit.commitments.list_standing() == [listed, one]


def test_a_withdrawn_commitment_is_kept_and_stands_no_more(units):
    with units() as unit:
        unit.commitments.add(commitment())
        assert unit.commitments.withdraw("c-1", "bought twice", NOON + 9)
        assert not unit.commitments.withdraw("c-1", "again", NOON + 10)
    with units.reading() as unit:
        assert unit.commitments.list_standing() == []
        assert unit.commitments.list_all() == [
            commitment(withdrawn_at=NOON + 9, reason="bought twice"),
        ]


def test_a_commitment_that_nobody_recorded_is_not_found(units):
    with units.reading() as unit, pytest.raises(NotFound, match="GET /v1/commitments lists them"):
        unit.commitments.get("c-9")


def test_a_recorded_commitment_makes_kept_figures_old(units):
    with units.reading() as unit:
        before = unit.revisions.read_current().books
    with units() as unit:
        unit.commitments.add(commitment())
    with units.reading() as unit:
        assert unit.revisions.read_current().books > before


def test_usage_that_may_be_covered_is_on_demand_of_the_generation_and_in_the_window(units):
    def interval(start, end, **changes):
        return ran(units, stored(units), start=start, end=end, **changes).id

    within = {interval(NOON, NOON + HOUR), interval(NOON - HOUR, None)}
    interval(NOON - HOUR, NOON)
    interval(NOON + HOUR, NOON + 2 * HOUR)
    interval(NOON, NOON + HOUR, sku=Sku("v5e", "spot", "us-west4"))
    interval(NOON, NOON + HOUR, sku=Sku("v6e", "on_demand", "us-west4"))
    interval(NOON, NOON + HOUR, start_evidence=Evidence.PURCHASE)
    with units.reading() as unit:
        found = unit.usage.list_on_demand(NOON, NOON + HOUR, ["v5e"])
    assert {commitment.id for commitment in found} == within
