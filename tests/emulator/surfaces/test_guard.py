"""No web page can give orders to the emulator, and no client of a Google API is kept out."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from service.emulator.surfaces.guard import is_loopback
from service.emulator.surfaces.web import build_app
from tests.emulator.factories import PARENT

BODY = '{"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}'


@pytest.fixture
def ask(cloud):
    def asking(headers: dict[str, str], *, loopback_only: bool = False, allowed=()):
        app = build_app(cloud.world, loopback_only=loopback_only, allowed_hosts=allowed)
        url = f"/v2/{PARENT}/nodes?nodeId=a"
        with TestClient(app, base_url="http://127.0.0.1:9471") as client:
            return client.post(url, content=BODY, headers=headers)

    return asking


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:8080"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_a_page_from_elsewhere_is_refused_in_the_words_of_the_api(ask, cloud, headers):
    answer = ask(headers)
    assert (answer.status_code, answer.json()["error"]["status"]) == (403, "PERMISSION_DENIED")
    assert cloud.world.nodes == {}


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:9471"}, {"host": "emulator:9471"}],
)
def test_clients_and_its_own_pages_are_served(ask, headers):
    assert ask(headers).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:9471", 200), ("localhost:9471", 200), ("[::1]:9471", 200), ("evil.example", 403)],
)
def test_where_scripts_are_run_the_host_must_be_this_machine(ask, host, status):
    assert ask({"host": host}, loopback_only=True).status_code == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("10.1.2.3:9471", 200),
        ("[2001:db8::1]:9471", 200),
        ("emulator", 200),
        ("evil.example:9471", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_name_that_a_page_could_make_mean_this_machine_is_refused(ask, cloud, host, status):
    """DNS rebinding: the name of the page itself leads here, so nothing looks foreign."""
    answer = ask({"host": host, "origin": f"http://{host}"})
    assert answer.status_code == status
    if status == 403:
        assert "--allow-host" in answer.json()["error"]["message"]
        assert cloud.world.nodes == {}


@pytest.mark.parametrize("loopback_only", [True, False])
def test_a_name_that_was_allowed_is_answered(ask, loopback_only):
    allowed = ["tpu.lab.example"]
    for host in ("tpu.lab.example:9471", "TPU.lab.example"):
        answer = ask({"host": host}, loopback_only=loopback_only, allowed=allowed)
        assert answer.status_code != 403
        ask_again = ask({"host": f"x.{host}"}, loopback_only=loopback_only, allowed=allowed)
        assert ask_again.status_code == 403


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_only_some_names_can_mean_nothing_but_this_machine(host, loopback):
    assert is_loopback(host) is loopback
