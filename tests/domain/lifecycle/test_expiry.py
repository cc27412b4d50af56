"""What is done about a node whose time is over, or whose job has ended: the whole table."""

from __future__ import annotations

import pytest

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.lifecycle.expiry import (
    NOTICE,
    ExpiryStep,
    expiry_of,
    next_deadline,
    out_of_time,
    with_end_held,
    with_ended_job,
    with_notice,
)
from service.domain.nodes.keep import (
    LABEL,
    TTL_HELD,
    TTL_TOLD,
    goes_at,
    waits_for_job_end,
)
from service.domain.nodes.node import Asked
from tests import factories
from tests.hands import NOON

OVER = "its time to live has expired"
JOB = "job 7 is SUCCEEDED"
LIVES = {"ttl_seconds": HOUR, "ready_at": NOON - HOUR}
"""A node whose time to live is over at noon."""
KEPT = {"kept_until": NOON + HOUR, "kept_because": "a demo"}
WAS_KEPT = {"kept_until": NOON - 1, "kept_because": "a demo"}
TOLD = {"kept_until": NOON + 60, "kept_because": NOTICE, "ends_after_keep": TTL_TOLD}
WAS_TOLD = TOLD | {"kept_until": NOON}
FLEX = LIVES | {"provisioning_model": ProvisioningModel.FLEX_START}
"""Google ends this node at noon."""
UNREADABLE = {"labels": {LABEL: "soon"}}


def decided(now=NOON, *, is_paused=False, **changes):
    node = factories.sent(**changes)
    return expiry_of(node, out_of_time(node, now), now, is_paused=is_paused)


@pytest.mark.parametrize(
    ("changes", "is_paused", "turn", "reason"),
    [
        ({}, False, None, ""),
        (KEPT, True, None, ""),
        ({"ttl_seconds": HOUR, "ready_at": NOON - HOUR + 1}, False, None, ""),
        (LIVES | {"asked": Asked.ABSENT}, False, None, ""),
        (LIVES, False, ExpiryStep.END, OVER),
        (LIVES | {"asked": Asked.STOPPED}, False, ExpiryStep.END, OVER),
        (LIVES, True, ExpiryStep.HOLD, OVER),
        (LIVES | KEPT, False, ExpiryStep.HOLD, OVER),
        (LIVES | KEPT, True, ExpiryStep.HOLD, OVER),
        (LIVES | UNREADABLE, False, ExpiryStep.HOLD, OVER),
        (LIVES | WAS_KEPT, False, ExpiryStep.END, OVER),  # it was over before the time to live was
        (LIVES | {"kept_until": NOON, "ready_at": NOON - HOUR - 1}, False, ExpiryStep.NOTICE, OVER),
        (LIVES | {"labels": {LABEL: "2026-11-05"}}, False, ExpiryStep.END, OVER),
        (LIVES | {"ends_after_keep": TTL_HELD}, False, ExpiryStep.NOTICE, OVER),
        (LIVES | {"ends_after_keep": TTL_HELD}, True, ExpiryStep.HOLD, OVER),
        (LIVES | {"ends_after_keep": TTL_HELD} | KEPT, False, ExpiryStep.HOLD, OVER),
        (LIVES | TOLD, False, ExpiryStep.HOLD, OVER),
        (LIVES | WAS_TOLD, False, ExpiryStep.END, OVER),
        (LIVES | WAS_TOLD, True, ExpiryStep.HOLD, OVER),
        ({"ends_after_keep": JOB} | KEPT, False, ExpiryStep.HOLD, JOB),
        ({"ends_after_keep": JOB} | WAS_KEPT, False, ExpiryStep.END, JOB),
        ({"ends_after_keep": JOB} | WAS_KEPT, True, ExpiryStep.END, JOB),
        ({"ends_after_keep": JOB} | LIVES, True, ExpiryStep.END, JOB),
        ({"ends_after_keep": JOB} | LIVES | KEPT, False, ExpiryStep.HOLD, JOB),
        (
            {"max_wait_seconds": 1, "created_at": NOON - HOUR} | KEPT,
            True,
            ExpiryStep.END,
            "it was not",
        ),
    ],
)
def test_a_keep_holds_job_ends_and_times_to_live_and_a_pause_the_latter(
    changes, is_paused, turn, reason
):
    found = decided(is_paused=is_paused, **changes)
    assert (None if found is None else found.step) == turn
    assert found is None or found.reason.startswith(reason)


