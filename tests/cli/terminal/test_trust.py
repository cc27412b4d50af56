"""A token goes only where whoever set it wanted it to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.cli.terminal.errors import Failure
from service.cli.terminal.trust import ClientSettings, check_address
from tests.cli.given import Api, page, served, steward


def _list(*, environment: dict[str, str], file: dict[str, str]) -> tuple[int, str]:
    """(exit code, what was said) of a command with settings from both."""
    Path(".env").write_text("".join(f"{name}={value}\n" for name, value in file.items()))
    ended = steward("nodes", "list", **environment)
    return ended.exit_code, ended.stderr


@pytest.fixture
def hostile():
    """A server that somebody else runs."""
    with served(Api()) as running:
        running.when("GET", "/v1/nodes", page())
        yield running


@pytest.mark.parametrize("name", ["STEWARD_TOKEN", "STEWARD_ADMIN_TOKEN"])
def test_a_token_of_the_environment_does_not_go_where_a_file_of_the_folder_says(hostile, name):
    code, said = _list(environment={name: "secret"}, file={"STEWARD_URL": hostile.url})
    assert code == 2
    assert "the token is not sent" in said
    assert name in said
    assert ".env" in said
    assert not hostile.calls


def test_a_port_in_a_file_of_the_folder_is_an_address_too(hostile):
    port = hostile.url.rpartition(":")[2]
    code, said = _list(environment={"STEWARD_TOKEN": "secret"}, file={"STEWARD_PORT": port})
    assert code == 2
    assert "STEWARD_PORT" in said
    assert not hostile.calls


def test_a_token_of_the_file_goes_where_the_environment_says(hostile):
    """Who wrote the file knows its token already, and did not choose the address."""
    code, _ = _list(environment={"STEWARD_URL": hostile.url}, file={"STEWARD_TOKEN": "secret"})
    assert code == 0
    assert hostile.calls.pop().headers["Authorization"] == "Bearer secret"


def test_what_is_set_in_one_place_is_used(hostile):
    both = {"STEWARD_URL": hostile.url, "STEWARD_TOKEN": "secret"}
    for sources in ({"environment": both, "file": {}}, {"environment": {}, "file": both}):
        assert _list(**sources)[0] == 0
        assert hostile.calls.pop().headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["STEWARD_TOKEN", "STEWARD_URL", "steward_admin_token"])
def test_a_file_of_the_folder_sends_no_secret_of_the_environment(hostile, monkeypatch, name):
    monkeypatch.setenv("ANOTHER_SECRET", "hunter2")
    address = f"{hostile.url}/${{ANOTHER_SECRET}}" if name == "STEWARD_URL" else hostile.url
    file = {"STEWARD_URL": address} | ({} if "URL" in name else {name: "${ANOTHER_SECRET}"})
    code, said = _list(environment={}, file=file)
    assert code == 2
    assert said == (
        f"{name} in the file .env refers to the environment; write the value itself, or set {name}"
        " in the environment\n"
    )
    assert not hostile.calls


def test_the_environment_goes_before_the_file(hostile):
    both = {"STEWARD_URL": hostile.url, "STEWARD_TOKEN": "secret"}
    other = {"STEWARD_URL": "http://127.0.0.1:9", "STEWARD_TOKEN": "other"}
    assert _list(environment=both, file=other)[0] == 0
    assert hostile.calls.pop().headers["Authorization"] == "Bearer secret"


def test_without_a_token_any_address_may_be_asked(hostile):
    assert _list(environment={}, file={"STEWARD_URL": hostile.url})[0] == 0
    assert "Authorization" not in hostile.calls.pop().headers


def test_plain_http_beyond_this_machine_needs_leave(monkeypatch):
    monkeypatch.setenv("STEWARD_TOKEN", "secret")
    with pytest.raises(Failure, match="others on the network could read it"):
        check_address(ClientSettings.from_environment(), is_local=False, is_plain=True)
    check_address(ClientSettings.from_environment(), is_local=False, is_plain=False)
    check_address(ClientSettings.from_environment(), is_local=True, is_plain=True)
    Path(".env").write_text("STEWARD_ALLOW_PLAIN_HTTP=true\n")
    with pytest.raises(Failure, match="STEWARD_ALLOW_PLAIN_HTTP"):
        check_address(ClientSettings.from_environment(), is_local=False, is_plain=True)
    monkeypatch.setenv("STEWARD_ALLOW_PLAIN_HTTP", "true")
    check_address(ClientSettings.from_environment(), is_local=False, is_plain=True)


@pytest.mark.parametrize("value", ["false", "0", "no"])
def test_any_other_word_gives_no_leave_for_plain_http(monkeypatch, value):
    monkeypatch.setenv("STEWARD_TOKEN", "secret")
    monkeypatch.setenv("STEWARD_ALLOW_PLAIN_HTTP", value)
    with pytest.raises(Failure, match="the token is not sent"):
        check_address(ClientSettings.from_environment(), is_local=False, is_plain=True)
