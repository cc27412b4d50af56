"""Turns of writers: in the order in which they came, and who is urgent first."""

from __future__ import annotations

import threading

import pytest

from service.domain.errors import StoreUnavailable
from service.store import writer_turns
from service.store.writer_turns import WriterTurns, turns_of


def test_writers_have_their_turn_in_the_order_in_which_they_came_and_who_is_urgent_first():
    line, seen, threads = WriterTurns(), [], []

    def write(name: str, *, first: bool) -> None:
        with line.take_turn(first=first):
            seen.append(name)

    with line.take_turn():
        for number, (name, first) in enumerate([("a", False), ("b", False), ("renewal", True)], 1):
            threads.append(threading.Thread(target=write, args=[name], kwargs={"first": first}))
            threads[-1].start()
            while len(line._line) < number:
                threads[-1].join(0.001)
        assert seen == []
    for thread in threads:
        thread.join()
    assert seen == ["renewal", "a", "b"]


def test_who_waits_for_too_long_is_told_so_and_leaves_the_line(monkeypatch):
    monkeypatch.setattr(writer_turns, "LONGEST_SECONDS", 0.01)
    line = WriterTurns()
    said = "blocked the database for too long"
    with line.take_turn(), pytest.raises(StoreUnavailable, match=said), line.take_turn():
        raise AssertionError("two at once")
    with line.take_turn():
        assert not line._line


def test_a_database_has_one_line_of_writers():
    assert turns_of("sqlite:///a") is turns_of("sqlite:///a")
    assert turns_of("sqlite:///a") is not turns_of("sqlite:///b")
