"""The way to Google needs credentials; the way to an emulator never sees one."""

from __future__ import annotations

from typing import Any
from unittest.mock import create_autospec

import google.auth
import grpc
import pytest
from google.api_core import grpc_helpers
from google.auth.credentials import Credentials
from google.auth.exceptions import DefaultCredentialsError
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.cloud.google import channel
from service.domain.errors import NotAllowed


@pytest.fixture
def secure(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = create_autospec(grpc_helpers.create_channel)
    monkeypatch.setattr(grpc_helpers, "create_channel", made)
    return made


def test_an_emulator_is_reached_without_looking_for_credentials(monkeypatch, secure):
    def nobody_asks(*_: Any, **__: Any) -> Any:
        raise AssertionError("credentials were looked for")

    monkeypatch.setattr(google.auth, "default", nobody_asks)
    opened = channel.open_channel("127.0.0.1:1")
    client = channel.tpu_client(opened)
    assert isinstance(client.transport, TpuGrpcTransport)
    assert client.transport.grpc_channel is opened
    assert not secure.called
    opened.close()


def test_an_emulator_is_never_reached_through_a_proxy(monkeypatch):
    options: list[Any] = []
    monkeypatch.setattr(grpc, "insecure_channel", lambda _, options=options: options)
    given: Any = channel.open_channel("127.0.0.1:1")
    assert ("grpc.enable_http_proxy", 0) in given


@pytest.mark.parametrize("emulator", [None, ""])
def test_without_an_emulator_it_is_google_with_the_default_credentials(
    emulator, monkeypatch, secure
):
    credentials = create_autospec(Credentials, instance=True)
    asked = []

    def default(scopes):
        asked.append(scopes)
        return credentials, "lab"

    monkeypatch.setattr(google.auth, "default", default)
    assert channel.open_channel(emulator) is secure.return_value
    assert asked == [["https://www.googleapis.com/auth/cloud-platform"]]
    secure.assert_called_once_with(
        "tpu.googleapis.com:443", credentials=credentials, options=channel.OPTIONS
    )
    assert ("grpc.max_receive_message_length", -1) in channel.OPTIONS


def test_another_api_has_its_own_host(monkeypatch, secure):
    monkeypatch.setattr(google.auth, "default", lambda **_: (None, None))
    channel.open_channel(None, "monitoring.googleapis.com")
    assert secure.call_args.args == ("monitoring.googleapis.com:443",)


def test_missing_credentials_say_which_command_to_run(monkeypatch, secure):
    def none_found(scopes: Any) -> Any:
        raise DefaultCredentialsError("Your default credentials were not found.")

    monkeypatch.setattr(google.auth, "default", none_found)
    with pytest.raises(NotAllowed, match="gcloud auth application-default login"):
        channel.open_channel(None)
    assert not secure.called