def test_the_highest_that_applies_is_the_reason():
    assert decided(ends_after_keep=JOB, **LIVES).reason == JOB
    assert decided(**LIVES).reason == OVER


def turn_of(node, now):
    expiry = expiry_of(node, OVER, now, is_paused=False)
    assert expiry is not None
    return expiry.step


def test_a_time_to_live_that_a_keep_held_back_ends_after_a_notice_of_its_own():
    node = factories.sent(**LIVES, **KEPT)
    expiry = expiry_of(node, OVER, NOON, is_paused=False)
    assert expiry is not None
    waits = with_end_held(node, expiry, NOON)
    assert (waits.ends_after_keep, waits.next_try_at) == (TTL_HELD, NOON + HOUR)
    late = NOON + DAY  # nobody looked for a day: the notice is as long as ever
    assert turn_of(waits, late) is ExpiryStep.NOTICE
    told = with_notice(waits, late, 900)
    assert (told.kept_until, told.next_try_at) == (late + 900, late + 900)
    assert turn_of(told, late + 899) is ExpiryStep.HOLD
    assert turn_of(told, late + 900) is ExpiryStep.END


def test_a_pause_alone_leaves_no_mark_and_is_looked_at_again():
    node = factories.sent(**LIVES)
    expiry = expiry_of(node, OVER, NOON, is_paused=True)
    assert expiry is not None
    waits = with_end_held(node, expiry, NOON)
    assert (waits.ends_after_keep, waits.next_try_at) == ("", NOON + 60)


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, None),
        ({"ttl_seconds": HOUR, "ready_at": NOON}, NOON + HOUR),
        ({"ttl_seconds": HOUR, "ready_at": NOON} | KEPT, NOON + HOUR),
        ({"ttl_seconds": 60, "ready_at": NOON} | KEPT, NOON + HOUR),
        (LIVES, NOON + 60),
        (LIVES | KEPT, NOON + HOUR),
        (LIVES | UNREADABLE, NOON + 60),
        (KEPT, None),
        (KEPT | {"ends_after_keep": JOB}, NOON + HOUR),
        (WAS_KEPT | {"ends_after_keep": JOB}, NOON + 60),
        ({"max_wait_seconds": 10, "created_at": NOON}, NOON + 10),
        ({"asked": Asked.ABSENT} | LIVES, NOON),
    ],
)
def test_a_node_is_looked_at_again_when_its_end_may_come(changes, at):
    assert next_deadline(factories.sent(**changes), NOON) == at


@pytest.mark.parametrize(
    ("changes", "at"),
    [
        ({}, None),
        (KEPT, None),
        (LIVES, NOON),
        (LIVES | KEPT, NOON + HOUR),
        (LIVES | WAS_KEPT, NOON),
        (LIVES | TOLD, NOON + 60),
        (LIVES | UNREADABLE, None),
        (KEPT | {"ends_after_keep": JOB}, NOON + HOUR),
        (FLEX, NOON),
        (FLEX | KEPT, NOON),
        (FLEX | UNREADABLE, NOON),
        (FLEX | KEPT | {"ends_after_keep": JOB}, NOON),
        (FLEX | KEPT | {"ends_after_keep": JOB, "ttl_seconds": 3 * HOUR}, NOON + HOUR),
    ],
)
def test_a_node_says_when_it_goes(changes, at):
    assert goes_at(factories.sent(**changes)) == at


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        (KEPT, True),
        (UNREADABLE, True),
        (WAS_KEPT, False),
        ({}, False),
        (TOLD, False),
        (KEPT | {"sent_at": None}, False),
    ],
)
def test_the_node_of_a_job_that_ended_stays_while_somebody_keeps_it(changes, is_kept):
    after = with_ended_job(factories.sent(**changes), JOB, NOON)
    assert (after is not None) == is_kept
    if after is not None:
        assert (after.ends_after_keep, after.asked) == (JOB, Asked.PRESENT)
        assert after.next_try_at is not None
        assert after.next_try_at > NOON
        assert waits_for_job_end(after)
