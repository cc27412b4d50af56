"""The way to the service, and every way in which it can be closed."""

from __future__ import annotations

import pytest

from tests.cli.given import node, page, steward
from tests.ports import free_port


def test_where_nothing_answers_it_is_said_what_to_start():
    port = str(free_port())
    result = steward("nodes", "list", STEWARD_PORT=port)
    line = f"nothing answers at http://127.0.0.1:{port}; start it with: tpu-steward dev\n"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line)


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://", "http://[::1"])
def test_an_address_that_is_none_is_a_usage_error(url):
    result = steward("nodes", "list", STEWARD_URL=url)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"STEWARD_URL: {url!r} is not an address")


@pytest.mark.parametrize(
    ("environment", "header"),
    [
        ({}, None),
        ({"STEWARD_ADMIN_TOKEN": "a"}, "Bearer a"),
        ({"STEWARD_ADMIN_TOKEN": "a", "STEWARD_TOKEN": "b"}, "Bearer b"),
        ({"STEWARD_TOKEN": " "}, None),
    ],
)
def test_the_caller_s_own_token_goes_first(api, environment, header):
    api.when("GET", "/v1/nodes", page())
    assert steward("nodes", "list", **environment).exit_code == 0
    assert api.calls[0].headers.get("Authorization") == header


def test_what_is_set_in_a_file_counts(api, tmp_path):
    (tmp_path / ".env").write_text("STEWARD_TOKEN=from-file\n")
    api.when("GET", "/v1/nodes", page())
    steward("nodes", "list")
    assert api.calls[0].headers["Authorization"] == "Bearer from-file"


@pytest.mark.parametrize(("status", "text"), [(200, "<html>"), (502, "bad gateway"), (200, "")])
def test_another_program_at_that_address_is_told_apart(api, status, text):
    api.when("GET", "/v1/nodes", text, status=status)
    result = steward("nodes", "list")
    assert result.exit_code == 1
    assert "and not as TPU Steward does" in result.stderr


def test_bad_settings_are_one_line_each():
    result = steward("nodes", "list", STEWARD_PORT="x", STEWARD_INSTALL="No Good")
    assert result.exit_code == 2
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
        "STEWARD_PORT",
        "STEWARD_INSTALL",
    ]


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://ä..b"])
def test_an_address_that_nothing_can_have_is_a_usage_error(url):
    result = steward("nodes", "list", STEWARD_URL=url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "is not an address" in result.stderr


def test_a_password_in_the_address_is_not_shown():
    result = steward("nodes", "list", STEWARD_URL=f"http://ada:secret@127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "nothing answers at http://127.0.0.1" in result.stderr
    assert "secret" not in result.stderr


def test_where_no_tls_is_spoken_that_is_said(api):
    url = api.url.replace("http", "https")
    result = steward("nodes", "list", STEWARD_URL=url)
    assert result.exit_code == 1
    assert result.stderr == (
        f"what answers at {url} does not speak a known TLS version; is it http://? (STEWARD_URL)\n"
    )


@pytest.mark.parametrize("name", ["STEWARD_TOKEN", "STEWARD_ADMIN_TOKEN"])
@pytest.mark.parametrize("token", ["secret\nsecret", "secret\x7f", "secreté"])
def test_a_token_that_is_none_is_not_shown(api, name, token):
    result = steward("nodes", "list", **{name: token})
    assert result.exit_code == 2
    assert result.stderr.startswith(f"{name} is no token")
    assert "secret" not in result.stderr
    assert not api.calls


def test_the_emulator_is_not_taken_for_the_service(api):
    not_found = {"code": 404, "message": "The requested URL was not found.", "status": "NOT_FOUND"}
    api.when("GET", "/v1/nodes", {"error": not_found}, status=404)
    result = steward("nodes", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{api.url} is the address of the emulator, or of another API")


def test_a_list_without_an_end_is_no_list_of_ours(api):
    api.when("GET", "/v1/nodes", page(node(), token="1"))
    result = steward("nodes", "list")
    assert result.exit_code == 1
    assert "answered with a list that never ends, and not as TPU Steward does" in result.stderr


def test_empty_text_is_asked_for_as_it_was_typed(api):
    api.when("GET", "/v1/orphans", {"orphans": [], "unpriced": 0})
    steward("orphans", "list", "--project", "")
    assert api.calls[0].query["project"] == [""]


def test_settings_that_are_no_text_are_one_line(tmp_path):
    (tmp_path / ".env").write_bytes(b"STEWARD_URL=http://\xff\n")
    for command in (("nodes", "list"), ("serve",)):
        result = steward(*command)
        assert (result.exit_code, result.stderr) == (2, "the file .env is not UTF-8 text\n")


@pytest.mark.parametrize("name", ["STEWARD_URL", "STEWARD_TOKEN", "STEWARD_DATABASE_URL"])
def test_a_setting_that_is_no_text_is_named_and_not_shown(name):
    result = steward("nodes", "list", **{name: "secret\udcff"})
    assert (result.exit_code, result.stderr) == (2, f"{name} is not UTF-8 text\n")


def test_what_is_typed_has_to_be_text(api):
    result = steward("nodes", "show", "trainer\udcff")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'trainer\\udcff' is not UTF-8 text" in result.stderr
    assert not api.calls
