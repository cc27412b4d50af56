"""Registries are asked safely, and what they say is checked."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import threading
from contextlib import closing, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from service import outbound
from service.cloud.registry import OciRegistry
from service.domain.errors import (
    CloudUnavailable,
    ImageDenied,
    ImageNotFound,
    NoSuchPlatform,
    NotAllowed,
    Rejected,
)
from service.domain.jobs.image import ImageFacts
from service.emulator.app import Emulator, run_in_thread

INDEX = json.dumps(
    {
        "manifests": [
            {"digest": "x", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": "y", "platform": {"os": "linux", "architecture": "arm64", "variant": "v8"}},
            {"digest": "z", "platform": {"os": "unknown", "architecture": "unknown"}},
            {"digest": "w"},
            "nonsense",
        ]
    }
).encode()
CONFIG = json.dumps({"os": "linux", "architecture": "amd64"}).encode()
IMAGE = "registry.example.com/team/trainer:v1"
MANIFEST_PATH = "/v2/team/trainer/manifests/v1"


def digest_of(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


SINGLE = json.dumps({"config": {"digest": digest_of(CONFIG)}}).encode()
BLOB_PATH = f"/v2/team/trainer/blobs/{digest_of(CONFIG)}"


class Server(ThreadingHTTPServer):
    """Plays every host: answers by host and path, and keeps what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answering)
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, str, dict[str, str]]] = []

    def say(self, path, status=200, body=b"", **headers):
        self.answers[path] = status, body, headers


