"""What is in the cloud and not in our books is shown; what is proved to be our garbage goes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine
from structlog.testing import capture_logs

from service.application.orphans import Adopter, OrphanService
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation
from service.controllers.orphans.orphans import OrphanController
from service.controllers.orphans.queue_models import QUESTIONS, QUIET_SECONDS
from service.domain.clock import HOUR, to_rfc3339
from service.domain.errors import CloudUnavailable, LeaseLost, RateLimited
from service.domain.ids import new_id
from service.domain.lifecycle.in_flight import IN_FLIGHT_SECONDS
from service.domain.nodes.node import CloudNode, Node, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL
from service.domain.nodes.queued_resource import QueuedResource, QueueState
from service.domain.orphans.fleet_watch import WINDOW_SECONDS
from service.domain.orphans.orphan import Orphan, OrphanKind, OrphanVerdict, orphan_id
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories, garbage
from tests.controllers.conftest import Lab
from tests.factories import PROJECT, ZONE
from tests.fakes import FakeCloud, Killed, OutsideTransactions
from tests.hands import HandClock

PERIOD = 15


class Yard(Lab):
    """A laboratory whose daemons also mind the garbage."""

    def start_daemon(self, holder: str) -> None:
        super().start_daemon(holder)
        outside: Any = OutsideTransactions(self.cloud, self.engine)
        shared = self.units, outside, PriceBookCache(), self.clock
        self.garbage = OrphanController(*shared, Installation(install="test", period=PERIOD))
        self.inventory = InventoryController(*shared, onlookers=(self.garbage,))
        self.orphans = OrphanService(self.units, PriceBookCache(), self.clock, [PROJECT])

    def look(self, seconds: int = PERIOD) -> None:
        """Time passes, the cloud is looked at, and the garbage is minded."""
        self.clock.pass_(seconds)
        self.inventory.tick(self.lease)
        self.garbage.tick(self.lease)

    def watch(self, seconds: int = WINDOW_SECONDS + 4 * PERIOD) -> None:
        """The same over and over."""
        for _ in range(seconds // PERIOD):
            self.look()

    def there(self, cloud_id: str = "somebodys", **changes: Any) -> str:
        """Something is in the cloud; answers its full name."""
        changes = {"created_at": self.clock(), "labels": {}} | changes
        node = garbage.cloud_node(cloud_id, **changes)
        self.cloud.nodes[node.place.path] = node
        return node.place.path

    def late(self, node: Node, state: str = NodeState.READY, uid: str = "9001") -> str:
        """The create of a node that has ended takes effect after all."""
        labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
        return self.there(node.cloud_id, state=state, labels=labels, uid=uid)

    def over(self) -> Node:
        """A node whose create was never answered, that was deleted, and is verified gone."""
        self.cloud.fail("create", CloudUnavailable("no answer"))
        node = self.ask()
        self.tick()
        self.nodes.delete(node.id)
        self.tick(IN_FLIGHT_SECONDS)
        assert self.node(node).state == NodeState.DELETED
        self.cloud.calls.clear()
        return self.node(node)

    def been_up(self, *, vanished: bool = False) -> Node:
        """A node that was seen READY, and then deleted, or found to be gone: so it has ended."""
        node = self.up()
        if vanished:
            self.cloud.lose(node.place.path)
        else:
            self.nodes.delete(node.id)
            self.tick()
            self.cloud.settle()
        for _ in range(8):
            self.tick(PERIOD)
        assert self.node(node).state == NodeState.DELETED
        self.cloud.calls.clear()
        return self.node(node)

    def orphan(self, path: str) -> Orphan:
        """It, as it is remembered now."""
        with self.units.reading() as unit:
            return unit.orphans.get(orphan_id(path), [PROJECT])

    def all(self) -> list[Orphan]:
        """Those that are shown."""
        return [orphan.orphan for orphan in self.orphans.list_all()]


@pytest.fixture
def yard(units: Units, engine: Engine, clock: HandClock) -> Yard:
    """A laboratory on an empty database."""
    return Yard(units, engine, clock, FakeCloud(clock))


@pytest.mark.deep
def test_a_stranger_is_shown_with_its_cost_and_is_never_touched(yard: Yard) -> None:
    path = yard.there()
    with capture_logs() as logs:
        yard.look()
    (found,) = [log for log in logs if log["event"] == "orphan.found"]
    assert (found["orphan"], found["kind"]) == (path, "stranger")
    assert found["usd_per_hour"] == "9.600000000"
    yard.watch(2 * 3_600)
    (one,) = yard.orphans.list_all()
    assert (one.orphan.kind, one.orphan.verdict) == (OrphanKind.STRANGER, OrphanVerdict.LEAVE)
    assert one.hourly == 9_600_000_000
    assert yard.cloud.count("delete") == 0
    assert path in yard.cloud.nodes


def test_our_own_nodes_and_queued_resources_are_no_orphans(yard: Yard) -> None:
    yard.up()
    yard.ask(queued=True, name="in-line")
    yard.tick()
    yard.watch()
    assert yard.all() == []


def test_a_create_that_lands_after_its_node_was_called_gone_is_collected(yard: Yard) -> None:
    node = yard.over()
    path = yard.late(node)
    yard.look()
    assert yard.orphan(path).certain
    yard.watch()
    assert yard.cloud.count("delete") == 1
    assert yard.cloud.nodes[path].state == NodeState.DELETING
    yard.cloud.settle()
    yard.watch(60)
    assert yard.orphan(path).gone_at is not None
    assert yard.all() == []
    assert f"deleting {path} (ours_without_record)" in yard.story(node)
    assert "it costs $9.60 an hour" in yard.story(node)


@pytest.mark.deep
@pytest.mark.parametrize("state", [NodeState.READY, NodeState.PREEMPTED])
def test_another_incarnation_under_copied_labels_is_only_shown(yard: Yard, state: str) -> None:
    """The record was of a node with another id of Google's, so this one was made by somebody."""
    path = yard.late(yard.been_up(), state)
    yard.watch(3 * 3_600)
    one = yard.orphan(path)
    assert (one.kind, one.verdict) == (OrphanKind.OURS, OrphanVerdict.LEAVE)
    assert "Google's id is not that of the recorded resource" in one.reason
    assert yard.cloud.count("delete") == 0
    yard.orphans.delete(one.id)
    yard.watch(60)
    assert yard.cloud.nodes[path].state == NodeState.DELETING


