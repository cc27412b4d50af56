"""Creates are spread out, per project, by refusing and never by waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from service.cloud.rate_limit import LogReader, Pace, ReadPace, ReportPace
from service.domain.errors import RateLimited


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


def granted(pace: Pace, project: str = "lab") -> int:
    """How many creates go through right now, one after the other."""
    count = 0
    while True:
        try:
            pace.count_create(project)
        except RateLimited:
            return count
        count += 1


def test_a_burst_goes_through_at_once_and_no_more():
    assert granted(Pace(Hands(), per_minute=60, burst=10)) == 10


def test_after_the_burst_it_is_one_per_second():
    hands = Hands()
    pace = Pace(hands, per_minute=60, burst=10)
    granted(pace)
    served = []
    for _ in range(5):
        hands.seconds += 1
        served.append(granted(pace))
    assert served == [1, 1, 1, 1, 1]


def test_any_minute_lets_through_the_burst_and_the_rate():
    hands = Hands()
    pace = Pace(hands, per_minute=60, burst=10)
    total = 0
    for _ in range(240):
        total += granted(pace)
        hands.seconds += 0.25
    assert total == 69


def test_each_that_is_refused_gets_a_turn_of_its_own():
    pace = Pace(Hands(), per_minute=60, burst=1)
    pace.count_create("lab")
    turns = []
    for _ in range(5):
        with pytest.raises(RateLimited) as refused:
            pace.count_create("lab")
        turns.append(refused.value.facts["retry_after"])
    assert turns == [1, 2, 3, 4, 5]


def test_a_turn_that_nobody_took_is_not_waited_for():
    hands = Hands()
    pace = Pace(hands, per_minute=60, burst=1)
    pace.count_create("lab")
    for _ in range(5):
        with pytest.raises(RateLimited):
            pace.count_create("lab")
    hands.seconds += 60
    pace.count_create("lab")
    with pytest.raises(RateLimited) as refused:
        pace.count_create("lab")
    assert refused.value.facts["retry_after"] == 1


def test_a_long_rest_saves_up_no_more_than_the_burst():
    hands = Hands()
    pace = Pace(hands, per_minute=60, burst=10)
    granted(pace)
    hands.seconds += 86_400
    assert granted(pace) == 10


def test_the_refusal_says_when_to_come_back_and_then_it_is_granted():
    hands = Hands()
    pace = Pace(hands, per_minute=6, burst=1)
    pace.count_create("lab")
    hands.seconds += 2.5
    with pytest.raises(RateLimited) as refusal:
        pace.count_create("lab")
    assert refusal.value.facts == {"retry_after": 8}
    hands.seconds += 8
    pace.count_create("lab")


def test_refusals_cost_nothing():
    hands = Hands()
    pace = Pace(hands, per_minute=60, burst=1)
    pace.count_create("lab")
    for _ in range(9):
        hands.seconds += 0.1
        assert granted(pace) == 0
    hands.seconds += 0.11
    assert granted(pace) == 1


def test_projects_do_not_slow_each_other_down():
    pace = Pace(Hands(), burst=3)
    assert granted(pace, "lab") == 3
    assert granted(pace, "other") == 3


def test_threads_share_one_bucket():
    pace = Pace(Hands(), burst=50)
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda _: granted(pace), range(8))) == 50


# ---- reads of the log


def reads(pace: ReadPace, reader: LogReader, project: str = "lab") -> int:
    """How many reads go through right now, one after the other."""
    count = 0
    while True:
        try:
            pace.count_call(project, reader)
        except RateLimited:
            return count
        count += 1


def test_jobs_leave_ten_reads_a_minute_to_the_audit_log():
    pace = ReadPace(Hands())
    assert reads(pace, LogReader.JOBS) == 30
    assert reads(pace, LogReader.AUDIT) == 10
    assert reads(pace, LogReader.JOBS, "elsewhere") == 30


def test_the_audit_log_may_use_all_reads():
    pace = ReadPace(Hands())
    assert reads(pace, LogReader.AUDIT) == 40
    assert reads(pace, LogReader.JOBS) == 0


def test_no_minute_has_more_reads_than_are_allowed():
    hands = Hands()
    pace = ReadPace(hands)
    sent: list[float] = []
    for _ in range(300):
        hands.seconds += 0.7
        for reader in (LogReader.JOBS, LogReader.AUDIT):
            sent += [hands.seconds] * reads(pace, reader)
    for at in sent:
        assert sum(at <= other < at + 60 for other in sent) <= 40


def test_a_refused_read_is_right_after_the_time_that_the_refusal_says():
    hands = Hands()
    pace = ReadPace(hands)
    pace.count_call("lab", LogReader.JOBS)
    hands.seconds += 20.5
    assert reads(pace, LogReader.JOBS) == 29
    with pytest.raises(RateLimited) as refusal:
        pace.count_call("lab", LogReader.JOBS)
    assert refusal.value.facts == {"retry_after": 40}
    hands.seconds += 40
    pace.count_call("lab", LogReader.JOBS)


def test_threads_together_get_no_more_reads():
    pace = ReadPace(Hands())
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(lambda _: reads(pace, LogReader.JOBS), range(8))) == 30


def test_a_machine_is_read_four_times_in_any_minute_and_no_more():
    hands = Hands()
    pace = ReportPace(hands)
    taken = []
    for _ in range(240 * 4):
        with suppress(RateLimited):
            pace.count_read("nodes/one")
            taken.append(hands.seconds)
        with suppress(RateLimited):
            pace.count_read("nodes/two")
        hands.seconds += 0.25
    assert max(sum(0 <= at - first < 60 for at in taken) for first in taken) == 4
    assert len(taken) == 4 * 4


def test_reads_that_are_a_moment_early_wait_for_the_minute_to_be_over():
    """Ticks that come every 14.99 s would read five times within a minute."""
    hands = Hands()
    pace = ReportPace(hands)
    for _ in range(4):
        pace.count_read("nodes/one")
        hands.seconds += 14.99
    with pytest.raises(RateLimited) as refused:
        pace.count_read("nodes/one")
    assert refused.value.facts["retry_after"] == 1
    hands.seconds += 1
    pace.count_read("nodes/one")


def test_machines_that_nobody_reads_any_more_are_forgotten():
    hands = Hands()
    pace = ReportPace(hands)
    for number in range(1_000):
        pace.count_read(f"nodes/{number}")
        hands.seconds += 1
    assert len(pace) < 60
