"""Quota refuses at once, counts the dead and the queued, and limits how often one may ask."""

from __future__ import annotations

from typing import Any

import pytest
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control
from tests.emulator.factories import PARENT, configured, name_of
from tests.emulator.queued_resources import STATES, bring, preempt, remove, spec, state, submit

V4 = "us-central2-b/v4"
EAST = [f"projects/lab/locations/us-east5-{zone}" for zone in "abc"]
SPOT: dict[str, Any] = {"scheduling_config": {"spot": True}}
V6E = {"accelerator_type": "v6e-8", "runtime_version": "v2-alpha-tpuv6e"}


def refusal(call, *args, **fields):
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value


def test_a_zones_quota_is_named_by_its_zone():
    cloud = configured(quotas={V4: 4})
    cloud.create("a")
    error = refusal(cloud.create, "b")
    assert (error.code, error.http_status) == (Code.RESOURCE_EXHAUSTED, 429)
    assert error.message == (
        "Quota limit 'TPUV4PerProjectPerZoneForTPUAPI' has been exceeded."
        " Limit: 4 in zone us-central2-b."
    )
    (failure,) = error.details
    assert isinstance(failure, QuotaFailure)
    assert failure.violations[0].subject == "project:lab"


def test_a_regions_quota_is_shared_by_its_zones():
    cloud = configured(quotas={"us-east5/v6e": 16})
    cloud.create("a", EAST[0], **V6E)
    cloud.create("b", EAST[1], **V6E)
    error = refusal(cloud.create, "c", EAST[2], **V6E, **SPOT)
    assert error.message == (
        "Quota limit 'TPUV6EPreemptiblePerProjectPerRegionForTPUAPI' has been exceeded."
        " Limit: 16 in region us-east5."
    )
    cloud.create("d", "projects/lab/locations/us-central1-a", **V6E)


def test_each_project_has_its_own():
    cloud = configured(quotas={V4: 4})
    cloud.create("a")
    cloud.create("a", PARENT.replace("lab", "other"))


@pytest.mark.parametrize("key", ["spot", "preemptible", "flex_start"])
def test_what_can_be_taken_away_shares_one_limit(key):
    cloud = configured(quotas={f"{V4}/{key}": 8})
    cloud.create("a", scheduling_config={"preemptible": True})
    cloud.create("b", **SPOT)
    assert "TPUV4PreemptiblePerProject" in refusal(submit, cloud, spot={}).message
    cloud.create("c")
    submit(cloud)


def test_a_limit_of_one_model_leaves_the_others_alone():
    cloud = configured(quotas={f"{V4}/on_demand": 4})
    cloud.create("a", **SPOT)
    cloud.create("b", scheduling_config={"reserved": True})
    cloud.create("c")
    assert refusal(cloud.create, "d").code is Code.RESOURCE_EXHAUSTED


def test_quota_is_held_by_a_preempted_node():
    cloud = configured(quotas={V4: 4})
    cloud.ready("a", **SPOT)
    preempt(cloud, "a")
    assert "Limit: 4 in zone us-central2-b." in refusal(cloud.create, "b").message
    cloud.create("b", accelerator_type="v6e-8")
    cloud.ask("DeleteNode", name=name_of("a"))
    assert refusal(cloud.create, "c").code is Code.RESOURCE_EXHAUSTED
    cloud.wait(8)
    cloud.create("c")


def test_a_node_that_stocked_out_holds_none():
    cloud = configured(quotas={V4: 4}, capacity={V4: 0})
    cloud.ready("a")
    cloud.create("b")


@pytest.mark.parametrize("wanted", STATES)
def test_what_is_queued_holds_quota_in_every_state_and_once(wanted):
    cloud = configured(quotas={V4: 8})
    bring(cloud, wanted)
    cloud.create("own")
    assert refusal(cloud.create, "more").code is Code.RESOURCE_EXHAUSTED
    assert refusal(submit, cloud, "more", spec("more")).code is Code.RESOURCE_EXHAUSTED


def test_what_is_queued_is_refused_as_a_whole():
    cloud = configured(quotas={V4: 8})
    error = refusal(submit, cloud, "q", spec("s", count=3), spot={})
    assert "TPUV4PreemptiblePerProjectPerZoneForTPUAPI" in error.message
    assert state(cloud) == "GONE"
    submit(cloud, "q", spec("s", count=2), spot={})


def test_quota_comes_back_when_the_queued_resource_is_gone():
    cloud = configured(quotas={V4: 4})
    bring(cloud, "ACTIVE")
    remove(cloud, force=True)
    cloud.wait(7)
    assert refusal(cloud.create).code is Code.RESOURCE_EXHAUSTED
    cloud.wait(1)
    cloud.create()


def test_a_node_that_is_left_behind_holds_quota_on_its_own():
    cloud = configured(quotas={V4: 4})
    bring(cloud, "SUSPENDED")
    remove(cloud)
    cloud.wait(8)
    assert refusal(cloud.create).code is Code.RESOURCE_EXHAUSTED
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(8)
    cloud.create()
    assert refusal(cloud.create, "b").code is Code.RESOURCE_EXHAUSTED


def test_a_node_left_behind_is_not_mistaken_for_one_of_a_newer_namesake():
    cloud = configured(quotas={V4: 8})
    bring(cloud, "SUSPENDED")
    remove(cloud)
    cloud.wait(8)
    submit(cloud, "q", spec("m"))
    cloud.ask("DeleteNode", name=name_of("n"))
    cloud.wait(100)
    assert state(cloud) == "ACTIVE"
    cloud.create("a")
    assert refusal(cloud.create, "b").code is Code.RESOURCE_EXHAUSTED


def test_a_reset_of_the_world_gives_everything_back():
    cloud = configured(quotas={V4: 4}, create_rate_per_minute=2)
    bring(cloud, "ACTIVE")
    control.reset_world(cloud.world)
    bring(cloud, "ACTIVE")


def test_one_may_ask_only_so_often():
    cloud = configured(create_rate_per_minute=3)
    cloud.create("a")
    cloud.wait(20)
    submit(cloud)
    cloud.create("b")
    error = refusal(cloud.create, "c")
    assert (error.code, error.http_status) == (Code.RESOURCE_EXHAUSTED, 429)
    assert error.message.startswith("Maximum number of CreateNode requests per minute")
    failure, info, retry = error.details
    assert isinstance(failure, QuotaFailure)
    assert isinstance(info, ErrorInfo)
    assert info.reason == "RATE_LIMIT_EXCEEDED"
    assert isinstance(retry, RetryInfo)
    assert retry.retry_delay.seconds == 40
    assert "CreateQueuedResource requests" in refusal(submit, cloud, "r", spec("m")).message
    cloud.wait(40)
    cloud.create("c")
    assert refusal(cloud.create, "d").details[2].retry_delay.seconds == 20


def test_what_fails_has_been_asked_for_all_the_same():
    cloud = configured(create_rate_per_minute=1)
    assert refusal(cloud.create, accelerator_type="none").code is Code.INVALID_ARGUMENT
    assert refusal(cloud.create).code is Code.RESOURCE_EXHAUSTED
    cloud.wait(60)
    cloud.create()


def test_the_rate_is_each_projects_own_and_concerns_creations_alone():
    cloud = configured(create_rate_per_minute=1)
    cloud.ready()
    cloud.create("a", PARENT.replace("lab", "other"))
    for _ in range(5):
        cloud.get()
    cloud.ask("DeleteNode", name=name_of("a"))
