"""Several things of one turn at once."""

from __future__ import annotations

import threading

import pytest

from service.controllers.threads import take_for, work_on

PATIENCE = 20


@pytest.mark.parametrize("workers", [1, 3])
def test_every_item_is_worked_on_once(workers: int) -> None:
    done: list[int] = []
    work_on(range(100), done.append, workers)
    assert sorted(done) == list(range(100))


def test_as_many_as_there_are_threads_are_worked_on_at_once() -> None:
    together = threading.Barrier(3)
    work_on(range(3), lambda _: together.wait(PATIENCE), 3)


@pytest.mark.parametrize("workers", [1, 3])
def test_after_an_error_no_other_item_is_begun(workers: int) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        done.append(item)
        raise ValueError(item)

    with pytest.raises(ValueError, match=r"\d"):
        work_on(range(100), work, workers)
    assert len(done) <= workers


def test_no_item_is_begun_once_the_time_is_over() -> None:
    times = iter([0.0, 1.0, 9.0, 10.0])
    assert list(take_for(range(100), 10, lambda: next(times))) == [0, 1]