class Answering(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        self.server.asked.append((self.headers["Host"], self.path, dict(self.headers)))
        known = self.server.answers.get(self.path.partition("?")[0], (404, b"", {}))
        if callable(known):
            known = known(self.headers)
        status, body, headers = known
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def registry(server):
    """Our adapter; every https host is the server on this machine."""

    @contextmanager
    def dial(url, seconds):
        assert url.scheme == "https"
        address = "127.0.0.1", server.server_port
        with (
            socket.create_connection(address, timeout=seconds) as plain,
            closing(http.client.HTTPConnection(url.hostname, timeout=seconds)) as caller,
        ):
            caller.sock = plain
            yield caller

    return partial(OciRegistry, dial)


def test_an_index_tells_its_platforms_and_the_digest_of_its_bytes(server, registry):
    server.say(MANIFEST_PATH, body=INDEX, Docker_Content_Digest=digest_of(INDEX))
    facts = registry().resolve(IMAGE, "arm64")
    assert facts == ImageFacts(digest_of(INDEX), ("linux/amd64", "linux/arm64"))
    ((host, _, headers),) = server.asked
    assert host == "registry.example.com"
    assert "application/vnd.oci.image.index.v1+json" in headers["Accept"]
    assert "Authorization" not in headers


def test_a_single_manifest_is_for_the_platform_of_its_configuration(server, registry):
    server.say(MANIFEST_PATH, body=SINGLE)
    server.say(BLOB_PATH, body=CONFIG)
    assert registry().resolve(IMAGE, "amd64").platforms == ("linux/amd64",)
    with pytest.raises(NoSuchPlatform):
        registry().resolve(IMAGE, "arm64")


@pytest.mark.parametrize(
    ("status", "body", "location"),
    [
        (307, b"", "https://storage.example.com/blob"),
        (404, b"", ""),
        (200, b"{}", ""),
        (200, b"x" * 1_000_001, ""),
    ],
)
def test_a_configuration_that_is_not_to_be_had_leaves_the_platform_open(
    server, registry, status, body, location
):
    server.say(MANIFEST_PATH, body=SINGLE)
    server.say(BLOB_PATH, status, body, Location=location)
    assert registry().resolve(IMAGE, "arm64") == ImageFacts(digest_of(SINGLE), ())
    assert {host for host, _, _ in server.asked} == {"registry.example.com"}


def test_a_short_name_is_asked_for_at_docker_hub(server, registry):
    server.say("/v2/library/python/manifests/3.12", body=INDEX)
    assert registry().resolve("python:3.12", "amd64").digest == digest_of(INDEX)
    assert server.asked[0][0] == "registry-1.docker.io"


CHALLENGE = (
    'Bearer realm="https://auth.example.com/token",service="registry.example.com",'
    'scope="repository:team/trainer:pull"'
)


def with_token(headers):
    if headers.get("Authorization") == "Bearer anonymous":
        return 200, INDEX, {}
    return 401, b"", {"WWW-Authenticate": CHALLENGE}


def test_an_anonymous_token_is_taken_where_the_registry_says(server, registry):
    server.answers[MANIFEST_PATH] = with_token
    server.say("/token", body=b'{"token": "anonymous"}')
    assert registry().resolve(IMAGE, "amd64").digest == digest_of(INDEX)
    host, path, headers = server.asked[1]
    assert host == "auth.example.com"
    assert path == "/token?service=registry.example.com&scope=repository%3Ateam%2Ftrainer%3Apull"
    assert "Authorization" not in headers


@pytest.mark.parametrize(
    ("challenge", "status", "token", "meant"),
    [
        ("", 200, b"", ImageDenied),
        ('Basic realm="x"', 200, b"", ImageDenied),
        (CHALLENGE, 403, b"", ImageDenied),
        (CHALLENGE, 200, b'{"token": "wrong"}', ImageDenied),
        (CHALLENGE, 200, b"{}", CloudUnavailable),
        (CHALLENGE, 500, b"", CloudUnavailable),
        (CHALLENGE, 200, b'{"token": "a\\r\\nHost: b"}', CloudUnavailable),
        ('Bearer realm="http://auth.example.com/token"', 200, b"", CloudUnavailable),
        ('Bearer realm="file:///etc/passwd"', 200, b"", CloudUnavailable),
    ],
)
def test_a_sign_in_that_fails_says_why(server, registry, challenge, status, token, meant):
    server.say(MANIFEST_PATH, 401, WWW_Authenticate=challenge)
    server.say("/token", status, token)
    with pytest.raises(meant):
        registry().resolve(IMAGE, "amd64")


def test_googles_token_goes_to_googles_registries_alone(server, registry):
    server.say("/v2/p/r/i/manifests/v1", body=INDEX)
    server.say(MANIFEST_PATH, body=INDEX)
    ours = registry(access_token=lambda: "secret")
    ours.resolve("us-docker.pkg.dev/p/r/i:v1", "amd64")
    ours.resolve(IMAGE, "amd64")
    assert [headers.get("Authorization") for _, _, headers in server.asked] == [
        "Bearer secret",
        None,
    ]


def test_without_a_token_of_google_its_public_images_are_read(server, registry):
    def no_token() -> str:
        raise NotAllowed("no credentials")

    server.say("/v2/p/i/manifests/latest", body=INDEX)
    assert registry(access_token=no_token).resolve("gcr.io/p/i", "amd64").platforms
    server.say("/v2/p/i/manifests/latest", 403)
    with pytest.raises(ImageDenied, match=r"roles/artifactregistry\.reader"):
        registry(access_token=no_token).resolve("gcr.io/p/i", "amd64")


@pytest.mark.parametrize(
    ("status", "headers", "body", "meant"),
    [
        (404, {}, b"", ImageNotFound),
        (403, {}, b"", ImageDenied),
        (429, {}, b"", CloudUnavailable),
        (500, {}, b"", CloudUnavailable),
        (200, {}, b"<html>", CloudUnavailable),
        (200, {}, b"[]", CloudUnavailable),
        (200, {}, b"{}", CloudUnavailable),
        (200, {}, b'{"config": {"digest": "../../x"}}', CloudUnavailable),
        (200, {}, b"x" * 1_000_001, CloudUnavailable),
        (200, {"Docker_Content_Digest": digest_of(b"other")}, INDEX, CloudUnavailable),
        (302, {"Location": "https://elsewhere.example.com/x"}, b"", CloudUnavailable),
        (302, {"Location": "http://registry.example.com/x"}, b"", CloudUnavailable),
        (302, {"Location": MANIFEST_PATH}, b"", CloudUnavailable),
        (302, {}, b"", CloudUnavailable),
    ],
)
def test_every_other_answer_is_an_error_named_by_what_to_do(
    server, registry, status, headers, body, meant
):
    server.say(MANIFEST_PATH, status, body, **headers)
    with pytest.raises(meant):
        registry().resolve(IMAGE, "amd64")
    assert {host for host, _, _ in server.asked} == {"registry.example.com"}


def test_a_redirect_within_the_registry_is_followed(server, registry):
    server.say(MANIFEST_PATH, 307, Location="/elsewhere?a=b")
    server.say("/elsewhere", body=INDEX)
    assert registry().resolve(IMAGE, "amd64").digest == digest_of(INDEX)


def test_an_image_by_its_digest_has_that_digest(server, registry):
    right, wrong = digest_of(INDEX), digest_of(b"other")
    for digest in (right, wrong):
        server.say(f"/v2/team/trainer/manifests/{digest}", body=INDEX)
    assert registry().resolve(f"registry.example.com/team/trainer@{right}", "amd64").digest == right
    with pytest.raises(CloudUnavailable, match="another digest"):
        registry().resolve(f"registry.example.com/team/trainer@{wrong}", "amd64")


def test_what_is_no_image_is_never_asked_for(server, registry):
    with pytest.raises(Rejected):
        registry().resolve("--privileged", "amd64")
    assert server.asked == []


def test_a_registry_on_this_machine_is_not_asked():
    with pytest.raises(CloudUnavailable, match="not public"):
        OciRegistry().resolve("localhost:5000/a", "amd64")


def test_a_name_that_leads_nowhere_is_unavailable():
    with pytest.raises(CloudUnavailable, match="cannot be reached"):
        OciRegistry().resolve("registry.invalid/a", "amd64")


def test_a_registry_that_does_not_answer_is_cut_off():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}/v2"
        dial = partial(outbound.dial, allow_private=True)
        with pytest.raises(CloudUnavailable, match="cannot be reached"):
            OciRegistry(dial, base=base, timeout=0.2).resolve("python", "amd64")


