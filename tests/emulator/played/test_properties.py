"""Whatever is said and whatever happens, a played worker runs an attempt at most once."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.emulator.errors import ApiError
from service.emulator.nodes import guest_attributes
from service.emulator.surfaces import control
from tests.emulator.factories import name_of
from tests.emulator.played.given import Jobs, task

pytestmark = pytest.mark.deep

SPOT: dict[str, Any] = {"scheduling_config": {"spot": True}}
STEPS = st.one_of(
    st.tuples(
        st.just("say"),
        st.sampled_from(["pull", "run", "stop", "release"]),
        st.integers(1, 3),
        st.sampled_from(["0", "5", "90", "9999"]),
    ),
    st.tuples(st.just("wait"), st.integers(0, 200)),
    st.tuples(st.just("maintain")),
    st.tuples(st.just("break")),
    st.tuples(st.just("preempt"), st.sampled_from([0, 30])),
)


class Story:
    """A node to which anything may happen; every PUT of its worker is noted."""

    def __init__(self) -> None:
        self.jobs = Jobs()
        self.cloud = self.jobs.cloud
        self.name = self.jobs.ready(**SPOT)
        self.generation = 0
        self.puts: list[float] = []
        self.seqs: list[int] = []

    def do(self, what: str, *more) -> None:
        with suppress(ApiError):  # not every state allows everything
            match what:
                case "say":
                    action, attempt, seconds = more
                    self.generation += 1
                    env = {"EMULATOR_DURATION_SECONDS": seconds}
                    self.jobs.say(task(action, self.generation, f"j-{attempt}", env=env))
                case "wait":
                    self.cloud.wait(more[0])
                case "maintain":
                    control.maintain_node(self.cloud.world, {"name": self.name})
                case "break":
                    control.break_host(self.cloud.world, {"name": self.name})
                case "preempt":
                    order = {"name": self.name, "notice_seconds": more[0]}
                    control.preempt_node(self.cloud.world, order)
                case _:
                    raise AssertionError(what)

    def note(self) -> None:
        with suppress(ApiError):
            self.seqs.append(self.jobs.report()["seq"])


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=14))
def test_no_attempt_runs_twice_and_no_two_containers_at_once(steps):
    story = Story()
    publish = guest_attributes.publish_value
    moments = story.puts

    def noted(record, *rest):
        moments.append(story.cloud.world.timeline.moment or story.cloud.now)
        publish(record, *rest)

    guest_attributes.publish_value = noted
    try:
        for step in steps:
            story.do(*step)
            story.note()
    finally:
        guest_attributes.publish_value = publish
    runs = story.jobs.runs
    assert len({run.attempt for run in runs}) == len(runs)
    for before, after in pairwise(runs):
        assert before.end is not None
        assert before.start <= before.end <= after.start
    assert story.seqs == sorted(story.seqs)
    assert all(sum(at <= other < at + 60 for other in moments) < 5 for at in moments)
    record = story.cloud.world.nodes[name_of("a")]
    if record.state != "READY":
        assert all(run.end is not None for run in runs)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_a_final_report_says_what_the_container_really_did(steps):
    story = Story()
    for step in steps:
        story.do(*step)
    story.cloud.wait(300)
    with suppress(ApiError):
        told = story.jobs.report()
        ended = [run for run in story.jobs.runs if run.attempt == told["attempt"]]
        if told["state"] == "EXITED" and ended:
            [run] = ended
            assert told["exit_code"] == run.exit_code
            assert told["started_at"] == int(run.start)
            if run.how == "ended":
                assert run.end is not None
                assert told["ended_at"] == int(run.end)
            else:
                assert told["reason"] == "REBOOTED"
