"""Before a zone is asked for a node, its own lists are."""

from __future__ import annotations

from service.domain.errors import CloudUnavailable, NotAllowed
from service.domain.nodes.node import NodeState
from service.domain.placement.zone_offers import KEEP_SECONDS
from tests.controllers.conftest import Lab

OTHER = "us-central1-a"
LACKING = ["v2-alpha-tpuv5", "tpu-ubuntu2204-base"]


def test_a_zone_that_lacks_the_image_is_not_asked_and_the_next_one_is(lab: Lab):
    lab.cloud.offered["us-west4-a"] = LACKING
    node = lab.ask(zone=None, zones=("us-west4-a", OTHER))
    lab.tick()
    lab.tick()
    assert [path.split("/")[3] for verb, path in lab.cloud.calls if verb == "create"] == [OTHER]
    assert lab.node(node).zone == OTHER
    assert "us-west4-a does not list the runtime version v2-alpha-tpuv5-lite" in lab.story(node)


def test_where_no_zone_has_it_the_node_fails_with_the_nearest_names_before_anything_is_sent(lab):
    lab.cloud.offered["us-west4-a"] = LACKING
    node = lab.ask()
    lab.tick()
    after = lab.node(node)
    assert after.state == NodeState.FAILED
    assert after.last_error == (
        "us-west4-a does not list the runtime version v2-alpha-tpuv5-lite; the nearest that it has:"
        " v2-alpha-tpuv5, tpu-ubuntu2204-base"
    )
    assert lab.cloud.count("create") == 0


def test_the_lists_are_asked_for_once_an_hour(lab):
    for _ in range(3):
        lab.ask()
    lab.tick()
    assert lab.cloud.count("create") == 3
    assert lab.cloud.count("runtime_versions") == 1
    lab.clock.pass_(KEEP_SECONDS)
    lab.ask()
    lab.tick()
    assert lab.cloud.count("runtime_versions") == 2


def test_an_old_list_is_not_believed_when_it_says_no(lab):
    lab.cloud.offered["us-west4-a"] = LACKING
    lab.ask()
    lab.tick()
    del lab.cloud.offered["us-west4-a"]
    node = lab.ask()
    lab.tick(120)
    assert lab.node(node).state == NodeState.CREATING


def test_without_a_list_the_node_is_asked_for_all_the_same_and_the_list_not_at_once_again(lab):
    lab.cloud.fail("runtime_versions", CloudUnavailable("no answer"))
    lab.ask()
    lab.ask()
    lab.tick()
    assert lab.cloud.count("create") == 2
    assert lab.cloud.count("runtime_versions") == 1
    lab.clock.pass_(600)
    lab.cloud.fail("accelerator_types", NotAllowed("no permission to list"))
    lab.ask()
    lab.tick()
    assert lab.cloud.count("create") == 3