def test_the_first_line_of_a_request_names_path_and_query():
    assert outbound.request_target(urlsplit("https://example.com")) == "/"
    assert outbound.request_target(urlsplit("https://example.com/a?b=c")) == "/a?b=c"


# ---- the emulator's registry, through the same code


@pytest.fixture(scope="module")
def emulator():
    with run_in_thread() as made:
        yield made


def emulated(emulator: Emulator, timeout: float = 10.0) -> OciRegistry:
    base = f"{emulator.rest_url}/_emulator/registry/v2"
    return OciRegistry(partial(outbound.dial, allow_private=True), base=base, timeout=timeout)


def test_an_emulated_image_is_resolved_and_found_again_by_its_digest(emulator):
    registry = emulated(emulator)
    facts = registry.resolve("us-docker.pkg.dev/lab/images/trainer:v1", "arm64")
    assert facts.platforms == ("linux/amd64", "linux/arm64")
    assert facts == registry.resolve("us-docker.pkg.dev/lab/images/trainer:v1", "amd64")
    pinned_name = f"us-docker.pkg.dev/lab/images/trainer@{facts.digest}"
    assert registry.resolve(pinned_name, "amd64") == facts
    assert registry.resolve("python", "amd64").digest != facts.digest


@pytest.mark.parametrize(
    ("image", "meant"),
    [
        ("gcr.io/lab/noimage", ImageNotFound),
        ("python:denied", ImageDenied),
        ("python:arm64only", NoSuchPlatform),
    ],
)
def test_emulated_refusals_are_told_apart(emulator, image, meant):
    with pytest.raises(meant):
        emulated(emulator).resolve(image, "amd64")


def test_an_emulated_registry_may_be_down_or_slow(emulator):
    from service.emulator.surfaces import control  # noqa: PLC0415

    slow = {"docker.io/library/slow:latest": {"status": "slow", "seconds": 60}}
    control.change_config(emulator.world, {"registry": {"images": slow}})
    with pytest.raises(CloudUnavailable, match="cannot be reached"):
        emulated(emulator, timeout=0.2).resolve("slow", "amd64")
    control.change_config(emulator.world, {"registry": {"down": True}})
    with pytest.raises(CloudUnavailable, match="answers 503"):
        emulated(emulator).resolve("python", "amd64")
    control.change_config(emulator.world, {"registry": {"down": False, "images": {}}})