def test_the_very_node_that_was_deleted_and_is_there_again_is_collected(yard: Yard) -> None:
    node = yard.been_up()
    path = yard.late(node, uid=node.cloud_uid)
    yard.watch()
    assert yard.cloud.nodes[path].state == NodeState.DELETING


def test_a_create_that_was_sent_twice_may_land_under_another_uid(yard: Yard) -> None:
    yard.cloud.fail("create", CloudUnavailable("no answer"))
    node = yard.ask()
    yard.tick()
    for _ in range(3):
        yard.tick(10)
    assert yard.cloud.count("create") == 2
    yard.cloud.come_up()
    yard.tick(10)
    yard.nodes.delete(node.id)
    yard.tick()
    yard.cloud.settle()
    yard.tick(IN_FLIGHT_SECONDS)
    node = yard.node(node)
    assert (node.state, bool(node.cloud_uid)) == (NodeState.DELETED, True)
    path = yard.late(node)
    yard.watch()
    assert yard.cloud.nodes[path].state == NodeState.DELETING


@pytest.mark.deep
def test_what_was_called_gone_and_is_there_again_is_never_collected(yard: Yard) -> None:
    """Whoever is at work on it was told that it is gone, which was an error of ours."""
    node = yard.been_up(vanished=True)
    path = yard.late(node, uid=node.cloud_uid)
    with capture_logs() as logs:
        yard.watch(3 * 3_600)
    one = yard.orphan(path)
    assert f"recorded as gone at {to_rfc3339(node.ended_at or 0)} and is listed again" in one.reason
    assert one.verdict is OrphanVerdict.LEAVE
    assert yard.cloud.count("delete") == 0
    (found,) = [log for log in logs if log["event"] == "orphan.found"]
    assert found["usd_per_hour"] == "9.600000000"
    adopted = yard.orphans.adopt(one.id, Adopter())
    yard.watch(60)
    assert yard.node(adopted).state == NodeState.READY
    assert yard.all() == []


