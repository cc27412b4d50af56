"""A report is a claim: whatever a process on the worker writes does no harm."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.jobs.report import WorkerState, is_newer, parse_report
from tests.hands import NOON

VALID = {
    "v": 1,
    "seq": 3,
    "state": "EXITED",
    "exit_code": 7,
    "attempt": "a-1",
    "reason": "COMPLETED",
}


def text(**changes):
    return json.dumps({**VALID, **changes})


def test_a_report_is_read():
    report = parse_report(text(), NOON)
    assert report is not None
    assert (report.seq, report.state, report.exit_code) == (3, WorkerState.EXITED, 7)
    assert report.is_final


@pytest.mark.parametrize(
    "changes",
    [{"v": 2}, {"seq": -1}, {"seq": True}, {"seq": "3"}, {"state": "DONE"}, {"state": None}],
)
def test_a_document_of_another_kind_is_no_report(changes):
    assert parse_report(text(**changes), NOON) is None


def test_an_instant_of_a_clock_that_is_ahead_is_now():
    report = parse_report(text(ended_at=NOON + 5_000, started_at=NOON - 5), NOON)
    assert report is not None
    assert (report.ended_at, report.started_at) == (NOON, NOON - 5)


@pytest.mark.parametrize(
    ("code", "read"), [(0, 0), (255, 255), (256, None), (-1, None), ("7", None)]
)
def test_an_exit_code_is_between_0_and_255(code, read):
    report = parse_report(text(exit_code=code), NOON)
    assert report is not None
    assert report.exit_code == read


def test_texts_can_be_stored_and_shown():
    report = parse_report(text(detail="a\x00b\nc\ud800" + "x" * 9_000, tail="one\ntwo"), NOON)
    assert report is not None
    report.detail.encode()
    assert "\0" not in report.detail
    assert "\n" not in report.detail
    assert len(report.detail) <= 500
    assert report.tail == "one\ntwo"


@given(
    st.one_of(
        st.text(max_size=200),
        st.dictionaries(
            st.sampled_from([*VALID, "logs", "warnings", "startup_script", "ended_at", "tail"]),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
                lambda inner: (
                    st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
                ),
                max_leaves=5,
            ),
        ).map(lambda changes: json.dumps({**VALID, **changes})),
    )
)
def test_no_text_breaks_the_reader(written):
    report = parse_report(written, NOON)
    assert report is None or report.seq >= 0


def test_a_higher_seq_is_newer():
    first, second = parse_report(text(seq=3), NOON), parse_report(text(seq=4), NOON)
    assert first is not None
    assert second is not None
    assert is_newer(second, first)
    assert not is_newer(first, second)
    assert not is_newer(first, first)
    assert is_newer(first, None)
