"""The signals and the idle course on the page of a node."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.application.cleanup.activity import join_hours
from service.application.cleanup.keeps import KeepOrder
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.policy import Action
from service.domain.idle.proof import Blocker, Host, IdleVerdict, Signals
from service.domain.idle.rails import Rail, Waiting
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.activity import Activity
from service.domain.idle.signals.signal import Kind, Level, SignalTrack
from service.domain.nodes.node import Asked, IdlePolicy, NodeState
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, text_of
from tests.hands import NOON

QUIET = IdleVerdict(Level.QUIET, "every device is quiet", since=NOON - 2_400)
REST = SignalTrack(NOON - 300, 0.0, Level.QUIET, ((NOON - 2_400, NOON - 300),), NOON - 2_400)


def watch(lab: Lab, state: State, verdict: IdleVerdict | None = QUIET, **changes: object) -> str:
    """A READY node with two workers on that course."""
    node = factories.node(
        project="lab",
        attempt=1,
        hosts=2,
        state=NodeState.READY,
        ready_at=NOON - 9_000,
        created_at=NOON - 9_000,
        idle=IdlePolicy(after_seconds=1_800, grace_seconds=600, action="delete"),
    )
    signals = Signals(
        {(0, Kind.DUTY_CYCLE): REST, (1, Kind.CPU): REST._replace(level=Level.ACTIVE, at_rest=())},
        {1: Host(NOON - 60, holder=f"process 7 ({HOSTILE})", sessions=1)},
    )
    course = IdleCourse(node.id, 1, state, NOON - 600, notified_at=NOON - 600)
    watched = WatchedNode(course, "lab", signals, verdict, NOON - 30, NOON + 540)
    lab.services.cleanup.mode = replace(lab.services.cleanup.mode, ceiling=Action.DELETE)
    with lab.units() as unit:
        unit.nodes.add(node)
        unit.idle_courses.save([replace(watched, **changes)])  # type: ignore[arg-type]
    return node.id


def section_of(html: str, name: str) -> str:
    found = re.search(rf'aria-labelledby="{name}-heading".*?</section>', html, re.DOTALL)
    assert found is not None
    return found[0]


def test_slots_of_two_incarnations_are_joined_and_unknown_replaces_nothing():
    first = ActivityHour("n", 1, 0, "BI..........", {Kind.CPU: [80.0, 3.0, *[None] * 10]})
    second = ActivityHour("n", 2, 0, "..I.B.......", {Kind.CPU: [None, 5.0, 4.0, *[None] * 9]})
    joined = join_hours([first, second], 300, HOUR)
    assert joined.slots[:5] == [
        *(Activity.IDLE, Activity.IDLE, Activity.UNKNOWN, Activity.BUSY, Activity.UNKNOWN)
    ]
    assert (len(joined.slots), joined.end) == (11, HOUR)
    assert joined.values[Kind.CPU][:3] == [5.0, 4.0, None]


def show_signals(lab: Lab, caller: TestClient) -> str:
    """The signals of a node of whose last hours some values are known, as its page shows them."""
    node_id = watch(lab, State.NOTIFIED)
    hour = ActivityHour(
        *(node_id, 1, NOON - 2 * HOUR, "BBBIII......"),
        {Kind.DUTY_CYCLE: [97.0, None, *[1.0] * 10], Kind.NETWORK: [5e6] * 12},
    )
    with lab.units() as unit:
        unit.idle_rollups.save([hour])
    return section_of(caller.get(f"/nodes/{node_id}").text, "signals")


def test_bands_of_work_rest_and_unknown_look_different_and_are_told_in_words(
    lab: Lab, caller: TestClient
) -> None:
    shown = show_signals(lab, caller)
    assert "Of 2 h 35 min: unknown 2 h 5 min, active 15 min, quiet 15 min." in shown
    bands = re.findall(
        r'class="span-(\w+)" x="[^"]*" width="([^"]*)"[^>]*url\(#look-(\w+)\)', shown
    )
    assert {(look, fill) for look, _, fill in bands} == {
        *(("work", "work"), ("rest", "rest"), ("unknown", "unknown"))
    }
    assert ("work", "9.677%", "work") in bands
    assert "highest 97 % at 10:00, newest 1 %; 1 h 40 min of 2 h 35 min without a value" in shown
    assert "highest 5 MB/s" in shown
    assert re.search(
        r'<title>10:05 to 10:10: no value</title><rect fill="url\(#look-unknown\)"', shown
    )


def test_each_value_of_a_chart_is_read_with_the_keyboard_and_in_a_table(
    lab: Lab, caller: TestClient
) -> None:
    shown = show_signals(lab, caller)
    duty, network = re.findall(r'<svg class="signal-chart".*?</details>', shown, re.DOTALL)
    for chart, name in ((duty, "Duty cycle"), (network, "Network")):
        assert f'role="group" aria-label="{name}: highest' in chart
        assert f"<summary>{name} as a table</summary>" in chart
        bars = re.findall(
            r'<g class="slot" role="img" tabindex="(0|-1)"><title>(.*?)</title>.*?'
            r'<text class="reading"[^>]*>(.*?)</text></g>',
            chart,
        )
        assert [stop for stop, _, _ in bars] == [*["-1"] * (len(bars) - 1), "0"]
        assert all(title == reading for _, title, reading in bars)
        rows = [": ".join(row) for row in reversed(cells_of(chart)[1:])]
        assert rows == [title for _, title, _ in bars]
    assert cells_of(duty)[1:] == [
        ["11:00 to 12:05", "no value"],
        ["10:10 to 11:00", "1 %"],
        ["10:05 to 10:10", "no value"],
        ["10:00 to 10:05", "97 %"],
        ["09:30 to 10:00", "no value"],
    ]


def test_each_worker_says_what_is_proved_of_its_signals(lab: Lab, caller: TestClient) -> None:
    html = caller.get(f"/nodes/{watch(lab, State.NOTIFIED)}").text
    shown = section_of(html, "signals")
    assert "0: Duty cycle" in shown
    assert "1: CPU" in shown
    assert "quiet from 2026-11-05 11:20:00 UTC to 2026-11-05 11:55:00 UTC" in shown
    newest = section_of(html, "newest")
    assert "Quiet share</th>" in newest
    assert "Last active</th>" in newest
    assert newest.index("CPU") < newest.index("Duty cycle")  # what is not quiet comes first
    assert "40 min ago" in newest


@pytest.mark.parametrize(
    ("state", "verdict", "said"),
    [
        (
            State.NOTIFIED,
            QUIET,
            "its owner was notified. The node will be deleted in 9 min. Work on",
        ),
        (
            State.UNKNOWN,
            IdleVerdict(Level.UNKNOWN, "cpu has stopped"),
            "meanwhile. Cpu has stopped.",
        ),
        (State.ACTIVE, IdleVerdict(Level.ACTIVE, "a heartbeat says so"), "works. A heartbeat says"),
        (State.WARMING, None, "idleness does not count yet."),
        (
            State.QUIET,
            replace(QUIET, proved_since=NOON - 1_200, until=NOON - 240),
            "The node is idle in 13 min if it stays so.",
        ),
    ],
)
def test_the_course_says_where_it_is_and_what_follows(
    lab: Lab, caller: TestClient, state: State, verdict: IdleVerdict | None, said: str
) -> None:
    page = caller.get(f"/nodes/{watch(lab, state, verdict)}")
    assert said in text_of(page)
    assert "Policy node: delete after 30 min, grace 10 min" in text_of(page)


def test_the_course_of_a_node_that_is_to_be_deleted_says_that_it_is_an_old_one(
    lab: Lab, caller: TestClient
) -> None:
    working = IdleVerdict(Level.ACTIVE, "a heartbeat says so")
    node_id = watch(lab, State.ACTIVE, working)
    assert "Not checked since" not in text_of(caller.get(f"/nodes/{node_id}"))
    lab.services.nodes.delete(node_id)
    said = "Not checked since its deletion was requested. Before that: The node works."
    assert said in text_of(caller.get(f"/nodes/{node_id}"))


def test_the_course_says_what_blocks_and_waits(lab: Lab, caller: TestClient) -> None:
    blocked = replace(QUIET, blockers=(Blocker.SESSION,), lacking=("duty cycle of worker 1",))
    node_id = watch(lab, State.NOTIFIED, blocked)
    lab.services.keeps.keep_node(node_id, KeepOrder("demo", for_seconds=3_600))
    with lab.units() as unit:
        row = unit.cleanups.get("lab")
        unit.cleanups.save(
            replace(row, waiting=(Waiting(node_id, Rail.HOUR, 1, NOON + 900, NOON - 60),))
        )
    said = text_of(caller.get(f"/nodes/{node_id}"))
    assert "Blocked by session, keep" in said
    assert "Kept until 2026-11-05 13:00:00 UTC" in said
    assert "Lacking duty cycle of worker 1" in said
    assert "Waits the hourly limit is reached since 2026-11-05 11:59:00 UTC" in said


def test_reports_and_reasons_from_workers_stay_text(lab: Lab, caller: TestClient) -> None:
    unknown = IdleVerdict(Level.UNKNOWN, f"{HOSTILE}\u202e")
    page = caller.get(f"/nodes/{watch(lab, State.UNKNOWN, unknown)}")
    assert "<img" not in page.text
    assert "\u202e" not in page.text
    assert "1 SSH session" in text_of(page)


def test_a_node_that_no_check_has_covered_has_neither_section(lab: Lab, caller: TestClient) -> None:
    html = caller.get(f"/nodes/{lab.ran(NOON - HOUR).id}").text
    assert "signals-heading" not in html
    assert "course-heading" not in html


@pytest.mark.parametrize(
    ("changes", "coming"),
    [
        ({"ttl_seconds": 600}, ["The time to live ends: the node will be deleted."]),
        (
            {"ends_after_keep": "job 7 is SUCCEEDED", "kept_until": NOON + HOUR},
            ["The keep ends.", "The job has ended: the node will be deleted."],
        ),
        (
            {"provisioning_model": ProvisioningModel.FLEX_START, "ttl_seconds": 600},
            ["Google ends the flex-start node."],
        ),
        ({"team": "audio"}, ["The budget 'of <audio>' is exceeded: the node will be deleted."]),
        ({"ttl_seconds": 600, "labels": {"keep-until": "soon"}}, []),
        ({"ttl_seconds": 600, "asked": Asked.ABSENT, "delete_requested_at": NOON - 9}, []),
    ],
)
def test_each_end_that_is_to_come_has_its_own_cause(
    lab: Lab, caller: TestClient, changes: dict[str, Any], coming: list[str]
) -> None:
    node = lab.ran(NOON - HOUR, created_at=NOON, **changes)
    scope = Scope(team="audio")
    made = factories.budget(name="of <audio>", scope=scope, on_exceeded=OnExceeded.DELETE)
    budget = lab.services.budgets.create(made).shown.budget
    window = budget.window_at(lab.clock.now)
    assert window is not None
    with lab.units() as unit:
        unit.alerts.save(budget.id, Alert(EXCEEDED, window.start, fired_at=lab.clock.now))
    html = caller.get(f"/nodes/{node.id}").text
    found = re.findall(r'<li class="coming".*?</li>', html, re.DOTALL)
    texts = [" ".join(unescape(re.sub(r"<[^>]*>", " ", entry)).split()) for entry in found]
    assert [text.partition(" 2026-")[0] for text in texts] == [f"Next {text}" for text in coming]


def test_what_is_due_stands_first_in_the_timeline(lab: Lab, caller: TestClient) -> None:
    said = text_of(caller.get(f"/nodes/{watch(lab, State.NOTIFIED)}"))
    assert "Next The node will be deleted for idleness. 2026-11-05 12:09:00 UTC, in 9 min" in said