def test_what_was_called_gone_and_has_lost_its_hardware_is_collected(yard: Yard) -> None:
    node = yard.been_up(vanished=True)
    path = yard.late(node, NodeState.PREEMPTED, node.cloud_uid)
    yard.watch()
    assert yard.cloud.nodes[path].state == NodeState.DELETING


def test_it_is_not_collected_a_second_before_its_time(yard: Yard) -> None:
    path = yard.late(yard.over())
    yard.look()
    first = yard.orphan(path).first_seen
    while yard.clock() + PERIOD <= first + WINDOW_SECONDS:
        yard.look()
        assert yard.cloud.count("delete") == 0
    yard.watch(60)
    assert yard.cloud.count("delete") == 1


def test_a_node_that_was_taken_away_is_collected_as_a_leftover(yard: Yard) -> None:
    path = yard.late(yard.over(), NodeState.PREEMPTED)
    yard.look()
    assert yard.orphan(path).kind is OrphanKind.LEFTOVER
    yard.watch()
    assert yard.cloud.nodes[path].state == NodeState.DELETING


@pytest.mark.deep
def test_after_the_books_were_brought_back_from_a_copy_nothing_is_deleted(yard: Yard) -> None:
    """Nodes that were made since bear our label and an id that the old books never gave out."""
    labels = {LABEL_ID: new_id(), LABEL_INSTALL: "test"}
    running = yard.there("made-since", labels=labels)
    lost = yard.there("lost-since", labels=labels, state=NodeState.PREEMPTED)
    yard.watch(3 * 3_600)
    assert {orphan.kind for orphan in yard.all()} == {OrphanKind.OURS}
    assert {orphan.reason.rpartition("; ")[2] for orphan in yard.all()} == {
        "adopt it, or delete it",
        "delete it when nobody needs it",
    }
    assert yard.cloud.count("delete") == 0
    assert {running, lost} == set(yard.cloud.nodes)


@pytest.mark.deep
def test_a_node_under_the_label_of_another_record_is_left_alone(yard: Yard) -> None:
    """Somebody has copied our labels onto a node of their own, under a name that we never gave."""
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    path = yard.there("copied", labels=labels)
    yard.watch(2 * 3_600)
    assert yard.orphan(path).verdict is OrphanVerdict.LEAVE
    assert yard.cloud.count("delete") == 0


@pytest.mark.deep
def test_another_installation_reaps_nothing_of_ours(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "another"}
    path = yard.there(node.cloud_id, labels=labels, state=NodeState.PREEMPTED)
    yard.watch(2 * 3_600)
    assert yard.orphan(path).kind is OrphanKind.STRANGER
    assert yard.cloud.count("delete") == 0


