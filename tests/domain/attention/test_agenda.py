"""The order of the agenda."""

from __future__ import annotations

import pytest

from service.domain.attention.agenda import (
    PERSONAL,
    AgendaEntry,
    AgendaKind,
    build_agenda,
)

NOW = 1_800_000_000


def entry(kind, subject="n", **facts):
    return AgendaEntry(kind, subject, "Something is so", **facts)


def names(entries):
    return [entry.subject for entry in entries]


def test_what_happens_next_is_in_the_order_of_time():
    found = build_agenda(
        NOW,
        [
            entry(AgendaKind.TTL_END, "late", at=NOW + 60, hourly=900),
            entry(AgendaKind.IDLE_END, "soon", at=NOW + 5, hourly=1),
        ],
        10,
    )
    assert names(found.next) == ["soon", "late"]
    assert found.needs_person == ()


def test_a_deadline_comes_before_what_waits_and_the_dearest_waits_first():
    found = build_agenda(
        NOW,
        [
            entry(AgendaKind.CRASH_LOOP, "cheap", hourly=1),
            entry(AgendaKind.UNKNOWN, "unpriced"),
            entry(AgendaKind.FAILING_DELETION, "dear", hourly=50),
            entry(AgendaKind.BUDGET_DELETES, "deadline", at=NOW + 3_600),
        ],
        10,
    )
    assert names(found.needs_person) == ["deadline", "dear", "cheap", "unpriced"]


@pytest.mark.parametrize("kind", list(AgendaKind))
def test_each_kind_is_in_one_part(kind):
    found = build_agenda(NOW, [entry(kind)], 10)
    assert (len(found.needs_person), len(found.next)) == ((1, 0) if kind in PERSONAL else (0, 1))


def test_entries_beyond_the_limit_are_counted():
    many = [entry(AgendaKind.IDLE_END, f"n-{number}", at=NOW + number) for number in range(5)]
    found = build_agenda(NOW, [*many, entry(AgendaKind.ORPHANS)], 3)
    assert names(found.next) == ["n-0", "n-1", "n-2"]
    assert (len(found.needs_person), found.left_out) == (1, 2)
