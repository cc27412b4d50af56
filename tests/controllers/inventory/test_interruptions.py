"""Back after hours: what was stopped meanwhile, and runs again, was not running all the time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from service.cloud.ports import Operation
from service.domain.clock import HOUR, to_rfc3339
from service.domain.errors import CloudUnavailable, NotAllowed
from service.domain.money import half_even
from service.domain.nodes.node import Node, NodeState
from tests.controllers.conftest import Lab

RATE = 8 * 1_200_000_000


def away(lab: Lab, *seconds: int, of: Node | None = None) -> list[int]:
    """Nobody looks, while somebody stops the only node, or that one, and starts it again, each
    after so long; answers when it went down and when it came up, by turns."""
    instants: list[int] = []
    place = lab.cloud.nodes[lab.cloud.only].place if of is None else of.place
    for number, wait in enumerate(seconds):
        lab.clock.pass_(wait)
        if number % 2 == 0:
            lab.cloud.stop(place)
            instants.append(lab.clock())
            lab.clock.pass_(40)
            lab.cloud.settle()
        else:
            lab.cloud.start(place)
            lab.clock.pass_(50)
            instants.append(lab.cloud.come_up(place.path))
    return instants


def test_a_stop_and_a_start_while_nobody_looked_are_cut_out_to_the_second(lab: Lab) -> None:
    node = lab.up()
    ready = lab.nodes.get(node.id).up_since or 0
    down, up = away(lab, HOUR, 3 * HOUR)
    lab.tick(HOUR)
    assert lab.node(node).state == NodeState.READY
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    deleted = lab.clock()
    lab.tick(30)
    assert lab.cost(node) == half_even(RATE * (down - ready), HOUR) + half_even(
        RATE * (deleted - up), HOUR
    )
    assert lab.cost(node) == lab.posted(node)
    assert lab.nodes.get_cost(node.id).uncertainty == 0
    said = f"it was down from {to_rfc3339(down)} to {to_rfc3339(up)}, which no poll saw"
    assert said in lab.story(node)


def test_so_is_what_was_stopped_a_second_time_and_is_still(lab: Lab) -> None:
    node = lab.up()
    ready = lab.nodes.get(node.id).up_since or 0
    down, up, again = away(lab, HOUR, HOUR, HOUR)
    lab.clock.pass_(HOUR)
    lab.inventory.tick(lab.lease)
    assert lab.node(node).state == NodeState.STOPPED
    seconds = (down - ready), (again - up)
    assert lab.cost(node) == sum(half_even(RATE * second, HOUR) for second in seconds)
    assert lab.nodes.get_cost(node.id).uncertainty == 0


def test_who_deletes_it_before_the_look_at_all_pays_for_no_more(lab: Lab) -> None:
    """The lifecycle's turn came first: it saw an end, and took all before it for one interval."""
    node = lab.up()
    ready = lab.nodes.get(node.id).up_since or 0
    down, up = away(lab, HOUR, 3 * HOUR)
    lab.clock.pass_(HOUR)
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    deleted = lab.clock()
    lab.tick(30)
    lab.tick(30)
    seconds = (down - ready), (deleted - up)
    assert lab.cost(node) == sum(half_even(RATE * second, HOUR) for second in seconds)
    assert lab.cost(node) == lab.posted(node)


def test_who_stops_it_before_that_look_neither(lab: Lab) -> None:
    node = lab.up()
    ready = lab.nodes.get(node.id).up_since or 0
    down, up, again = away(lab, HOUR, HOUR, HOUR)
    lab.clock.pass_(HOUR)
    lab.nodes.stop(node.id)
    lab.lifecycle.tick(lab.lease)
    lab.tick(30)
    lab.tick(30)
    seconds = (down - ready), (again - up)
    assert lab.cost(node) == sum(half_even(RATE * second, HOUR) for second in seconds)


def test_several_times_are_several_intervals(lab: Lab) -> None:
    node = lab.up()
    ready = lab.nodes.get(node.id).up_since or 0
    first, second, third, fourth = away(lab, 600, 600, 600, 600)
    lab.tick(600)
    seconds = (first - ready), (third - second), (lab.clock() - fourth)
    assert lab.cost(node) == sum(half_even(RATE * second, HOUR) for second in seconds)
    again = lab.story(node)
    lab.tick(600)
    assert lab.story(node) == again, "it is found once"


def test_a_month_that_was_posted_already_is_corrected(lab: Lab) -> None:
    """Another daemon that saw only READY at both ends has charged the whole of it."""
    node = lab.up()
    down, up = away(lab, HOUR, 3 * HOUR)
    lab.clock.pass_(HOUR)
    lab.metering.tick(lab.lease)
    charged = lab.posted(node)
    lab.inventory.tick(lab.lease)
    lab.metering.tick(lab.lease)
    kinds = {line.kind for line in lab.nodes.list_ledger_lines(node.id, 0, 1_000)}
    assert kinds == {"usage", "adjustment"}
    assert charged - lab.posted(node) == half_even(RATE * (up - down), HOUR)


def test_a_cloud_that_gives_no_answer_is_asked_again(lab: Lab) -> None:
    node = lab.up()
    down, up = away(lab, HOUR, HOUR)
    for _ in range(2):
        lab.cloud.fail("operations", CloudUnavailable("busy"))
        lab.tick(70)
        assert "nobody saw" not in lab.story(node)
    lab.tick(5)
    assert f"from {to_rfc3339(down)} to {to_rfc3339(up)}" in lab.story(node)


def test_what_one_zone_tells_is_not_lost_when_another_gives_no_answer(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = lab.up(), lab.up(zone="us-west4-b")
    down, up = away(lab, HOUR, HOUR, of=node)
    answers = lab.cloud.operations

    def some(project: str, zone: str) -> Sequence[Operation]:
        if zone == "us-west4-b":
            raise CloudUnavailable("busy")
        return answers(project, zone)

    with monkeypatch.context() as patch:
        patch.setattr(lab.cloud, "operations", some)
        lab.tick(5)
    lab.tick(5)
    assert f"from {to_rfc3339(down)} to {to_rfc3339(up)}" in lab.story(node)


def test_a_zone_that_gave_no_answer_is_asked_again_although_another_has_answered(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, _ = lab.up(zone="us-west4-b"), lab.up()
    down, up = away(lab, HOUR, HOUR, of=node)
    answers = lab.cloud.operations

    def answer_some(project: str, zone: str) -> Sequence[Operation]:
        if zone == "us-west4-b":
            raise CloudUnavailable("busy")
        return answers(project, zone)

    with monkeypatch.context() as patch:
        patch.setattr(lab.cloud, "operations", answer_some)
        for _ in range(2):
            lab.tick(5)
    lab.tick(5)
    assert f"from {to_rfc3339(down)} to {to_rfc3339(up)}" in lab.story(node)


def test_who_may_not_ask_goes_on_without(lab: Lab) -> None:
    node = lab.up()
    away(lab, HOUR, HOUR)
    lab.cloud.fail("operations", NotAllowed("not yours"))
    lab.tick(70)
    looked_at = lab.inventory.looked_at[lab.lease.project]
    assert looked_at == lab.clock()
    assert "nobody saw" not in lab.story(node)


def test_while_it_looks_often_nothing_more_is_asked(lab: Lab) -> None:
    lab.up()
    lab.cloud.calls.clear()
    for _ in range(10):
        lab.tick(15)
    assert {verb for verb, _ in lab.cloud.calls} == {"inventory", "queue"}
