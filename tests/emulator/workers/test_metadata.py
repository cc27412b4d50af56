"""What the metadata server of a worker says, as a function of its node and the time."""

from __future__ import annotations

import base64
import json

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.nodes import guest_attributes
from service.emulator.nodes.query_allowance import Allowance
from service.emulator.nodes.worker import get_running_worker
from service.emulator.surfaces import control
from service.emulator.workers.metadata import build_tree
from service.emulator.workers.replies import ROOT, build_reply
from tests.emulator.factories import PARENT, configured, name_of

V5E = {"accelerator_type": "v5litepod-16", "runtime_version": "v2-alpha-tpuv5-lite"}
WEST = "projects/lab/locations/us-west4-a"


def ask(cloud, path, number=0, name="", **query):
    """Ask the metadata server of a worker, of the only node if none is named."""
    cloud.world.run_due_events()
    record = cloud.world.nodes[name] if name else next(iter(cloud.world.nodes.values()))
    worker = get_running_worker(record, number)
    return build_reply(build_tree(worker, cloud.now, cloud.world.config.speed), ROOT + path, query)


def tpu_env(cloud, number=0):
    lines = ask(cloud, "instance/attributes/tpu-env", number).body.splitlines()
    return {key: value.strip("'") for key, value in (line.split(": ") for line in lines)}


@pytest.fixture
def pod(cloud):
    cloud.ready(parent=WEST, metadata={"foo": "bar", "tpu-env": "mine"}, tags=["a", "b"], **V5E)
    return cloud


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("project/project-id", "lab"),
        ("project/numeric-project-id", "1641460164"),
        ("instance/description", "a"),
        ("instance/zone", "projects/1641460164/zones/us-west4-a"),
        ("instance/attributes/agent-worker-number", "2"),
        ("instance/attributes/accelerator-type", "v5litepod-16"),
        ("instance/attributes/foo", "bar"),
        ("instance/network-interfaces/0/ip", "10.0.0.4"),
        ("instance/tags", '["a","b"]'),
        ("instance/preempted", "FALSE"),
        ("instance/maintenance-event", "NONE"),
        ("instance/scheduling/preemptible", "FALSE"),
        (
            "instance/service-accounts/default/scopes",
            "https://www.googleapis.com/auth/cloud-platform\n",
        ),
        ("universe/universe-domain", "googleapis.com"),
    ],
)
def test_a_value_is_told_as_text(pod, path, body):
    answer = ask(pod, path, 2)
    assert (answer.status, answer.body, answer.content_type) == (200, body, "application/text")


def test_workers_are_told_apart_and_know_each_other(pod):
    seen = [ask(pod, "instance/attributes/worker-network-endpoints", n).body for n in range(4)]
    assert len(set(seen)) == 1
    # JAX and others split it in this way.
    addresses = [each.split(":")[2] for each in seen[0].split(",")]
    own = [ask(pod, "instance/network-interfaces/0/ip", number).body for number in range(4)]
    assert addresses == own
    names = [ask(pod, "instance/name", number).body for number in range(4)]
    assert [name.rpartition("-w-")[2] for name in names] == ["0", "1", "2", "3"]
    assert len({ask(pod, "instance/id", number).body for number in range(4)}) == 4


def test_with_several_networks_only_the_first_address_of_a_worker_is_told_to_the_others(cloud):
    networks = [{"network": "default"}, {"network": "second"}]
    cloud.ready(parent=WEST, network_configs=networks, **V5E)
    endpoints = ask(cloud, "instance/attributes/worker-network-endpoints").body.split(",")
    assert [each.rpartition(".")[2] for each in endpoints] == ["2", "4", "6", "8"]
    assert ask(cloud, "instance/network-interfaces/1/ip", 1).body == "10.0.0.5"
    assert ask(cloud, "instance/network-interfaces/1/network", 1).body.endswith("/networks/second")


