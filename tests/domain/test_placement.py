"""Placements: zone after zone, round after round, ever more slowly."""

from __future__ import annotations

import pytest

from service.domain import errors
from service.domain.errors import CloudError
from service.domain.placement import ROUND_DELAYS, Outcome, delay_before, outcome_of, zone_for

ZONES = ("us-west4-a", "us-west4-b", "us-east1-c")


@pytest.mark.parametrize(
    ("attempt", "zone", "delay"),
    [
        (1, "us-west4-a", 0),
        (2, "us-west4-b", 0),
        (3, "us-east1-c", 0),
        (4, "us-west4-a", 30),
        (5, "us-west4-b", 0),
        (7, "us-west4-a", 60),
        (10, "us-west4-a", 120),
        (13, "us-west4-a", 300),
        (16, "us-west4-a", 600),
        (19, "us-west4-a", 600),
        (3_001, "us-west4-a", 600),
    ],
)
def test_every_zone_is_tried_at_once_and_then_all_of_them_over_again_later(attempt, zone, delay):
    assert zone_for(ZONES, attempt) == zone
    assert delay_before(ZONES, attempt) == delay


def test_a_single_zone_is_waited_for_between_all_attempts():
    delays = [delay_before(("us-west4-a",), attempt) for attempt in range(1, 8)]
    assert delays == [0, *ROUND_DELAYS, ROUND_DELAYS[-1]]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.CapacityUnavailable, Outcome.STOCK_OUT),
        (errors.QuotaExceeded, Outcome.QUOTA),
        (errors.NotAllowed, Outcome.DENIED),
        (errors.InvalidRequest, Outcome.REFUSED),
        (errors.AlreadyExists, Outcome.NAME_TAKEN),
        (errors.RateLimited, Outcome.FAILED),
        (errors.CloudUnavailable, Outcome.FAILED),
        (errors.CloudNotFound, Outcome.FAILED),
        (CloudError, Outcome.FAILED),
    ],
)
def test_the_error_says_how_a_placement_ended(error, outcome):
    assert outcome_of(error("no")) is outcome
