"""Placements: how an attempt ended, and how far a refusal goes."""

from __future__ import annotations

import pytest

from service.domain import errors
from service.domain.errors import CapacityUnavailable, CloudError, QuotaExceeded
from service.domain.nodes.placement import Outcome, outcome_of, scope_of


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


@pytest.mark.parametrize(
    ("error", "scope"),
    [
        (QuotaExceeded("no", region="us-west4"), "us-west4"),
        (QuotaExceeded("no", zone="us-west4-a"), "us-west4-a"),
        (QuotaExceeded("no"), ""),
        (QuotaExceeded("no", region="europe-west4"), ""),
        (QuotaExceeded("no", zone="us-west4-b"), ""),
        (QuotaExceeded("no", region=7), ""),
        (CapacityUnavailable("no", region="us-west4"), ""),
    ],
)
def test_a_quota_goes_as_far_as_the_cloud_says_if_that_is_around_the_zone(error, scope):
    assert scope_of(error, "us-west4-a") == scope
