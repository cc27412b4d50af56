"""Cloud Storage beside the emulated TPUs: its JSON API, whoever asks, and played checkpoints."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from service.emulator.artifacts.storage import Full, PreconditionFailed, Storage
from tests.emulator.docker import Docker
from tests.emulator.worker_view import SINGLE, create, port, serial, until

OBJECTS = "/storage/v1/b/ckpt/o"
UPLOAD = "/upload/storage/v1/b/ckpt/o?uploadType=media&name="
BEARER: dict[str, Any] = {"Authorization": "Bearer x"}


def ask(url: str, verb: str, path: str, body: bytes | None = None, **headers: str) -> Any:
    """Give the status and the bytes of an answer."""
    request = urllib.request.Request(url + path, body, headers, method=verb)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def put(web, name, content=b"{}"):
    status, told = web.ask("POST", UPLOAD + name, content)
    assert status == 200
    return told


def names(told):
    return [each["name"] for each in told.get("items", [])]


def test_an_object_is_written_read_listed_and_deleted(web):
    told = put(web, "run%2Fstep-1", b"\x00bytes\r\n")
    assert (told["bucket"], told["name"], told["size"]) == ("ckpt", "run/step-1", "8")
    path = f"{OBJECTS}/run%2Fstep-1"
    assert web.ask("GET", path)[1]["generation"] == told["generation"]
    assert ask(web.url, "GET", f"{path}?alt=media") == (200, b"\x00bytes\r\n")
    assert ask(web.url, "GET", f"/download{path}?alt=media") == (200, b"\x00bytes\r\n")
    assert names(web.ask("GET", OBJECTS)[1]) == ["run/step-1"]
    assert ask(web.url, "DELETE", path) == (204, b"")
    status, error = web.ask("GET", path)
    assert (status, error["error"]["message"]) == (404, "No such object: ckpt/run/step-1")
    assert error["error"]["errors"][0]["reason"] == "notFound"


def test_an_upload_in_two_parts_keeps_its_bytes(web):
    body = (
        b'--cut\r\nContent-Type: application/json\r\n\r\n{"name": "a/b"}\r\n'
        b"--cut\r\nContent-Type: text/x\r\n\r\nline\r\n\r\n\n\r\n--cut--"
    )
    kind = {"Content-Type": 'multipart/related; boundary="cut"'}
    path = "/upload/storage/v1/b/ckpt/o?uploadType=multipart"
    status, told = ask(web.url, "POST", path, body, **kind)
    assert (status, json.loads(told)["contentType"]) == (200, "text/x")
    assert ask(web.url, "GET", f"{OBJECTS}/a%2Fb?alt=media") == (200, b"line\r\n\r\n\n")
    assert ask(web.url, "POST", path, b"--cut", **kind)[0] == 400


def test_a_list_is_cut_by_prefix_delimiter_and_page(web):
    for name in ("a%2F1", "a%2F2", "a%2Fdeep%2F3", "a%2Fdeep%2F4", "b"):
        put(web, name)
    assert names(web.ask("GET", f"{OBJECTS}?prefix=a/")[1]) == [
        *("a/1", "a/2", "a/deep/3", "a/deep/4")
    ]
    told = web.ask("GET", f"{OBJECTS}?prefix=a/&delimiter=/")[1]
    assert (names(told), told["prefixes"]) == (["a/1", "a/2"], ["a/deep/"])
    found, token = [], ""
    while True:
        told = web.ask("GET", f"{OBJECTS}?maxResults=2&pageToken={token}")[1]
        found += names(told)
        token = told.get("nextPageToken")
        if not token:
            break
        assert len(told["items"]) == 2
    assert found == ["a/1", "a/2", "a/deep/3", "a/deep/4", "b"]
    assert web.ask("GET", f"{OBJECTS}?pageToken=%FF")[0] == 400


def test_a_response_is_cut_to_the_fields_asked_for(web):
    put(web, "a")
    whole = web.ask("GET", OBJECTS)[1]["items"][0]
    for fields in ("items(name,etag),nextPageToken", "items/name", "items.name"):
        assert web.ask("GET", f"{OBJECTS}?fields={fields}") == (200, {"items": [{"name": "a"}]})
    assert web.ask("GET", f"{OBJECTS}?fields=items/*") == (200, {"items": [whole]})
    assert web.ask("GET", f"{OBJECTS}/a?fields=size") == (200, {"size": "2"})
    assert web.ask("GET", "/storage/v1/b/ckpt?fields=name") == (200, {"name": "ckpt"})


@pytest.mark.parametrize(
    ("path", "fields", "stray"),
    [
        (OBJECTS, "items(nmae)", "nmae"),
        (OBJECTS, "name", "name"),
        (f"{OBJECTS}/a", "items", "items"),
        ("/storage/v1/b/ckpt", "name,((", "name,(("),
    ],
)
def test_an_unknown_field_is_refused_in_the_words_of_cloud_storage(web, path, fields, stray):
    put(web, "a")
    status, told = web.ask("GET", f"{path}?fields={fields}")
    text = f"Invalid field selection {stray}"
    error = {"message": text, "domain": "global", "reason": "invalidParameter"}
    assert (status, told) == (400, {"error": {"code": 400, "message": text, "errors": [error]}})


def test_an_upload_with_an_unknown_field_writes_nothing(web):
    assert web.ask("POST", f"{UPLOAD}b&fields=nmae", b"{}")[0] == 400
    assert web.ask("GET", f"{OBJECTS}/b")[0] == 404


def test_a_writer_may_expect_a_generation(web):
    first = put(web, "a")
    assert web.ask("POST", f"{UPLOAD}a&ifGenerationMatch=0", b"")[0] == 412
    match = f"&ifGenerationMatch={first['generation']}"
    assert web.ask("POST", f"{UPLOAD}a{match}", b"")[0] == 200
    assert web.ask("POST", f"{UPLOAD}a{match}", b"")[0] == 412


def test_a_bucket_is_there_unless_the_configuration_says_otherwise(web):
    settings = {
        "gone": {"missing": True},
        "writeonly": {"readable": False},
        "readonly": {"writable": False, "location": "eu"},
    }
    assert web.ask("PATCH", "/_emulator/config", {"buckets": settings})[0] == 200
    bucket = "/storage/v1/b/"
    told = web.ask("GET", f"{bucket}any")[1]
    assert (told["location"], told["locationType"]) == ("US-CENTRAL1", "region")
    told = web.ask("GET", f"{bucket}readonly")[1]
    assert (told["location"], told["locationType"]) == ("EU", "multi-region")
    assert [web.ask("GET", f"{bucket}{name}")[0] for name in ("gone", "writeonly")] == [404, 403]
    every = "permissions=storage.objects.list&permissions=storage.objects.create&permissions=x"

    def held(name):
        return web.ask("GET", f"{bucket}{name}/iam/testPermissions?{every}")[1].get("permissions")

    assert held("any") == ["storage.objects.list", "storage.objects.create"]
    assert held("readonly") == ["storage.objects.list"]
    assert held("writeonly") == ["storage.objects.create"]
    assert web.ask("GET", f"{bucket}gone/iam/testPermissions?{every}")[0] == 404
    assert web.ask("GET", f"{bucket}writeonly/o")[0] == 403
    path = "/upload/storage/v1/b/{}/o?uploadType=media&name=a"
    assert [web.ask("POST", path.format(name), b"")[0] for name in settings] == [404, 200, 403]


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"buckets": {"UPPER": {}}}, "is no name of a bucket"),
        ({"buckets": {"abc": {"colour": 1}}}, "unknown key of a bucket colour"),
        ({"buckets": {"abc": {"missing": 1}}}, "missing must be true or false"),
        ({"images": {"a": {"digest": "x"}}}, "digest must be sha256:"),
        ({"images": {"a": {"pull_seconds": -1}}}, "pull_seconds must be a number from 0"),
        ({"images": {"a": {"pull_fails": 7}}}, "pull_fails must be a text"),
        ({"real_workers": 513}, "real_workers must be a whole number from 0 to 512"),
    ],
)
def test_settings_that_make_no_sense_are_refused(web, patch, text):
    status, told = web.ask("PATCH", "/_emulator/config", patch)
    assert (status, text in told["error"]["message"]) == (400, True), told


@pytest.mark.parametrize(
    ("verb", "path", "status"),
    [
        ("GET", "/storage/v1/b/AB", 400),
        ("GET", "/storage/v2/b/abc", 404),
        ("PUT", "/storage/v1/b/abc/o/x", 404),
        ("GET", "/storage/v1/b/abc/iam/policy", 404),
        ("POST", "/upload/storage/v1/b/abc/o?uploadType=resumable&name=a", 400),
        ("POST", "/upload/storage/v1/b/abc/o?uploadType=media", 400),
    ],
)
def test_what_is_not_known_is_refused_as_cloud_storage_does(web, verb, path, status):
    found, told = web.ask(verb, path)
    assert (found, told["error"]["code"]) == (status, status)


def test_a_reset_forgets_every_object(web):
    put(web, "a")
    web.ask("POST", "/_emulator/reset")
    assert "items" not in web.ask("GET", OBJECTS)[1]


def test_the_memory_of_all_objects_has_an_end(monkeypatch):
    monkeypatch.setattr("service.emulator.artifacts.storage.MAX_BYTES", 10)
    storage = Storage()
    storage.put("b", "a", b"x" * 8, "", 1.0)
    storage.put("b", "a", b"x" * 9, "", 1.0)
    with pytest.raises(Full):
        storage.put("c", "a", b"xx", "", 1.0)
    with pytest.raises(PreconditionFailed):
        storage.put("b", "a", b"", "", 1.0, if_generation=1)
    assert storage.delete("b", "a")
    assert storage.put("c", "a", b"xx", "", 1.0).generation == 1_000_002


def test_a_worker_reaches_storage_and_logging_on_its_own_port(web, emulator):
    worker = port(web, create(web, "a", SINGLE)).url
    path = "/storage/v1/b/ckpt"
    assert ask(worker, "GET", path)[0] == 401
    status, told = ask(worker, "GET", path, **BEARER)
    assert (status, json.loads(told)["location"]) == (200, "US-WEST4")
    entry = {"logName": "projects/lab/logs/x", "resource": {"type": "global"}, "textPayload": "hi"}
    body = json.dumps({"entries": [entry]}).encode()
    assert ask(worker, "POST", "/v2/entries:write", body)[0] == 401
    assert ask(worker, "POST", "/v2/entries:write", body, **BEARER)[0] == 200
    query = {"resourceNames": ["projects/lab"], "filter": 'textPayload="hi"'}
    assert len(web.ask("POST", "/v2/entries:list", query)[1]["entries"]) == 1
    # Nothing else of Google's is there.
    assert ask(worker, "POST", "/v2/entries:list", b"{}", **BEARER)[0] == 404
    assert ask(worker, "GET", "/v2/projects/lab/locations", **BEARER)[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "evil.example"},
    ],
)
@pytest.mark.parametrize(
    "path", ["/storage/v1/b/ckpt", "/_emulator/speed", "/computeMetadata/v1/instance/id"]
)
def test_no_web_page_reaches_the_port_of_a_worker(web, emulator, path, headers):
    worker = port(web, create(web, "a", SINGLE)).url
    flavor: dict[str, Any] = {"Metadata-Flavor": "Google"}
    assert ask(worker, "GET", path, **BEARER, **flavor)[0] == 200
    assert ask(worker, "GET", path, **BEARER, **flavor, **headers)[0] == 403


def test_no_web_page_reaches_storage_on_the_rest_port(web):
    assert ask(web.url, "GET", OBJECTS, Origin="https://evil.example")[0] == 403


@pytest.fixture
def docker(web, tmp_path):
    """The stand-in docker on a worker of an emulator that runs no scripts, as a training would."""
    address = port(web, create(web, "a", SINGLE)).url.removeprefix("http://")
    docker = Docker(tmp_path / "docker", extra=(("GCE_METADATA_HOST", address),))
    yield docker
    docker.end()


TRAIN = (
    *("-e", "EMULATOR_STEPS=5", "-e", "EMULATOR_STEP_SECONDS=1"),
    *("-e", "EMULATOR_CHECKPOINT_EVERY=2", "-e", "STEWARD_CHECKPOINT_DIR=gs://ckpt/run/"),
)


def test_a_played_training_saves_checkpoints_and_goes_on_after_the_newest(web, docker):
    said = docker("run", *TRAIN, "train")
    assert said.code == 0, said.err
    steps = ["STEWARD_STEP 5", "STEWARD_DONE"]
    assert said.out.splitlines() == [
        "training from step 0 of 5",
        *("STEWARD_STEP 1", "STEWARD_STEP 2", "STEWARD_CHECKPOINT 2"),
        *("STEWARD_STEP 3", "STEWARD_STEP 4", "STEWARD_CHECKPOINT 4", *steps),
    ]
    path = "/storage/v1/b/ckpt/o?prefix=run/"
    assert names(web.ask("GET", path)[1]) == ["run/step-00000002", "run/step-00000004"]
    again = docker("run", *TRAIN, "-e", "EMULATOR_DEVICE_COUNT=8", "train")
    first = ["training from step 4 of 5", "STEWARD_DEVICES 8"]
    assert again.out.splitlines() == [*first, *steps]


def test_only_the_first_worker_of_a_job_writes_the_checkpoints_of_all(web, docker):
    said = docker("run", *TRAIN, "-e", "STEWARD_WORKER=1", "train")
    assert "STEWARD_CHECKPOINT 4" in said.out
    assert names(web.ask("GET", OBJECTS)[1]) == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"missing": True}, "answered 404"), ({"readable": False}, "answered 403")],
)
def test_a_played_training_fails_without_its_bucket(web, docker, settings, text):
    web.ask("PATCH", "/_emulator/config", {"buckets": {"ckpt": settings}})
    said = docker("run", *TRAIN, "train")
    assert (said.code, text in said.err) == (1, True), said.err


def test_a_pull_goes_as_the_configuration_says(web, docker):
    digest = f"sha256:{'b' * 64}"
    images = {
        "host/flaky": {"pull_fails": "unavailable", "times": 2},
        "host/full": {"pull_fails": "no-space"},
        "host/moved": {"digest": digest},
        "host/denied": {"pull_fails": ""},
    }
    assert web.ask("PATCH", "/_emulator/config", {"images": images})[0] == 200
    assert [docker("pull", "host/flaky:v1").code for _ in range(3)] == [1, 1, 0]
    assert "no space left on device" in docker("pull", "host/full").err
    assert docker("pull", "host/denied").code == 0
    docker("pull", "host/moved:v1")
    template = "{{index .RepoDigests 0}}"
    shown = docker("image", "inspect", "-f", template, "host/moved:v1").out
    assert shown == f"host/moved@{digest}\n"
    assert web.ask("GET", "/_emulator/config")[1]["images"]["host/flaky"]["times"] == 2


def test_queries_of_a_worker_are_counted_by_its_console(web, emulator):
    name = create(web, "a", SINGLE)
    assert serial(web, name)["guest_attribute_queries"] == []
    port(web, name).put("a/b", "c")
    [at] = until(lambda: serial(web, name)["guest_attribute_queries"])
    assert at > 0
