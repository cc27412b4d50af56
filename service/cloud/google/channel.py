"""The way to Google's servers, or to the emulator in their place."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import google.auth
import grpc
from google.api_core import grpc_helpers
from google.auth.credentials import Credentials
from google.auth.exceptions import DefaultCredentialsError
from google.cloud import tpu_v1, tpu_v2
from google.cloud.tpu_v1.services.tpu.transports import TpuGrpcTransport as LegacyTransport
from google.cloud.tpu_v2.services.tpu.transports import TpuGrpcTransport

from service.cloud.google.errors import translated
from service.domain.errors import NotAllowed

TPU_HOST = "tpu.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
"""A page of a thousand nodes with their startup scripts is larger than the 4 MiB that gRPC takes by
default. Keepalive finds a dead connection during a call; servers do not like it more often."""

_EMULATOR_OPTIONS = (*OPTIONS, ("grpc.enable_http_proxy", 0))
"""gRPC would send even 127.0.0.1 through the proxy of the environment."""


def connect(emulator: str | None, host: str = TPU_HOST) -> grpc.Channel:
    """A channel to the emulator at `host:port`, or with application-default credentials to `host`.

    Whatever is reached as the emulator never gets to see a credential. Raises NotAllowed when it
    is Google's turn and there are no credentials.
    """
    if emulator:
        return grpc.insecure_channel(emulator, options=_EMULATOR_OPTIONS)
    channel: grpc.Channel = grpc_helpers.create_channel(
        f"{host}:443", credentials=_credentials(), options=OPTIONS
    )
    return channel


def tpu_client(channel: grpc.Channel) -> tpu_v2.TpuClient:
    """Google's client over a channel; its `api_endpoint` names Google even on the emulator's."""
    return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))


def legacy_client(channel: grpc.Channel) -> tpu_v1.TpuClient:
    """The client of API version 1 over the same channel: all versions are one server's."""
    return tpu_v1.TpuClient(transport=LegacyTransport(channel=channel))


def rest_session(emulator: str | None) -> Any:
    """A session for plain HTTP to Google; one without credentials when it is for an emulator."""
    import requests  # noqa: PLC0415 - only flex-start needs it
    from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415

    if emulator:
        session = requests.Session()
        session.trust_env = False  # neither a proxy nor somebody's .netrc
        return session
    return AuthorizedSession(_credentials())  # type: ignore[no-untyped-call]


def access_tokens() -> Callable[[], str]:
    """Answers an access token of the application-default credentials, a new one where the last has
    run out. Raises CloudError each time where there is none to be had."""

    @cache
    def credentials() -> Credentials:
        return _credentials()

    def token() -> str:
        from google.auth.transport.requests import Request  # noqa: PLC0415 - only registries

        with translated():
            if not credentials().valid:
                credentials().refresh(Request())  # type: ignore[no-untyped-call]
            return str(credentials().token)

    return token


def _credentials() -> Credentials:
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except DefaultCredentialsError as error:
        raise NotAllowed(
            "no Google credentials were found: run `gcloud auth application-default login`, or set"
            " STEWARD_EMULATOR to work without Google",
            run="gcloud auth application-default login",
        ) from error
    return credentials
