"""Reads are tried again while there is time; what changes something never is."""

from __future__ import annotations

import time

import pytest
from google.api_core import exceptions

from service.cloud.google.retries import ONCE, PATIENT
from service.domain.lifecycle.in_flight import IN_FLIGHT_SECONDS, SEND_WITHIN_SECONDS


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The naps that were taken, without taking them."""
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    return naps


def failing(times: int, error: Exception):
    """A call that fails some times and then answers."""
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "answer"

    return call


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ServiceUnavailable("x"),
        exceptions.DeadlineExceeded("x"),
        exceptions.GatewayTimeout("x"),
    ],
)
def test_a_read_is_tried_again_after_short_and_growing_pauses(error, slept):
    retry = PATIENT.read.retry
    assert retry is not None
    assert retry(failing(4, error))() == "answer"
    assert len(slept) == 4
    assert all(nap <= limit for nap, limit in zip(slept, (0.25, 0.5, 1.0, 2.0), strict=True))


@pytest.mark.parametrize(
    "error",
    [
        exceptions.InternalServerError("x"),
        exceptions.ResourceExhausted("x"),
        exceptions.NotFound("x"),
        exceptions.PermissionDenied("x"),
    ],
)
def test_an_answer_is_not_asked_for_twice(error, slept):
    retry = PATIENT.read.retry
    assert retry is not None
    with pytest.raises(type(error)):
        retry(failing(1, error))()
    assert slept == []


@pytest.mark.parametrize("allowance", [PATIENT.read, PATIENT.listing])
def test_the_last_attempt_begins_with_a_second_left(allowance):
    assert allowance.retry.timeout == allowance.timeout - 1


def test_changes_offers_and_virtual_time_know_no_second_attempt():
    once = (
        *(PATIENT.offers, PATIENT.write, PATIENT.create),
        *(ONCE.read, ONCE.listing, ONCE.offers, ONCE.write, ONCE.create),
    )
    assert all(allowance.retry is None and allowance.timeout > 0 for allowance in once)


def test_a_create_is_over_before_its_absence_is_believed() -> None:
    """The oldest intent that is sent, and the longest call for it, end before the horizon."""
    for allowances in (ONCE, PATIENT):
        assert SEND_WITHIN_SECONDS + allowances.create.timeout < IN_FLIGHT_SECONDS
