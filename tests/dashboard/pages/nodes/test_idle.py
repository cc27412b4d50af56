"""What the pages say of the idleness of a node."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from service.application.cleanup.cleanup import IdleBrief
from service.application.cleanup.keeps import KeepOrder
from service.dashboard.pages.nodes.idle import idle_line, idle_sentence
from service.domain.idle.cleanup import Cleanup, RailHold, WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.policy import Action, Policy, Rule, Waste, apply_policies
from service.domain.idle.proof import Blocker, IdleVerdict
from service.domain.idle.rails import Rail, Waiting
from service.domain.idle.signals.signal import Level
from service.domain.nodes.keep import Keep
from service.domain.nodes.node import IdlePolicy, NodeState
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import text_of
from tests.hands import NOON

QUIET = IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - 4_000)
DUE = NOON + 540


def at_rest(seconds: int) -> IdleVerdict:
    """Proved at NOON, when readings of the newest four minutes did not count."""
    since = NOON - seconds
    return replace(QUIET, since=since, proved_since=since, until=NOON - 240)


def brief(state=State.NOTIFIED, verdict=QUIET, action=Action.DELETE, due_at=DUE, **changes):
    rule = apply_policies(
        factories.spec(), "", {"default": Policy("default", Rule(action=action))}, action
    )
    course = IdleCourse("n", 1, state, NOON - 60)
    watched = WatchedNode(course, "lab", verdict=verdict, judged_at=NOON, due_at=due_at)
    keep, waiting = changes.get("keep"), changes.get("waiting")
    cleanup = Cleanup("lab", holds=changes.get("holds", ()))
    expected = None if due_at is None or keep else cleanup.expect_end("n", due_at, NOON)
    return IdleBrief(watched, rule, keep, waiting, expected)


PAUSE = RailHold(Rail.PAUSE, "ada: a demo", NOON)
BREAKER = RailHold(Rail.BREAKER, "6 of 18 nodes became unknown", NOON, NOON + 900)
STARTED = RailHold(Rail.START, "a daemon has just begun", NOON)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (brief(), "quiet for 1 h 6 min; deleted in 9 min"),
        (brief(action=Action.STOP), "quiet for 1 h 6 min; stopped in 9 min"),
        (brief(due_at=NOON - 30), "quiet for 1 h 6 min; deleted at the next check"),
        (
            brief(due_at=NOON - 30, waiting=Waiting("n", Rail.MASS, 1, None)),
            "quiet for 1 h 6 min; waits: most of the nodes are idle at once",
        ),
        (
            brief(due_at=NOON - 30, waiting=Waiting("n", Rail.HOUR, 1, NOON + 2_400)),
            "quiet for 1 h 6 min; waits: the hourly limit is reached, 40 min more",
        ),
        (
            brief(due_at=NOON - 30, waiting=Waiting("n", Rail.TICK, 2, NOON + 60, NOON - 120)),
            (
                "quiet for 1 h 6 min; waits since 2026-11-05 11:58:00 UTC: other nodes go first,"
                " 1 min more"
            ),
        ),
        (brief(holds=(PAUSE,)), "quiet for 1 h 6 min; deleted later: deletions are paused"),
        (
            brief(holds=(BREAKER,)),
            "quiet for 1 h 6 min; deleted in 15 min: the breaker is open",
        ),
        (brief(holds=(STARTED,)), "quiet for 1 h 6 min; deleted in 9 min"),
        (
            brief(keep=Keep(NOON + 60, "mine")),
            "quiet for 1 h 6 min; kept until 2026-11-05 12:01:00 UTC",
        ),
        (brief(keep=Keep(None, "?")), "quiet for 1 h 6 min; kept"),
        (brief(action=Action.NOTIFY, due_at=None), "quiet for 1 h 6 min"),
        (brief(State.QUIET, at_rest(1_200)), "quiet for 20 min; idle in 44 min"),
        (
            brief(State.QUIET, at_rest(3_900)),
            "quiet for 1 h 5 min; idle at one of the next checks",
        ),
        (
            brief(State.QUIET, at_rest(60), keep=Keep(NOON + 60, "mine")),
            "quiet for 1 min; kept until 2026-11-05 12:01:00 UTC",
        ),
        (
            brief(State.QUIET, replace(at_rest(60), blockers=(Blocker.SESSION,))),
            "quiet for 1 min",
        ),
        (
            brief(verdict=replace(QUIET, waste=Waste.CRASH_LOOP)),
            "in a crash loop for 1 h 6 min; deleted in 9 min",
        ),
        (
            brief(State.UNKNOWN, IdleVerdict(Level.UNKNOWN, "CPU of worker 0 has stopped")),
            "unknown whether it is idle",
        ),
        (brief(State.UNKNOWN, None), "unknown whether it is idle"),
        (brief(State.ACTIVE, IdleVerdict(Level.ACTIVE, "a heartbeat says so")), ""),
        (brief(State.WARMING, None), ""),
    ],
)
def test_a_line_says_for_how_long_and_what_comes_of_it(one, said):
    assert idle_line(one, NOON) == said


def test_the_page_of_a_node_says_why_nothing_is_known():
    blind = brief(State.UNKNOWN, IdleVerdict(Level.UNKNOWN, "CPU of worker 0 has stopped"))
    reason = "unknown whether it is idle: CPU of worker 0 has stopped"
    assert idle_sentence(blind, NOON) == reason
    assert idle_sentence(brief(), NOON) == idle_line(brief(), NOON)
    assert idle_sentence(brief(State.UNKNOWN, None), NOON) == "unknown whether it is idle"


@pytest.mark.parametrize("rail", list(Rail))
def test_each_rail_is_named_in_words(rail):
    line = idle_line(brief(due_at=NOON - 1, waiting=Waiting("n", rail, 1, None)), NOON)
    assert line.partition("waits: ")[2]


def idle_node(lab: Lab, name: str, *, incarnation: int = 1) -> str:
    node = factories.node(
        project="lab",
        name=name,
        attempt=1,
        state=NodeState.READY,
        idle=IdlePolicy(after_seconds=1_800, grace_seconds=330, action="delete"),
    )
    course = IdleCourse(node.id, incarnation, State.NOTIFIED, lab.clock(), notified_at=lab.clock())
    verdict = replace(QUIET, since=lab.clock() - 2_400)
    watched = WatchedNode(course, "lab", verdict=verdict, due_at=lab.clock() + 600)
    with lab.units() as unit:
        unit.nodes.add(node)
        unit.idle_courses.save([watched])
    return node.id


def test_a_row_and_a_page_say_when_a_node_goes(lab: Lab, browser: TestClient) -> None:
    lab.services.cleanup.mode = replace(lab.services.cleanup.mode, ceiling=Action.DELETE)
    node_id = idle_node(lab, "sleepy")
    for page in ("/", f"/nodes/{node_id}"):
        assert "quiet for 40 min; deleted in 10 min" in text_of(browser.get(page))


def test_the_page_of_a_node_has_its_keep_and_its_policy(lab: Lab, browser: TestClient) -> None:
    node_id = idle_node(lab, "sleepy")
    page = f"/nodes/{node_id}"
    assert "Idle policy delete after 30 min, grace 330 s" in text_of(browser.get(page))
    assert "Kept until 2026-11-05 13:00:00" not in text_of(browser.get(page))
    lab.services.keeps.keep_node(node_id, KeepOrder("the demo", for_seconds=3_600))
    assert text_of(browser.get(page)).count("Kept until 2026-11-05 13:00:00 UTC: the demo") == 2
    lab.clock.pass_(3_600)
    assert text_of(browser.get(page)).count("Kept until 2026-11-05 13:00:00") == 1, "as an event"


def test_what_was_seen_of_an_incarnation_before_is_not_said(lab: Lab, browser: TestClient) -> None:
    node_id = idle_node(lab, "reborn", incarnation=0)
    for page in ("/", f"/nodes/{node_id}"):
        assert "quiet" not in text_of(browser.get(page))


def test_in_observe_nothing_is_announced(lab: Lab, browser: TestClient) -> None:
    idle_node(lab, "sleepy")
    said = text_of(browser.get("/"))
    assert "quiet for 40 min" in said
    assert "deleted in" not in said


def test_what_a_node_did_leads_to_no_lines_of_the_ledger_as_it_cuts_them(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - 7_200)
    rows = caller.get("/costs?window=7d&aggregate=node").text
    assert f'href="/nodes/{node.id}/ledger' in rows
    by_activity = caller.get("/costs?window=7d&aggregate=node&filter=activity:unknown").text
    assert f"/nodes/{node.id}" in by_activity
    assert f'href="/nodes/{node.id}/ledger' not in by_activity


def test_the_ledger_of_a_node_is_whole_whatever_the_node_did(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 7_200)
    whole = text_of(caller.get(f"/nodes/{node.id}/ledger?window=7d"))
    asked = text_of(caller.get(f"/nodes/{node.id}/ledger?window=7d&filter=activity:idle"))
    assert asked == whole
