"""The way to the service, and every way in which it can be closed."""

from __future__ import annotations

import pytest

from tests.cli.given import free_port, page, steward


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
