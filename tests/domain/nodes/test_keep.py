"""Tests of how long a node is kept."""

from __future__ import annotations

import pytest

from service.domain.errors import Rejected
from service.domain.nodes.keep import (
    LABEL,
    LONGEST_SECONDS,
    TTL_HELD,
    TTL_TOLD,
    Keep,
    keep_by_label,
    keep_of,
    keep_of_node,
    keep_sentence,
    waits_for_job_end,
)
from tests import factories

NOW = 1_780_000_000


def test_a_node_is_kept_until_then_and_no_longer():
    keep = keep_of(NOW, "a demo ", for_seconds=60)
    assert keep == Keep(NOW + 60, "a demo")
    assert (keep.is_active(NOW + 59), keep.is_active(NOW + 60), keep.is_unreadable) == (
        True,
        False,
        False,
    )
    assert keep_of(NOW, "a demo", until=NOW + LONGEST_SECONDS).until == NOW + LONGEST_SECONDS


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"until": NOW}, "until"),
        ({"until": NOW - 1}, "until"),
        ({"until": NOW + LONGEST_SECONDS + 1}, "until"),
        ({"for_seconds": LONGEST_SECONDS + 1}, "for_seconds"),
        ({"for_seconds": 0}, "for_seconds"),
        ({}, "until"),
        ({"until": NOW + 1, "for_seconds": 1}, "until"),
        ({"for_seconds": 60, "reason": "  "}, "reason"),
        ({"for_seconds": 61, "ends_at": NOW + 60}, "for_seconds"),
    ],
)
def test_what_no_keep_can_be_is_refused(asked, field):
    with pytest.raises(Rejected) as refused:
        keep_of(NOW, **{"reason": "a demo", **asked})
    assert refused.value.facts["field"] == field


def test_a_label_keeps_until_its_day_begins():
    keep = keep_by_label({"keep-until": "2026-12-01"})
    assert keep is not None
    assert keep.until == 1_796_083_200
    assert keep_by_label({"team": "vision"}) is None


@pytest.mark.parametrize("text", ["", "tomorrow", "2026-13-01", "01.12.2026", "2026-12-01t99"])
def test_a_date_that_cannot_be_read_protects(text):
    keep = keep_by_label({"keep-until": text})
    assert keep is not None
    assert keep.is_unreadable
    assert keep.is_active(NOW + 10**9)


@pytest.mark.parametrize(
    ("kept_until", "label", "expected"),
    [
        (None, None, None),
        (1_764_590_000, None, 1_764_590_000),
        (None, "2025-12-01", 1_764_547_200),
        (1_764_547_201, "2025-12-01", 1_764_547_201),
        (1_764_547_199, "2025-12-01", 1_764_547_200),
    ],
)
def test_the_later_one_of_what_was_asked_for_and_of_the_label_counts(kept_until, label, expected):
    labels = {} if label is None else {LABEL: label}
    node = factories.node(kept_until=kept_until, kept_because="why", labels=labels)
    keep = keep_of_node(node)
    assert (None if keep is None else keep.until) == expected


def test_a_label_that_cannot_be_read_protects_whatever_was_asked_for():
    node = factories.node(kept_until=1, kept_because="why", labels={LABEL: "soon"})
    keep = keep_of_node(node)
    assert keep is not None
    assert keep.is_active(2_000_000_000)


@pytest.mark.parametrize("mark", ["", TTL_HELD, TTL_TOLD])
def test_a_time_to_live_that_is_held_back_is_no_job_end(mark):
    assert not waits_for_job_end(factories.sent(ends_after_keep=mark))


def test_a_keep_is_said_with_its_date_and_its_reason():
    kept = factories.sent(kept_until=NOW, kept_because="a demo")
    assert keep_sentence(kept) == "it is kept until 2026-05-28T20:26:40Z (a demo)"
    unreadable = factories.sent(labels={LABEL: "soon"})
    assert "an invalid date (label keep-until=soon)" in keep_sentence(unreadable)
    assert keep_sentence(factories.sent()) == ""