def test_a_queued_resource_that_its_record_left_behind_is_collected(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    entry = garbage.ticket(node.cloud_id, state=QueueState.SUSPENDED, labels=labels)
    yard.cloud.queues[entry.path] = entry
    yard.look()
    assert yard.orphan(entry.path).kind is OrphanKind.ZOMBIE
    yard.watch()
    assert ("dequeue", entry.path) in yard.cloud.calls
    yard.cloud.clear()
    yard.watch(60)
    assert yard.orphan(entry.path).gone_at is not None


def test_a_queue_that_does_not_answer_for_a_zone_holds_what_waits_there(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    entry = garbage.ticket(node.cloud_id, state=QueueState.SUSPENDED, labels=labels)
    yard.cloud.queues[entry.path] = entry
    yard.watch(60)
    cloud: Any = yard.cloud
    whole, silent = cloud.queue, garbage.queue(unreachable=frozenset({ZONE}))
    cloud.queue = lambda _project: silent
    yard.cloud.calls.clear()
    yard.watch(2 * WINDOW_SECONDS)
    assert yard.cloud.count("dequeue") == yard.cloud.count("queued") == 0
    assert yard.orphan(entry.path).gone_at is None, "absence says nothing"
    cloud.queue = whole
    yard.watch(60)
    assert yard.cloud.count("dequeue") == 1


def test_an_active_queued_resource_that_lost_its_nodes_is_forced_out(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    entry = garbage.ticket(node.cloud_id, state=QueueState.ACTIVE, labels=labels)
    yard.cloud.queues[entry.path] = entry
    yard.watch()
    assert yard.cloud.queues[entry.path].state == QueueState.DELETING


def test_a_queued_resource_with_a_node_at_work_is_not_forced(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    entry = garbage.ticket(node.cloud_id, state=QueueState.ACTIVE, labels=labels, nodes=("w",))
    yard.cloud.queues[entry.path] = entry
    yard.there("w", labels=labels)
    yard.watch()
    yard.look()
    assert yard.cloud.count("dequeue") == 0
    assert "delete that node first" in yard.orphan(entry.path).last_error


@pytest.mark.deep
@pytest.mark.parametrize("after", [False, True])
def test_killed_around_the_delete_it_is_deleted_all_the_same(yard: Yard, *, after: bool) -> None:
    path = yard.late(yard.over())
    yard.cloud.fail("delete", Killed(), after=after)
    with pytest.raises(Killed):
        yard.watch()
    yard.start_daemon("second")
    yard.watch(2 * WINDOW_SECONDS)
    if after:
        assert yard.cloud.count("delete") == 1, "it was DELETING when it was looked at again"
    yard.cloud.settle()
    yard.watch(600)
    assert path not in yard.cloud.nodes
    assert yard.orphan(path).gone_at is not None


@pytest.mark.deep
def test_whoever_takes_over_watches_before_it_deletes(yard: Yard) -> None:
    yard.late(yard.over())
    yard.watch(WINDOW_SECONDS - 60)
    yard.start_daemon("second")
    yard.watch(WINDOW_SECONDS)
    assert yard.cloud.count("delete") == 0
    yard.watch(60)
    assert yard.cloud.count("delete") == 1


def test_a_clock_that_is_set_an_hour_forward_makes_nothing_old(yard: Yard) -> None:
    yard.late(yard.over())
    yard.watch(60)
    yard.look(3_600)
    yard.look()
    assert yard.cloud.count("delete") == 0


def change(yard: Yard, path: str, **changes: Any) -> None:
    yard.cloud.nodes[path] = replace(yard.cloud.nodes[path], **changes)


def claimed_now(yard: Yard, meanwhile: Any) -> str:
    """An orphan that changes after it was chosen, before it is looked at by name."""
    path = yard.late(yard.over())
    real = yard.cloud.get

    def get(place: Place) -> CloudNode:
        meanwhile(path)
        return real(place)

    yard.cloud.get = get  # type: ignore[method-assign]
    yard.watch()
    return path


def test_another_incarnation_under_the_same_name_is_spared(yard: Yard) -> None:
    path = claimed_now(yard, lambda path: change(yard, path, uid="9002"))
    assert yard.cloud.count("delete") == 0
    assert not yard.orphan(path).to_be_deleted


def test_a_label_that_was_taken_off_meanwhile_is_respected(yard: Yard) -> None:
    path = claimed_now(yard, lambda path: change(yard, path, labels={"owner": "ada"}))
    assert yard.cloud.count("delete") == 0
    yard.look()
    assert yard.orphan(path).kind is OrphanKind.STRANGER


def test_a_get_that_fails_deletes_nothing_and_is_tried_again(yard: Yard) -> None:
    path = yard.late(yard.over())
    for _ in range(3):
        yard.cloud.fail("get", CloudUnavailable("no answer"))
    yard.watch(WINDOW_SECONDS + 2 * PERIOD)
    assert yard.cloud.count("delete") == 0
    assert yard.orphan(path).last_error == "no answer"
    yard.watch(120)
    assert yard.cloud.count("delete") == 1


@pytest.mark.deep
def test_a_delete_that_fails_is_tried_for_ever_ever_later(yard: Yard) -> None:
    path = yard.late(yard.over())
    for _ in range(12):
        yard.cloud.fail("delete", RateLimited("slow down"))
    yard.watch(WINDOW_SECONDS + 600)
    some = yard.cloud.count("delete")
    assert 4 <= some <= 8
    assert yard.orphan(path).last_error == "slow down"
    yard.watch(3_600)
    assert yard.cloud.nodes[path].state == NodeState.DELETING


def test_a_zone_that_does_not_answer_holds_what_is_in_it(yard: Yard) -> None:
    path = yard.late(yard.over())
    yard.watch(60)
    yard.cloud.unreachable = frozenset({ZONE})
    yard.cloud.calls.clear()
    yard.watch(2 * WINDOW_SECONDS)
    assert {verb for verb, _ in yard.cloud.calls} == {"inventory", "queue"}
    one = yard.orphan(path)
    assert (one.gone_at, one.next_try_at) == (None, None), "absence says nothing"
    assert one.reason == "its zone did not answer the last poll"
    yard.cloud.unreachable = frozenset()
    yard.watch(60)
    assert yard.cloud.count("delete") == 1


def test_a_queued_resource_whose_nodes_cannot_be_listed_is_no_zombie(yard: Yard) -> None:
    node = yard.over()
    labels = {LABEL_ID: node.id, LABEL_INSTALL: "test"}
    entry = garbage.ticket(node.cloud_id, state=QueueState.ACTIVE, labels=labels, nodes=("w",))
    cloud: Any = yard.cloud
    cloud.queue = lambda _project: garbage.queue(entry)
    cloud.queues[entry.path] = entry
    yard.there("w", labels=labels)
    cloud.unreachable = frozenset({ZONE})
    yard.watch()
    assert yard.orphan(entry.path).kind is OrphanKind.OURS
    cloud.unreachable = frozenset()
    cloud.lose(garbage.cloud_node("w").place.path)
    yard.look()
    assert yard.orphan(entry.path).kind is OrphanKind.ZOMBIE


def frozen(logs: list[Any]) -> list[tuple[str, int, int]]:
    """Each freeze in the log: level, nodes before it, orphans that it holds back."""
    told = [log for log in logs if log["event"] == "orphans.frozen"]
    return [(record["log_level"], record["nodes_before"], record["held"]) for record in told]


def test_a_freeze_that_holds_no_orphan_back_is_no_warning(yard: Yard) -> None:
    path = yard.there()
    yard.watch(60)
    with capture_logs() as logs:
        del yard.cloud.nodes[path]
        yard.watch(60)
    assert frozen(logs) == [("info", 1, 0)]


@pytest.mark.deep
def test_a_list_that_is_suddenly_empty_collects_nothing_and_calls_nothing_gone(yard: Yard) -> None:
    yard.late(yard.over())
    stranger = yard.there()
    yard.watch(WINDOW_SECONDS - 60)
    whole = set(yard.cloud.nodes)
    cloud: Any = yard.cloud
    real = cloud.inventory
    empty = garbage.inventory()
    cloud.inventory = lambda _project: empty
    with capture_logs() as logs:
        yard.watch(600)
    assert frozen(logs) == [("warning", 2, 1)]
    assert yard.cloud.count("delete") == 0
    assert len(yard.all()) == 2
    cloud.inventory = real
    yard.look()
    assert set(yard.cloud.nodes) == whole
    assert yard.orphan(stranger).gone_at is None


@pytest.mark.deep
def test_half_a_fleet_that_goes_missing_stops_the_collecting(yard: Yard) -> None:
    path = yard.late(yard.over())
    for number in range(10):
        yard.there(f"s-{number}")
    yard.watch(WINDOW_SECONDS - 60)
    for number in range(8):
        yard.cloud.lose(Place(PROJECT, ZONE, f"s-{number}").path)
    assert not yard.garbage.is_shrunk(yard.lease)
    yard.watch(300)
    assert "half of the project's nodes or more went missing" in yard.orphan(path).reason
    assert yard.garbage.is_shrunk(yard.lease)
    assert not yard.garbage.is_shrunk(replace(yard.lease, epoch=yard.lease.epoch + 1))
    assert yard.cloud.count("delete") == 0
    yard.watch(WINDOW_SECONDS)
    assert not yard.garbage.is_shrunk(yard.lease)
    assert yard.cloud.count("delete") == 1


def test_what_somebody_deletes_elsewhere_is_gone_only_when_get_says_so(yard: Yard) -> None:
    path = yard.there()
    yard.there("another")
    yard.watch(60)
    yard.cloud.lose(path)
    yard.cloud.fail("get", CloudUnavailable("no answer"))
    yard.look()
    assert yard.orphan(path).gone_at is None
    yard.watch(60)
    assert yard.orphan(path).gone_at is not None
    assert ("get", path) in yard.cloud.calls


def test_a_list_from_before_it_was_gone_does_not_bring_it_back(yard: Yard) -> None:
    path = yard.there()
    yard.there("another")
    yard.watch(60)
    asked, late = yard.clock(), garbage.inventory(*yard.cloud.nodes.values())
    yard.cloud.lose(path)
    yard.look(0)
    yard.garbage.tick(yard.lease)
    gone_at = yard.orphan(path).gone_at
    assert gone_at is not None
    yard.garbage.on_inventory(late, garbage.queue(), yard.lease, asked)
    assert yard.orphan(path).gone_at == gone_at


def test_what_comes_back_under_the_same_name_is_a_new_one(yard: Yard) -> None:
    path = yard.there()
    yard.there("another")
    yard.watch(60)
    yard.cloud.lose(path)
    yard.watch(60)
    yard.there(uid="9009")
    yard.look()
    one = yard.orphan(path)
    assert (one.gone_at, one.first_seen, one.shown.uid) == (None, yard.clock(), "9009")


@pytest.mark.deep
def test_one_at_a_time_goes_from_a_small_fleet(yard: Yard) -> None:
    for node in [yard.over() for _ in range(3)]:
        yard.late(node)
    yard.look()
    counts, chosen = [], []
    for _ in range(WINDOW_SECONDS // PERIOD + 8):
        yard.look()
        counts.append(yard.cloud.count("delete"))
        chosen.append(sum(orphan.is_automatic for orphan in yard.all()))
    assert counts[-1] == 3
    assert all(after - before <= 1 for before, after in itertools.pairwise(counts))
    assert all(after - before <= 1 for before, after in itertools.pairwise(chosen))


def test_those_that_are_tried_again_at_once_go_one_at_a_time_too(yard: Yard) -> None:
    paths = [yard.late(node) for node in [yard.over() for _ in range(3)]]
    for _ in paths:
        yard.cloud.fail("delete", CloudUnavailable("no answer"))
    yard.watch()
    with yard.units() as unit:
        for path in paths:
            one = unit.orphans.get(orphan_id(path), [PROJECT])
            unit.orphans.save(replace(one, next_try_at=yard.clock()))
    before = yard.cloud.count("delete")
    yard.garbage.tick(yard.lease)
    assert yard.cloud.count("delete") == before + 1


def test_a_choice_that_is_taken_back_meanwhile_is_not_acted_on(yard: Yard) -> None:
    def take_back(path: str) -> None:
        with yard.units() as unit:
            one = unit.orphans.get(orphan_id(path), [PROJECT])
            unit.orphans.save(replace(one, wanted="", asked_by="", next_try_at=None))

    claimed_now(yard, take_back)
    assert yard.cloud.count("delete") == 0


def test_a_stranger_goes_when_somebody_repeats_its_name(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    yard.orphans.delete(orphan_id(path), confirm=path)
    yard.garbage.tick(yard.lease)
    assert yard.cloud.nodes[path].state == NodeState.DELETING
    yard.cloud.settle()
    yard.watch(120)
    assert yard.orphan(path).gone_at is not None
    assert yard.cloud.count("delete") == 1


def test_a_request_for_one_incarnation_is_no_request_for_the_next(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    yard.orphans.delete(orphan_id(path), confirm=path)
    change(yard, path, uid="9002")
    yard.garbage.tick(yard.lease)
    assert yard.cloud.count("delete") == 0
    assert "check it again" in yard.orphan(path).last_error
    yard.watch(60)
    assert not yard.orphan(path).to_be_deleted


def test_a_daemon_that_lost_its_lease_deletes_nothing(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    yard.orphans.delete(orphan_id(path), confirm=path)
    first, lease = yard.garbage, yard.lease
    yard.start_daemon("second")
    with pytest.raises(LeaseLost):
        first.tick(lease)
    assert yard.cloud.count("delete") == 0


def test_an_adopted_node_is_charged_from_then_on_and_lives_like_any_other(yard: Yard) -> None:
    path = yard.there("somebodys", created_at=yard.clock() - 86_400)
    yard.look()
    node = yard.orphans.adopt(orphan_id(path), Adopter("mine", "ada", "vision"))
    yard.tick()
    for _ in range(4):
        yard.tick(900)
    assert yard.all() == []
    assert yard.node(node).state == NodeState.READY
    assert yard.cost(node) == 8 * 1_200_000_000 * (yard.clock() - node.created_at) // 3_600
    assert yard.posted(node) > 0
    yard.nodes.delete(node.id)
    yard.tick()
    assert yard.cloud.nodes[path].state == NodeState.DELETING
    yard.cloud.settle()
    yard.tick(60)
    ended = yard.node(node)
    assert (ended.state, ended.name, ended.owner) == (NodeState.DELETED, "mine", "ada")
    assert yard.cost(node) == yard.posted(node)
    yard.watch(60)
    assert yard.all() == []


def test_an_adopted_node_that_vanishes_is_not_made_anew(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    node = yard.orphans.adopt(orphan_id(path), Adopter())
    yard.cloud.lose(path)
    yard.tick()
    yard.tick(60)
    assert yard.node(node).state == NodeState.DELETED
    assert "deleted outside this service" in yard.node(node).delete_reason
    assert yard.cloud.count("create") == 0


def test_another_incarnation_of_an_adopted_node_is_nobodys(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    node = yard.orphans.adopt(orphan_id(path), Adopter())
    change(yard, path, uid="9002")
    yard.tick()
    yard.tick(60)
    assert yard.node(node).state == NodeState.DELETED
    yard.look()
    assert yard.orphan(path).kind is OrphanKind.STRANGER
    assert yard.cloud.count("delete") == 0


def test_an_adopted_spot_node_that_is_preempted_is_deleted_and_not_made_anew(yard: Yard) -> None:
    path = yard.there()
    yard.look()
    node = yard.orphans.adopt(orphan_id(path), Adopter())
    yard.tick()
    yard.cloud.become(NodeState.PREEMPTED, path)
    yard.tick(15)
    yard.cloud.settle()
    yard.tick(60)
    assert yard.node(node).state == NodeState.DELETED
    assert yard.cloud.count("create") == 0


def statements(engine: Engine) -> list[str]:
    from sqlalchemy import event  # noqa: PLC0415 - for this one test

    heard: list[str] = []
    event.listen(
        engine, "before_cursor_execute", lambda *args: heard.append(args[2].split(None, 1)[0])
    )
    return heard


@pytest.mark.deep
def test_ten_thousand_that_do_not_change_cost_one_count_a_look(yard: Yard) -> None:
    strangers = [garbage.cloud_node(f"s-{n}", labels={}) for n in range(2_000)]
    look = garbage.inventory(*strangers)
    for _ in range(3):
        yard.garbage.on_inventory(look, garbage.queue(), yard.lease, yard.clock.pass_(PERIOD))
    assert len(yard.all()) == 2_000
    heard = statements(yard.engine)
    yard.garbage.on_inventory(look, garbage.queue(), yard.lease, yard.clock.pass_(PERIOD))
    assert [record for record in heard if record not in ("BEGIN", "ROLLBACK")] == ["SELECT"]


def test_what_has_no_name_of_a_node_is_passed_over(yard: Yard) -> None:
    good = garbage.cloud_node("fine", labels={})
    sighting = garbage.inventory(good).sightings()[good.place.path]
    names = ["", "nonsense", "projects/lab/locations/z/nodes/a/b", "projects/other/locations/z/n"]
    names += ["projects/other/locations/us-west4-a/nodes/x", good.place.path + "\0"]
    shown = dict.fromkeys([*names, good.place.path], sighting)
    look = replace(garbage.inventory(good), sightings=lambda: shown)
    yard.garbage.on_inventory(look, garbage.queue(), yard.lease, yard.clock())
    assert [orphan.shown.path for orphan in yard.all()] == [good.place.path]


def test_a_record_that_appears_takes_the_orphan_away(yard: Yard) -> None:
    path = yard.there("ours", labels={LABEL_ID: "x", LABEL_INSTALL: "test"})
    yard.look()
    assert len(yard.all()) == 1
    with yard.units() as unit:
        unit.nodes.add(
            factories.sent(cloud_id="ours", cloud_uid="7001", next_try_at=None, up_since=1)
        )
    yard.look()
    assert yard.all() == []
    assert path in yard.cloud.nodes


# ---- how it is bought


def queue_of(yard: Yard, cloud_id: str = "somebodys", **changes: Any) -> QueuedResource:
    """A queued resource of somebody else is in the cloud; it names no tier."""
    base = QueuedResource(
        place=Place(PROJECT, ZONE, cloud_id),
        state=QueueState.WAITING_FOR_RESOURCES,
        nodes=(cloud_id,),
        accelerator_type="v5litepod-8",
        created_at=yard.clock(),
    )
    entry = replace(base, **changes)
    yard.cloud.queues[entry.path] = entry
    return entry


def test_a_flex_start_node_of_somebody_else_is_priced_as_one(yard: Yard) -> None:
    ticket = queue_of(yard, state=QueueState.ACTIVE)
    yard.cloud.models[ticket.path] = "flex_start"
    path = yard.there("somebodys", queued_resource=ticket.path)
    yard.look()
    seen = {orphan.orphan.shown.path: orphan for orphan in yard.orphans.list_all()}
    assert seen[path].orphan.shown.provisioning_model == "flex_start"
    assert seen[path].hourly == 8 * 600_000_000
    for _ in range(5):
        yard.look()
    yard.there("somebodys", queued_resource=ticket.path, state=NodeState.REPAIRING)
    yard.look()
    assert yard.orphan(path).shown.provisioning_model == "flex_start", "also when it changes"
    assert yard.cloud.count("queue_model") == 1, "it is asked about once"


def test_a_queued_resource_that_waits_shows_what_it_will_cost(yard: Yard) -> None:
    ticket = queue_of(yard, nodes=("a", "b"))
    yard.look()
    (seen,) = yard.orphans.list_all()
    assert (seen.orphan.shown.path, seen.hourly, seen.to_come) == (
        ticket.path,
        None,
        2 * 9_600_000_000,
    )
    queue_of(yard, nodes=("a", "b"), state=QueueState.FAILED)
    yard.look()
    (seen,) = yard.orphans.list_all()
    assert seen.to_come is None


def test_a_question_that_fails_holds_up_no_look_and_is_asked_again_later(yard: Yard) -> None:
    for name in ("a", "b", "c"):
        yard.cloud.models[queue_of(yard, name).path] = "flex_start"
    yard.cloud.fail("queue_model", CloudUnavailable("away"))
    yard.look()
    assert yard.cloud.count("queue_model") == 1, "the others would hang as well"
    assert {orphan.to_come for orphan in yard.orphans.list_all()} == {None}
    yard.look()
    assert yard.cloud.count("queue_model") == 1
    yard.look(QUIET_SECONDS)
    assert yard.cloud.count("queue_model") == 4, "though the lists show the very same"
    models = {
        orphan.orphan.shown.place.cloud_id: orphan.orphan for orphan in yard.orphans.list_all()
    }
    assert {model.shown.provisioning_model for model in models.values()} == {"flex_start"}


def test_a_model_that_the_cloud_does_not_know_is_asked_for_again_an_hour_later(
    yard: Yard,
) -> None:
    ticket = queue_of(yard)
    yard.cloud.models[ticket.path] = ""
    yard.look()
    yard.look()
    assert yard.cloud.count("queue_model") == 1
    yard.cloud.models[ticket.path] = "flex_start"
    queue_of(yard, created_at=ticket.created_at, labels={"run": "17"})
    yard.look(HOUR)
    (seen,) = yard.orphans.list_all()
    assert seen.orphan.shown.provisioning_model == "flex_start"


def test_thousands_of_unknown_models_hold_up_no_look(yard: Yard) -> None:
    for number in range(2 * QUESTIONS + 1):
        queue_of(yard, f"q-{number}")
    yard.look()
    assert yard.cloud.count("queue_model") == QUESTIONS
    yard.look()
    yard.look()
    assert yard.cloud.count("queue_model") == 2 * QUESTIONS + 1
    assert {orphan.orphan.shown.provisioning_model for orphan in yard.orphans.list_all()} == {
        "on_demand"
    }
