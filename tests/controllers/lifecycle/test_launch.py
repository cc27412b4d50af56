"""Where a node is tried next, through the real controllers: it learns from what all have met."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier

import pytest
from structlog.testing import capture_logs

from service.controllers.lifecycle.launch import build_placement, choose_next
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.errors import (
    CapacityUnavailable,
    CloudError,
    CloudNotFound,
    InvalidRequest,
    NotAllowed,
    QuotaExceeded,
)
from service.domain.nodes.node import Node, NodeState
from service.domain.nodes.placement import Outcome, Placement
from tests.controllers.conftest import Lab
from tests.hands import NOON

STOCK_OUT = CapacityUnavailable("There is no more capacity in the zone")
TWO = {"zone": None, "zones": ("us-west4-a", "us-central1-a")}
THREE = {"zone": None, "zones": ("us-west4-a", "us-west4-b", "us-central1-a")}


def zones_asked(lab: Lab) -> list[str]:
    """The zones of all creates so far, in their order."""
    return [path.split("/")[3] for verb, path in lab.cloud.calls if verb == "create"]


def attempts(lab: Lab, node: Node) -> tuple[Placement, ...]:
    with lab.units.reading() as unit:
        return unit.placements.list_by_node(node.id)


def refuse(lab: Lab, error: CloudError, times: int = 1) -> None:
    for _ in range(times):
        lab.cloud.fail("create", error)


def test_a_zone_that_ran_out_is_left_alone_for_a_while_by_every_node(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    lab.ask(**TWO)
    lab.tick()
    second = lab.ask(**TWO)
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", "us-central1-a", "us-central1-a"]
    assert "first left of 2 places; us-west4-a was out of capacity 5 s ago; cooldown until" in (
        lab.story(second)
    )
    lab.tick(60)
    lab.ask(**TWO)
    lab.tick()
    assert zones_asked(lab)[-1] == "us-west4-a"


def test_the_story_says_of_each_attempt_why_it_was_made_there(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    node = lab.ask(**TWO)
    lab.tick()
    lab.tick()
    with lab.units.reading() as unit:
        facts = [event.facts for _, event in unit.events.list_by_node(node.id, 0, 100)]
    first, second = [fact for fact in facts if "why" in fact]
    assert (first["attempt"], first["why"]) == (1, "first of 2 places")
    assert second["attempt"] == 2
    assert str(second["why"]).startswith("first left of 2 places; us-west4-a was out of capacity ")


def test_what_was_learned_outlives_the_daemon(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    lab.ask()
    lab.tick()
    lab.start_daemon("second")
    waiting = lab.ask()
    lab.tick()
    assert lab.cloud.count("create") == 1
    assert lab.node(waiting).next_try_at == NOON + 5 + 60


def test_a_node_says_what_it_waits_for(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    first = lab.ask()
    lab.tick()
    at = to_rfc3339(NOON + 65)
    assert lab.node(first).last_error == (
        f"stock_out in us-west4-a: There is no more capacity in the zone; next: us-west4-a at {at}"
    )
    second = lab.ask()
    lab.tick()
    said = f"us-west4-a was out of capacity 5 s ago; cooldown until {at}; next: us-west4-a at {at}"
    assert lab.node(second).last_error == said
    assert f"not requested yet: {said}" in lab.story(second)


@pytest.mark.deep
def test_a_zone_that_runs_out_again_and_again_is_asked_at_most_every_half_hour(lab: Lab) -> None:
    node = lab.ask()
    refuse(lab, STOCK_OUT, 60)
    for _ in range(24 * 12):
        lab.tick(300)
    assert 48 <= lab.cloud.count("create") <= 54
    assert lab.node(node).state == NodeState.REQUESTED
    began = [attempt.started_at for attempt in attempts(lab, node)][-5:]
    gaps = [after - before for before, after in pairwise(began)]
    assert all(1_800 <= gap <= 2_100 for gap in gaps)


def test_of_many_that_wait_one_probes_and_all_follow_once_it_is_up(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    nodes = [lab.ask() for _ in range(20)]
    lab.tick()
    assert lab.cloud.count("create") == 1
    lab.tick(60)
    lab.tick()
    assert lab.cloud.count("create") == 2, "one probes"
    assert sum("another node is trying it now" in lab.node(n).last_error for n in nodes) == 19
    lab.cloud.come_up()
    lab.tick()
    lab.tick(60)
    assert lab.cloud.count("create") == 21


def test_a_probe_that_fails_keeps_all_others_waiting(lab: Lab) -> None:
    refuse(lab, STOCK_OUT, 2)
    nodes = [lab.ask() for _ in range(20)]
    lab.tick()
    lab.tick(60)
    lab.tick(60)
    assert lab.cloud.count("create") == 2
    again = NOON + 65 + 120
    assert {lab.node(node).next_try_at for node in nodes} == {again}


@pytest.mark.concurrent
def test_threads_that_choose_at_once_do_not_all_probe(lab: Lab) -> None:
    refuse(lab, STOCK_OUT)
    nodes = [lab.ask() for _ in range(8)]
    lab.tick()
    now = lab.clock.pass_(60)
    together = Barrier(len(nodes))

    def place(node: Node) -> bool:
        together.wait()
        with lab.units(lab.lease) as unit:
            choice = choose_next(unit, node, now)
            if choice.at > now:
                return False
            unit.placements.add(build_placement(node, choice.key, 9, f"c-{node.id}", now))
            return True

    with ThreadPoolExecutor(len(nodes)) as pool:
        assert sum(pool.map(place, nodes)) == 1


@pytest.mark.parametrize(
    ("facts", "third"),
    [({"region": "us-west4"}, "us-central1-a"), ({}, "us-west4-b")],
)
def test_a_quota_is_left_alone_as_far_as_it_goes(
    lab: Lab, facts: dict[str, str], third: str
) -> None:
    refuse(lab, QuotaExceeded("Quota limit exceeded", **facts))
    node = lab.ask(**THREE)
    lab.tick()
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", third]
    assert attempts(lab, node)[0].scope == facts.get("region", "")


def test_a_zone_that_denies_our_credentials_is_left_alone_and_a_human_is_told(lab: Lab) -> None:
    refuse(lab, NotAllowed("no permission tpu.nodes.create"))
    node = lab.ask(**TWO)
    with capture_logs() as logs:
        lab.tick()
    assert [entry["zone"] for entry in logs if entry["event"] == "launch.denied"] == ["us-west4-a"]
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", "us-central1-a"]
    assert attempts(lab, node)[0].outcome is Outcome.DENIED
    assert "give the service's account the permissions of deploy/iam" in lab.story(node)


def test_a_denial_in_the_only_zone_is_tried_again_after_a_quarter_of_an_hour(lab: Lab) -> None:
    refuse(lab, NotAllowed("no permission"))
    node = lab.ask()
    lab.tick()
    assert lab.node(node).next_try_at == NOON + 5 + 900
    lab.tick(900)
    assert lab.node(node).state == NodeState.CREATING


@pytest.mark.parametrize("inside", [False, True])
def test_a_request_that_one_zone_refuses_is_tried_in_the_others(lab: Lab, inside: bool) -> None:
    error = InvalidRequest("us-west4-a does not list the runtime version")
    node = lab.ask(**TWO)
    if inside:
        lab.tick()
        lab.cloud.stock_out(error)
    else:
        refuse(lab, error)
    lab.tick()
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", "us-central1-a"]
    lab.cloud.stock_out(STOCK_OUT)
    lab.tick()
    lab.tick(60)
    lab.tick()
    assert zones_asked(lab)[2:] == ["us-central1-a"], "never again where it was refused"
    assert lab.node(node).state == NodeState.CREATING


def test_a_request_that_every_zone_refuses_fails_with_all_the_reasons(lab: Lab) -> None:
    node = lab.ask(**TWO)
    refuse(lab, InvalidRequest("no such network"))
    refuse(lab, InvalidRequest("no such disk"))
    lab.tick()
    lab.tick()
    failed = lab.node(node)
    assert failed.state == NodeState.FAILED
    assert failed.last_error == (
        "every place refused it; us-west4-a: no such network; us-central1-a: no such disk"
    )
    assert failed.next_try_at is None


def test_a_refusal_of_one_node_keeps_no_other_away(lab: Lab) -> None:
    refuse(lab, InvalidRequest("no such disk"))
    lab.ask()
    lab.tick()
    other = lab.ask()
    lab.tick()
    assert lab.node(other).state == NodeState.CREATING


def test_a_place_that_the_cloud_does_not_know_leads_to_the_next(lab: Lab) -> None:
    refuse(lab, CloudNotFound("Location us-west4-a is not found"))
    lab.ask(**TWO)
    lab.tick()
    lab.tick()
    assert zones_asked(lab) == ["us-west4-a", "us-central1-a"]


def test_when_it_came_up_is_kept_with_the_attempt(lab: Lab) -> None:
    node = lab.up()
    (one,) = attempts(lab, node)
    assert (one.outcome, one.ready_at) == (Outcome.READY, lab.node(node).ready_at)
    assert (one.project, one.accelerator_type, one.generation) == ("lab", "v5litepod-8", "v5e")


@pytest.mark.deep
def test_nodes_that_die_as_soon_as_they_are_up_do_not_make_a_hot_loop(lab: Lab) -> None:
    spot = ProvisioningModel.SPOT
    node = lab.ask(provisioning_model=spot, recreate_on_preemption=True)
    for _ in range(360):
        lab.tick(10)
        for path, seen in list(lab.cloud.nodes.items()):
            if seen.state == NodeState.CREATING:
                lab.cloud.come_up(path)
            elif seen.state == NodeState.READY:
                lab.cloud.become(NodeState.PREEMPTED, path)
        lab.cloud.settle()
    assert 5 <= len(attempts(lab, node)) <= 10, "in an hour"


def test_the_patience_of_the_owner_ends_a_long_wait_in_time(lab: Lab) -> None:
    refuse(lab, NotAllowed("no permission"))
    node = lab.ask(max_wait_seconds=100)
    lab.tick()
    assert lab.node(node).next_try_at == NOON + 100
    lab.tick(95)
    assert lab.node(node).state == NodeState.FAILED


def test_an_answer_that_was_lost_is_waited_for_whatever_is_refused_meanwhile(lab: Lab) -> None:
    """The create may yet land, so the zone is not given up, and no other is tried."""
    refuse(lab, CloudError("lost"))
    node = lab.ask(**TWO)
    lab.tick()
    refuse(lab, STOCK_OUT)
    lab.tick(10)
    assert zones_asked(lab) == ["us-west4-a", "us-west4-a"]
    assert [attempt.outcome for attempt in attempts(lab, node)] == [Outcome.OPEN]


# ---- any of several types


def test_another_type_is_tried_where_the_first_ran_out_and_everything_follows_from_it(
    lab: Lab,
) -> None:
    refuse(lab, STOCK_OUT)
    wanted = {"accelerator_types": ("v5litepod-8", "v6e-8"), "zone": "us-east5-b"}
    node = lab.ask(accelerator_type=None, **wanted)
    assert node.spec.accelerator_type == "v5litepod-8", "the cheapest first"
    lab.tick()
    assert "; next: v6e-8 in us-east5-b at" in lab.node(node).last_error
    lab.tick()
    (seen,) = lab.cloud.nodes.values()
    assert seen.accelerator_type == "v6e-8"
    lab.clock.pass_(20)
    lab.cloud.come_up()
    lab.tick()
    ready = lab.node(node)
    assert (ready.spec.accelerator_type, ready.spec.generation) == ("v6e-8", "v6e")
    assert ready.spec.runtime_version == "v2-alpha-tpuv6e"
    assert ready.spec.accelerator_types == ("v5litepod-8", "v6e-8")
    assert [attempt.accelerator_type for attempt in attempts(lab, node)] == ["v5litepod-8", "v6e-8"]
    assert "requesting v6e-8 in us-east5-b as" in lab.story(node)
    assert "cheapest left of 2 places; v5litepod-8 in us-east5-b was out of capacity" in lab.story(
        node
    )
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
    assert (usage.accelerator_type, usage.sku.generation) == ("v6e-8", "v6e")


def test_a_type_that_is_refused_leaves_the_others(lab: Lab) -> None:
    refuse(lab, InvalidRequest("no such type"), 2)
    wanted = {"accelerator_types": ("v5litepod-8", "v6e-8"), "zone": "us-east5-b"}
    node = lab.ask(accelerator_type=None, **wanted)
    lab.tick()
    assert lab.node(node).state == NodeState.REQUESTED
    lab.tick()
    failed = lab.node(node)
    assert failed.state == NodeState.FAILED
    assert failed.last_error == (
        "every place refused it; v5litepod-8 in us-east5-b, v6e-8 in us-east5-b: no such type"
    )
