"""A create that comes too early is refused for certain: nothing of it is waited for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.cloud.ports import Operation, Order
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import (
    CapacityUnavailable,
    CloudError,
    CloudUnavailable,
    NotAllowed,
    QuotaExceeded,
    RateLimited,
)
from service.domain.lifecycle.in_flight import IN_FLIGHT_SECONDS
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome
from tests.controllers.conftest import Lab
from tests.fakes import FakeCloud, Killed

TOO_EARLY = RateLimited("no more creates for the moment", retry_after=3)
LOST = CloudUnavailable("the line went dead")
STOCK_OUT = CapacityUnavailable("There is no more capacity in the zone")
TWO = {"zone": None, "zones": ("us-west4-a", "us-central1-a")}


def zones_asked(lab: Lab) -> list[str]:
    """The zones of all creates so far, in their order."""
    return [path.split("/")[3] for verb, path in lab.cloud.calls if verb == "create"]


@pytest.mark.parametrize("queued", [False, True])
@pytest.mark.parametrize("error", [QuotaExceeded("no more quota"), NotAllowed("no"), STOCK_OUT])
def test_a_refusal_after_it_leads_to_the_next_zone_at_once(
    lab: Lab, error: CloudError, queued: bool
) -> None:
    for failure in (TOO_EARLY, TOO_EARLY, error):
        lab.cloud.fail("create", failure)
    node = lab.ask(**TWO, queued=queued)
    for _ in range(4):
        lab.tick(5)
    assert zones_asked(lab) == ["us-west4-a"] * 3 + ["us-central1-a"]
    assert len(lab.placements(node)) == 2, "what came too early is no attempt of its own"


def test_it_is_tried_again_when_the_cloud_says(lab: Lab) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    node = lab.ask()
    lab.tick()
    found = lab.node(node)
    assert (found.last_error, found.next_try_at) == (str(TOO_EARLY), lab.clock() + 3)
    lab.tick(3)
    assert lab.node(node).state == NodeState.CREATING
    assert len(lab.cloud.nodes) == 1


@pytest.mark.parametrize("queued", [False, True])
def test_a_node_of_which_nothing_was_accepted_is_gone_at_once(lab: Lab, queued: bool) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    node = lab.ask(queued=queued)
    lab.tick()
    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETED
    assert [placement.outcome for placement in lab.placements(node)] == [Outcome.DELETED]
    assert lab.cloud.count("create") == 1


def test_a_late_stock_out_after_it_leads_to_the_next_zone_at_once(lab: Lab) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    lab.ask(**TWO)
    lab.tick()
    lab.tick()
    lab.cloud.stock_out(STOCK_OUT)
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", "us-west4-a", "us-central1-a"]


def test_what_is_made_after_it_is_made_once_and_known_by_its_uid(lab: Lab) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    node = lab.ask()
    lab.tick()
    lab.tick()
    sent = lab.node(node)
    assert (sent.sent_at, sent.unanswered_at) == (lab.clock(), None)
    lab.cloud.come_up()
    lab.tick()
    uid = lab.node(node).cloud_uid
    lab.nodes.delete(node.id)
    lab.tick()
    lab.cloud.settle()
    lab.tick(60)
    with lab.units.reading() as unit:
        (attempt,) = unit.orphans.list_attempts("lab", [sent.cloud_id])
    assert attempt.uids == (uid,)


def test_an_answer_that_was_lost_before_it_is_still_waited_for(lab: Lab) -> None:
    lab.cloud.fail("create", LOST)
    node = lab.ask(**TWO)
    lab.tick()
    lost = lab.clock()
    lab.cloud.fail("create", TOO_EARLY)
    lab.tick(10)
    found = lab.node(node)
    assert (found.sent_at, found.unanswered_at) == (lost, lost), "of that alone nothing is known"
    lab.nodes.delete(node.id)
    lab.tick(IN_FLIGHT_SECONDS - 10 - 1)
    assert not lab.node(node).has_ended
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_an_answer_that_was_lost_after_it_is_waited_for(lab: Lab) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    node = lab.ask()
    lab.tick()
    lab.cloud.fail("create", LOST, after=True)
    lab.tick()
    found = lab.node(node)
    assert found.sent_at == found.unanswered_at == lab.clock()
    path = lab.cloud.only
    born = lab.cloud.nodes.pop(path)
    lab.nodes.delete(node.id)
    lab.tick(60)
    assert not lab.node(node).has_ended
    lab.cloud.nodes[path] = born
    lab.tick(60)
    assert lab.cloud.count("delete") == 1, "it landed"


def test_two_lost_answers_are_two_creates_whatever_comes_too_early_after_them(lab: Lab) -> None:
    for failure in (LOST, LOST, TOO_EARLY):
        lab.cloud.fail("create", failure)
    node = lab.ask()
    lab.tick()
    lab.tick(10)
    again = lab.clock()
    lab.tick(60)
    found = lab.node(node)
    assert (found.sent_at, found.unanswered_at) == (again - 10, again)


def test_refusals_do_not_make_a_lost_answer_any_younger(lab: Lab) -> None:
    lab.cloud.fail("create", LOST)
    for _ in range(2):
        lab.cloud.fail("create", QuotaExceeded("no more quota"))
    lab.ask(**TWO)
    lab.tick()
    lab.tick(100)
    lab.tick(IN_FLIGHT_SECONDS - 100)
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a"] * 3 + ["us-central1-a"]


def test_killed_before_the_refusal_is_written_it_counts_as_a_lost_answer(lab: Lab) -> None:
    lab.cloud.fail("create", TOO_EARLY)
    node = lab.ask()
    lab.tick()
    lab.cloud.fail("create", Killed())
    with pytest.raises(Killed):
        lab.tick()
    lab.start_daemon("second")
    lab.nodes.delete(node.id)
    lab.tick(IN_FLIGHT_SECONDS - 1)
    assert not lab.node(node).has_ended
    lab.tick(30)
    assert lab.node(node).state == NodeState.DELETED


def test_a_daemon_that_was_held_up_before_it_could_ask_has_sent_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(
        _cloud: FakeCloud, _project: str, _zone: str, _kind: Architecture = Architecture.VM
    ) -> Sequence[str]:
        lab.clock.pass_(61)
        return ()

    monkeypatch.setattr(FakeCloud, "runtime_versions", slow)
    node = lab.ask()
    lab.tick()
    assert "delayed before its request" in lab.node(node).last_error
    assert lab.cloud.count("create") == 0
    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETED


def test_a_deletion_that_is_asked_for_during_the_call_does_not_wait_either(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_cloud: FakeCloud, _order: Order) -> Operation:
        lab.nodes.delete(node.id)
        raise TOO_EARLY

    monkeypatch.setattr(FakeCloud, "create", refused)
    node = lab.ask()
    lab.tick()
    lab.tick()
    assert lab.node(node).state == NodeState.DELETED


def test_what_is_seen_during_the_call_counts_for_more_than_the_refusal(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = FakeCloud.create

    def refused(cloud: FakeCloud, order: Order) -> Operation:
        create(cloud, order)
        lab.inventory.tick(lab.lease)
        raise TOO_EARLY

    monkeypatch.setattr(FakeCloud, "create", refused)
    node = lab.ask()
    lab.tick()
    lab.nodes.delete(node.id)
    lab.tick()
    assert lab.node(node).state == NodeState.DELETING
    assert lab.cloud.count("delete") == 1


def test_a_call_that_was_made_during_it_is_not_forgotten_for_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Order] = []

    def answered(_cloud: FakeCloud, order: Order) -> Operation:
        calls.append(order)
        if len(calls) == 2:
            raise LOST
        lab.lifecycle.tick(lab.lease)
        raise TOO_EARLY

    monkeypatch.setattr(FakeCloud, "create", answered)
    node = lab.ask()
    lab.tick()
    assert lab.node(node).unanswered_at == lab.clock() + 1
