"""Placements: how an attempt ended."""

from __future__ import annotations

import pytest

from service.domain import errors
from service.domain.errors import CloudError
from service.domain.nodes.placement import Outcome, outcome_of


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