@pytest.mark.parametrize(
    ("parent", "node", "bounds"),
    [
        (PARENT, {"accelerator_type": "v4-256"}, ("4x4x8", "2,2,1", "2,2,8", "true,true,true")),
        (PARENT, {"accelerator_type": "v4-8"}, ("2x2x1", "2,2,1", "1,1,1", "false,false,false")),
        (WEST, V5E, ("4x4", "2,2,1", "2,2,1", "false,false,false")),
        (
            WEST,
            {**V5E, "accelerator_type": "v5litepod-8"},
            ("2x4", "2,4,1", "1,1,1", "false,false,false"),
        ),
    ],
)
def test_the_tpu_env_tells_how_the_chips_lie(cloud, parent, node, bounds):
    cloud.ready(parent=parent, **node)
    env = tpu_env(cloud)
    keys = ("TOPOLOGY", "CHIPS_PER_HOST_BOUNDS", "HOST_BOUNDS", "WRAP")
    assert tuple(env[key] for key in keys) == bounds


def test_the_tpu_env_is_the_service_s_own(pod):
    env = tpu_env(pod, 3)
    assert (env["WORKER_ID"], env["NODE_ID"], env["TYPE"]) == ("3", "a", "V5LITE_POD")
    assert (env["ZONE"], env["ACCELERATOR_TYPE"]) == ("us-west4-a", "v5litepod-16")


def test_a_directory_lists_its_entries_and_wants_its_slash(pod):
    assert ask(pod, "").body == "instance/\nproject/\nuniverse/\n"
    assert "agent-worker-number\n" in ask(pod, "instance/attributes/").body
    moved = ask(pod, "instance/attributes", recursive="true")
    assert (moved.status, moved.location) == (
        301,
        "/computeMetadata/v1/instance/attributes/?recursive=true",
    )


def test_everything_at_once_is_json_in_camel_case_but_for_the_names_of_users(pod):
    everything = json.loads(ask(pod, "", recursive="true").body)
    instance = everything["instance"]
    assert everything["project"]["numericProjectId"] == 1641460164
    assert instance["machineType"].endswith("/ct5lp-hightpu-4t")
    assert instance["attributes"]["agent-worker-number"] == "0"
    assert instance["networkInterfaces"][0]["ip"] == "10.0.0.2"
    assert instance["serviceAccounts"]["default"]["aliases"] == ["default"]
    assert "token" not in instance["serviceAccounts"]["default"]
    assert "upcomingMaintenance" not in instance


def test_everything_at_once_can_be_lines(pod):
    lines = ask(pod, "instance/scheduling/", recursive="true", alt="text").body.splitlines()
    assert "on-host-maintenance TERMINATE" in lines


@pytest.mark.parametrize(
    ("path", "body"),
    [("instance/preempted", '"FALSE"'), ("instance/tags", '["a","b"]'), ("project/", None)],
)
def test_a_value_is_told_as_json_on_request(pod, path, body):
    answer = ask(pod, path, alt="json")
    assert answer.content_type == "application/json"
    assert answer.body == (body or '["attributes/","numeric-project-id","project-id"]')


@pytest.mark.parametrize(
    "path",
    ["nothing", "instance/nothing", "instance/zone/", "instance/zone/x", "instance/attributes/x"],
)
def test_what_is_not_there_is_not_found(pod, path):
    assert ask(pod, path).status == 404


def test_an_update_of_the_node_changes_its_attributes_and_their_etag(pod):
    before = ask(pod, "instance/attributes/foo")
    wanted = {"name": name_of("a", WEST), "metadata": {"foo": "new"}}
    pod.ask("UpdateNode", node=wanted, update_mask={"paths": ["metadata"]})
    pod.wait(10)
    after = ask(pod, "instance/attributes/foo")
    assert (before.body, after.body) == ("bar", "new")
    assert before.etag != after.etag


def test_a_preempted_worker_reads_that_it_was(cloud):
    cloud.ready(scheduling_config={"spot": True})
    assert ask(cloud, "instance/scheduling/preemptible").body == "TRUE"
    control.preempt_node(cloud.world, {"name": name_of("a")})
    assert ask(cloud, "instance/preempted").body == "TRUE"


def test_maintenance_is_announced_a_minute_before_and_described_before_that(pod):
    record = pod.world.nodes[name_of("a", WEST)]
    none = ask(pod, "instance/upcoming-maintenance", alt="json")
    assert (none.status, "no notifications" in none.body) == (503, True)
    record.maintenance = (pod.now + 100, pod.now + 160)
    described = json.loads(ask(pod, "instance/upcoming-maintenance", alt="json").body)
    assert (described["maintenance_status"], described["can_reschedule"]) == ("PENDING", "TRUE")
    assert described["window_start_time"] == "2027-01-15T08:02:00+00:00"
    assert ask(pod, "instance/maintenance-event").body == "NONE"
    pod.now += 41
    assert ask(pod, "instance/maintenance-event").body == "TERMINATE_ON_HOST_MAINTENANCE"


def test_a_token_is_the_same_for_most_of_its_life(pod):
    path = "instance/service-accounts/default/token"
    first = json.loads(ask(pod, path).body)
    pod.now += 1
    second = json.loads(ask(pod, path).body)
    assert first["access_token"] == second["access_token"]
    assert first["expires_in"] - second["expires_in"] in {1, 2}
    pod.now += 3600
    assert json.loads(ask(pod, path).body)["access_token"] != first["access_token"]


def test_an_identity_is_for_an_audience(pod):
    path = "instance/service-accounts/default/identity"
    assert ask(pod, path).status == 400
    token = ask(pod, path, audience="https://a", format="full").body
    part = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    assert claims["aud"] == "https://a"
    assert claims["exp"] == int(pod.now) + 3600
    assert claims["google"]["compute_engine"]["project_id"] == "lab"


def test_guest_attributes_are_a_directory_of_namespaces(pod):
    record = pod.world.nodes[name_of("a", WEST)]
    guest_attributes.publish_value(record, 1, "job", "state", "done")
    assert ask(pod, "instance/guest-attributes/", 1).body == "job/\n"
    assert ask(pod, "instance/guest-attributes/job/", 1).body == "state\n"
    assert ask(pod, "instance/guest-attributes/job/state", 1).body == "done"
    assert ask(pod, "instance/guest-attributes/job/state", 0).status == 404


def test_guest_attributes_can_be_switched_off(cloud):
    cloud.ready(metadata={"enable-guest-attributes": "FALSE"})
    answer = ask(cloud, "instance/guest-attributes/job/state")
    assert (answer.status, answer.body) == (403, "Guest attributes endpoint access is disabled.\n")
    assert "guestAttributes" not in json.loads(ask(cloud, "instance/", recursive="true").body)


@pytest.mark.parametrize(
    ("space", "key", "value"),
    [
        ("", "a", ""),
        ("a", "", ""),
        ("a b", "c", ""),
        ("a", "b" * 129, ""),
        ("a", "b", "x" * 262145),
    ],
)
def test_a_guest_attribute_has_limits(pod, space, key, value):
    with pytest.raises(ApiError) as caught:
        guest_attributes.publish_value(pod.world.nodes[name_of("a", WEST)], 0, space, key, value)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_ten_queries_a_minute_are_allowed_and_speed_shortens_the_minute():
    allowance = Allowance(at=0.0)
    at = [number / 2.5 for number in range(12)]
    assert [allowance.take_query(each, 1.0) for each in at] == [True] * 10 + [False] * 2
    assert allowance.take_query(6.5, 1.0)
    assert not allowance.take_query(6.6, 1.0)
    assert allowance.take_query(6.7, 100.0)
    assert list(allowance.times) == [*at, 6.5, 6.6, 6.7]


def test_three_queries_a_second_are_allowed():
    allowance = Allowance(at=0.0)
    at = (0.0, 0.1, 0.2, 0.9, 1.0, 1.05)
    assert [allowance.take_query(each, 1.0) for each in at] == [
        True,
        True,
        True,
        False,
        True,
        False,
    ]


def test_a_worker_answers_only_while_its_machine_is_up():
    cloud = configured()
    cloud.create()
    record = cloud.world.nodes[name_of("a")]
    with pytest.raises(ApiError) as caught:
        get_running_worker(record, 0)
    assert caught.value.code is Code.UNAVAILABLE
    cloud.wait(20)
    assert get_running_worker(record, 0).ip == "10.0.0.2"
    with pytest.raises(ApiError, match="has workers 0 to 0, not 1"):
        get_running_worker(record, 1)
    cloud.ask("StopNode", name=record.name)
    cloud.wait(10)
    with pytest.raises(ApiError, match="the node is STOPPED"):
        get_running_worker(record, 0)
