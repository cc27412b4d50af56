"""The metadata servers of workers over HTTP: whom they answer, and those who wait for a change."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from service.emulator.nodes import guest_attributes
from service.emulator.nodes.worker import Worker
from service.emulator.surfaces import control
from service.emulator.workers.metadata import build_tree
from service.emulator.workers.replies import ROOT, build_reply
from service.emulator.workers.waiting import Waiting
from tests.emulator.factories import Cloud, name_of
from tests.emulator.google_clients import grpc_client
from tests.emulator.worker_view import (
    PARENT,
    POD,
    SINGLE,
    ZONE,
    Metadata,
    beside,
    create,
    port,
    serial,
    until,
)

DEFAULT_CREDENTIALS = """
import json
import google.auth
from google.auth.compute_engine import IDTokenCredentials
from google.auth.transport.requests import Request

credentials, project = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])
credentials.refresh(Request())
identity = IDTokenCredentials(Request(), "https://lab", use_metadata_identity_endpoint=True)
identity.refresh(Request())
print(json.dumps([
    project, type(credentials).__name__, credentials.service_account_email, credentials.token[:5],
    credentials.universe_domain, credentials.valid, identity.valid,
]))
"""


@pytest.fixture
def pod(web):
    return create(web, "a", POD, foo="bar")


def preempt(web, name):
    status, _ = web.ask("POST", "/_emulator/nodes/preempt", {"name": name, "force": True})
    assert status == 200


def test_each_worker_is_found_under_its_node_on_the_rest_port(emulator, pod):
    numbers = [
        beside(emulator, "a", worker).get("instance/attributes/agent-worker-number").body
        for worker in range(4)
    ]
    assert numbers == ["0", "1", "2", "3"]


def test_each_worker_has_a_port_of_its_own_on_request(web, pod):
    ports = [port(web, pod, worker) for worker in (0, 3)]
    assert len({each.url for each in ports}) == 2
    assert [each.get("instance/attributes/agent-worker-number").body for each in ports] == [
        "0",
        "3",
    ]
    assert port(web, pod, 3) == ports[1]


def test_a_port_answers_like_the_real_server(web, pod):
    answer = port(web, pod).get("instance/zone")
    assert answer.headers["metadata-flavor"] == "Google"
    assert answer.headers["server"] == "Metadata Server for VM"
    assert answer.headers["etag"]
    root = Metadata(port(web, pod).url, headers=()).ask("GET", "/")
    assert (root.status, root.headers["metadata-flavor"]) == (200, "Google")


def test_the_port_of_a_node_that_is_gone_is_closed(web, pod):
    door = port(web, pod)
    web.ask("DELETE", f"/v2/{pod}")

    def closed():
        try:
            return door.get("instance/zone").status == 503
        except ConnectionError:
            return True

    until(closed)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("Metadata-Flavor", "Yahoo"),),
        (("Metadata-Flavor", "Google"), ("X-Forwarded-For", "1.2.3.4")),
    ],
)
def test_who_does_not_know_where_he_is_or_was_forwarded_is_refused(emulator, pod, headers):
    stranger = Metadata(beside(emulator, "a").url, headers)
    assert stranger.get("instance/zone").status == 403


def test_a_port_refuses_to_be_taken_for_another_host(web, pod):
    known = (("Metadata-Flavor", "Google"),)
    url = port(web, pod).url
    assert Metadata(url, (*known, ("Host", "example.com"))).get("instance/zone").status == 403
    alias = (*known, ("Host", "metadata.google.internal"))
    assert Metadata(url, alias).get("instance/zone").status == 200


def test_a_directory_without_its_slash_is_moved_to_where_it_really_is(emulator, pod):
    moved = beside(emulator, "a").get("instance/attributes", alt="json")
    assert moved.status == 301
    assert moved.headers["location"] == (
        f"/_emulator/nodes/lab/{ZONE}/a/workers/0/computeMetadata/v1/instance/attributes/?alt=json"
    )


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("PUT", "/computeMetadata/v1/instance/zone", 405),
        ("POST", "/computeMetadata/v1/instance/guest-attributes/a/b", 405),
        ("PUT", "/computeMetadata/v1/instance/guest-attributes/a", 400),
        ("PUT", "/computeMetadata/v1/instance/guest-attributes/a/b/c", 400),
        ("DELETE", "/computeMetadata/v1/instance/guest-attributes/a/b", 404),
        ("GET", "/computeMetadata/v1/instance/zone?wait_for_change=true&timeout_sec=soon", 400),
        ("GET", "/computeMetadata/v2/", 404),
        ("GET", "/computeMetadata/v1//?recursive=true", 200),
        ("POST", "/computeMetadata/v1/instance/service-accounts/default/token", 200),
    ],
)
def test_every_request_is_answered(emulator, pod, verb, path, status):
    assert beside(emulator, "a").ask(verb, path, b"" if verb != "GET" else None).status == status


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("lab/us-west4-a/none/workers/0/", 404),
        ("lab/us-west4-a/a/workers/9/", 400),
        ("lab/us-west4-a/a/workers/x/", 400),
        ("lab/us-west4-a/../a/workers/0/", 404),
    ],
)
def test_a_worker_that_does_not_exist_is_said_not_to(web, pod, path, status):
    assert web.ask("GET", f"/_emulator/nodes/{path}")[0] == status


def test_a_worker_that_is_not_up_is_unavailable(web, emulator):
    name = create(web, "single", SINGLE)
    web.ask("POST", f"/v2/{name}:stop")
    until(lambda: web.ask("GET", f"/v2/{name}")[1]["state"] == "STOPPED")
    assert beside(emulator, "single").get("instance/zone").status == 503
    status, told = web.ask("POST", "/_emulator/nodes/metadata-server", {"name": name})
    assert (status, "is not running" in told["error"]["message"]) == (503, True)


def test_a_value_that_a_worker_publishes_is_read_by_google_s_client(emulator, pod):
    assert beside(emulator, "a", 1).put("job/state", "läuft") == 200
    with grpc_client(emulator) as client:
        answer = client.get_guest_attributes({"name": pod, "query_path": "job/"})
    values = [
        [(item.namespace, item.key, item.value) for item in each.query_value.items]
        for each in answer.guest_attributes
    ]
    assert values == [[], [("job", "state", "läuft")], [], []]


def test_a_value_can_be_withdrawn(emulator, pod):
    worker = beside(emulator, "a")
    worker.put("job/state", "on")
    path = "/computeMetadata/v1/instance/guest-attributes/job/state"
    assert worker.ask("DELETE", path).status == 200
    assert worker.get("instance/guest-attributes/job/state").status == 404


def test_a_value_that_is_too_long_or_no_text_is_refused(emulator, pod):
    worker = beside(emulator, "a")
    assert worker.put("job/state", "x" * (guest_attributes.MAX_VALUE + 1)) == 413
    assert worker.put("job/state", b"\xff") == 400


def test_what_is_written_too_often_is_lost_and_only_the_console_says_so(web, emulator, pod):
    web.ask("PATCH", "/_emulator/config", {"speed": 0.001})
    worker = beside(emulator, "a")
    assert [worker.put("job/state", str(number)) for number in range(12)] == [200] * 12
    assert emulator.world.nodes[pod].guest_attributes[0] == {("job", "state"): "2"}
    shown = serial(web, pod)
    line = "emulator: over ten queries a minute or three a second, lost: job/state"
    assert shown["lines"] == [line] * 9
    assert len(shown["guest_attribute_queries"]) == 12


def test_a_reader_takes_from_what_a_writer_may_ask(web, emulator, pod):
    web.ask("PATCH", "/_emulator/config", {"speed": 0.001})
    assert beside(emulator, "a", 1).put("job/state", "0") == 200
    for asked in ({"workerIds": ["1"]}, {}):
        status, _ = web.ask("POST", f"/v2/{pod}:getGuestAttributes", {"queryPath": "job/", **asked})
        assert status == 200
    assert beside(emulator, "a", 1).put("job/state", "1") == 200
    assert emulator.world.nodes[pod].guest_attributes[1] == {("job", "state"): "0"}
    counts = [len(serial(web, pod, worker)["guest_attribute_queries"]) for worker in range(4)]
    assert counts == [1, 4, 1, 1]
    reads = [len(serial(web, pod, worker)["guest_attribute_reads"]) for worker in range(4)]
    assert reads == [1, 2, 1, 1], "without what the worker wrote"


def test_a_preemption_ends_the_wait_for_it(web, emulator, pod):
    worker = beside(emulator, "a", 2)
    seen = worker.get("instance/preempted")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            worker.get,
            "instance/preempted",
            wait_for_change="true",
            last_etag=seen.headers["etag"],
        )
        preempt(web, pod)
        told = waiting.result()
    assert (seen.body, told.body) == ("FALSE", "TRUE")
    assert told.headers["etag"] != seen.headers["etag"]


def test_new_metadata_ends_the_wait_for_it(web, emulator, pod):
    worker = beside(emulator, "a")
    etag = worker.get("instance/attributes/foo").headers["etag"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            worker.get, "instance/attributes/foo", wait_for_change="true", last_etag=etag
        )
        web.ask("PATCH", f"/v2/{pod}?updateMask=metadata", {"metadata": {"foo": "new"}})
        assert waiting.result().body == "new"


def test_a_wait_ends_with_what_there_is_when_its_time_is_up(emulator, pod):
    answer = beside(emulator, "a").get(
        "instance/preempted", wait_for_change="true", timeout_sec="0.01"
    )
    assert (answer.status, answer.body) == (200, "FALSE")


def test_an_etag_of_long_ago_is_answered_at_once(emulator, pod):
    answer = beside(emulator, "a").get(
        "instance/", recursive="true", wait_for_change="true", last_etag="NONE"
    )
    assert answer.json()["attributes"]["foo"] == "bar"


def test_the_end_of_its_node_ends_a_wait(web, emulator, pod):
    worker = beside(emulator, "a")
    etag = worker.get("instance/attributes/foo").headers["etag"]
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            worker.get, "instance/attributes/foo", wait_for_change="true", last_etag=etag
        )
        web.ask("DELETE", f"/v2/{pod}")
        assert waiting.result().status in {404, 503}


def test_what_changes_and_changes_back_is_told_all_the_same():
    cloud = Cloud()
    cloud.ready()
    record = cloud.world.nodes[name_of("a")]
    waiting = Waiting()
    cloud.world.observers.append(lambda transition: waiting.check_node(transition.uid))

    def look():
        return build_reply(
            build_tree(Worker(record, 0), cloud.now, 1.0), f"{ROOT}instance/maintenance-event", {}
        )

    async def watch():
        told = asyncio.create_task(waiting.wait_for_change(record, look, "", None))
        await asyncio.sleep(0)
        control.maintain_node(cloud.world, {"name": record.name})
        cloud.wait(60)
        assert look().body == "NONE"
        return (await told).body

    assert asyncio.run(watch()) == "TERMINATE_ON_HOST_MAINTENANCE"
    assert not waiting


def test_google_s_credentials_work_against_a_worker(web, pod, tmp_path):
    host = port(web, pod).url.removeprefix("http://")
    environment = {
        "HOME": str(tmp_path),
        "CLOUDSDK_CONFIG": str(tmp_path),
        "GCE_METADATA_HOST": host,
        "GCE_METADATA_IP": host,
    }
    ran = subprocess.run(
        [sys.executable, "-c", DEFAULT_CREDENTIALS],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    number = 1641460164
    assert json.loads(ran.stdout) == [
        "lab",
        "Credentials",
        f"{number}-compute@developer.gserviceaccount.com",
        "ya29.",
        "googleapis.com",
        True,
        True,
    ]


def test_a_serial_console_is_empty_where_no_script_is_run(web, emulator):
    name = create(web, "scripted", SINGLE, **{"startup-script": "echo never"})
    shown = serial(web, name)
    assert shown["run_startup_scripts"] is False
    assert (shown["boots"], shown["on"], shown["lines"]) == (0, False, [])
    assert web.ask("GET", f"/_emulator/nodes/serial?name={PARENT}/nodes/none")[0] == 404
    assert web.ask("GET", "/_emulator/nodes/serial?worker=x")[0] == 400
