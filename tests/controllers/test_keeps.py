"""A keep and a pause hold a time to live back; once a keep ends its owner is told first."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.nodes.nodes import NodeChange
from service.domain.clock import DAY, HOUR
from service.domain.idle.policy import Policy, Recipient, Rule
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.keep import LABEL, TTL_HELD
from service.domain.nodes.node import Asked, NodeState
from service.domain.notifications.notification import About
from service.store.nodes import Nodes
from service.store.pricebook import PriceBookCache
from tests.hands import NOON

KEEP = KeepOrder("a demo", for_seconds=4 * HOUR)
OVER = "its time to live has expired"


@pytest.fixture
def keeps(lab):
    return KeepService(lab.units, PriceBookCache(), lab.clock)


def told(lab, node):
    with lab.units.reading() as unit:
        return [
            (notification.recipient, json.loads(notification.body))
            for notification in unit.notifications.list_newest(node.id, 100, About.NODE)
        ]


def test_a_kept_node_outlives_its_time_to_live_and_goes_after_a_notice(lab, keeps):
    mail = Recipient(emails=("vision@example.com",))
    with lab.units() as unit:
        unit.idle_policies.save(Policy("team:vision", Rule(grace_seconds=600), (mail,)))
    node = lab.up(ttl_seconds=HOUR, team="vision", owner="ada@example.com")
    keeps.keep_node(node.id, KEEP)
    lab.tick(2 * HOUR)
    held = lab.node(node)
    assert (held.asked, held.ends_after_keep) == ("present", TTL_HELD)
    assert held.next_try_at == held.kept_until
    assert f"deletion waits: {OVER}; it is kept until" in lab.story(node)
    lab.tick(HOUR)
    assert lab.story(node).count("deletion waits") == 1
    assert told(lab, node) == []
    lab.clock.pass_(held.kept_until - lab.clock())
    lab.tick(0)
    on_notice = lab.node(node)
    assert (on_notice.asked, on_notice.kept_until) == ("present", held.kept_until + 600)
    messages = told(lab, node)
    assert {to.emails for to, _ in messages} == {("vision@example.com",), ("ada@example.com",)}
    assert {body["kind"] for _, body in messages} == {"node.ttl"}
    assert messages[0][1]["hourly_cost"] == "9.600000000"
    lab.tick(599)
    assert lab.node(node).asked == "present"
    lab.tick(1)
    assert (lab.node(node).asked, lab.node(node).delete_reason) == ("absent", OVER)
    assert len(told(lab, node)) == 2, "it was told once"


def test_the_notice_is_as_long_as_ever_after_all_daemons_were_away(lab, keeps):
    node = lab.up(ttl_seconds=HOUR)
    keeps.keep_node(node.id, KEEP)
    lab.clock.pass_(2 * DAY)
    lab.start_daemon("second")
    lab.tick(0)
    notice_until = lab.node(node).kept_until
    assert notice_until == lab.clock() + 900
    lab.start_daemon("third")
    lab.tick(899)
    assert (lab.node(node).asked, lab.node(node).kept_until) == ("present", notice_until)
    lab.tick(1)
    assert lab.node(node).asked == "absent"


def test_a_keep_that_is_over_before_the_time_to_live_changes_nothing(lab, keeps):
    node = lab.up(ttl_seconds=HOUR)
    keeps.keep_node(node.id, KeepOrder("lunch", for_seconds=60))
    lab.clock.pass_(lab.node(node).deletes_at - lab.clock())
    lab.tick(0)
    assert (lab.node(node).asked, lab.node(node).delete_reason) == ("absent", OVER)


def test_to_end_the_keep_begins_the_notice(lab, keeps):
    node = lab.up(ttl_seconds=60)
    keeps.keep_node(node.id, KEEP)
    lab.tick(HOUR)
    keeps.end_keep(node.id)
    lab.tick(0)
    assert lab.node(node).kept_until == lab.clock() + 900
    lab.tick(900)
    assert lab.node(node).asked == "absent"


def test_a_label_that_cannot_be_read_protects_until_it_is_gone(lab):
    node = lab.up(ttl_seconds=60, labels={LABEL: "soon"})
    lab.tick(DAY)
    assert lab.node(node).asked == "present"
    lab.nodes.update(node.id, NodeChange(Reattribution(labels={LABEL: None})))
    lab.tick(60)
    assert lab.node(node).kept_until == lab.clock() + 900


def test_a_pause_holds_a_time_to_live_back_and_needs_no_notice_after(lab):
    node = lab.up(ttl_seconds=60)
    with lab.units() as unit:
        row = unit.cleanups.get("lab").with_pause(lab.clock(), "ada", "a demo")
        unit.cleanups.save(row)
    for _ in range(3):
        lab.tick(60)
        assert lab.node(node).asked == "present"
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").without_pause())
    lab.tick(60)
    assert (lab.node(node).asked, lab.node(node).delete_reason) == ("absent", OVER)
    assert told(lab, node) == []


@pytest.mark.concurrent
@pytest.mark.deep
def test_a_pause_is_answered_after_an_end_by_the_clock_that_began_before(lab, monkeypatch):
    node = lab.up(ttl_seconds=60)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab"))
    cleanup = CleanupService(lab.units, PriceBookCache(), lab.clock, ["lab"], IdleMode())
    paused: list[Future[object]] = []
    save = Nodes.save

    def meanwhile(nodes, after):
        if after.asked is Asked.ABSENT and not paused:
            paused.append(pool.submit(cleanup.pause, "lab", "ada", "a demo"))
            assert not wait(paused, timeout=1).done, "it waits for the end to be committed"
        return save(nodes, after)

    monkeypatch.setattr(Nodes, "save", meanwhile)
    with ThreadPoolExecutor(1) as pool:
        lab.tick(60)
        [one] = paused
        one.result()
    assert lab.node(node).delete_reason == OVER


def test_neither_keep_nor_pause_has_a_node_wait_that_was_never_ready(lab, keeps):
    node = lab.ask(max_wait_seconds=60)
    keeps.keep_node(node.id, KEEP)
    with lab.units() as unit:
        unit.cleanups.save(unit.cleanups.get("lab").with_pause(NOON, "ada", "a demo"))
    lab.tick()
    lab.tick(60)
    assert lab.node(node).delete_reason == "it was not READY within 60 seconds"


def test_a_person_deletes_a_kept_node_at_once(lab, keeps):
    node = lab.up(ttl_seconds=60)
    keeps.keep_node(node.id, KEEP)
    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETING
