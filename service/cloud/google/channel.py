"""Connections to Google's servers, or to the emulator in their place."""

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

from service.cloud.google.errors import translate_errors
from service.domain.errors import NotAllowed

TPU_HOST = "tpu.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
"""A page of a thousand nodes with their startup scripts is larger than gRPC's default limit of
4 MiB. Keepalive finds a dead connection during a call; servers refuse more frequent pings."""

_EMULATOR_OPTIONS = (*OPTIONS, ("grpc.enable_http_proxy", 0))
"""gRPC would send even 127.0.0.1 through the proxy of the environment."""


def open_channel(emulator: str | None, host: str = TPU_HOST) -> grpc.Channel:
    """Open a channel to the emulator at `host:port`, or to `host` with application-default
    credentials.

    The emulator never receives a credential. Raises NotAllowed if credentials are needed and
    missing.
    """
    if emulator:
        return grpc.insecure_channel(emulator, options=_EMULATOR_OPTIONS)
    channel: grpc.Channel = grpc_helpers.create_channel(
        f"{host}:443", credentials=_load_credentials(), options=OPTIONS
    )
    return channel


def tpu_client(channel: grpc.Channel) -> tpu_v2.TpuClient:
    """Google's client over a channel. Its `api_endpoint` names Google even on the emulator's
    channel."""
    return tpu_v2.TpuClient(transport=TpuGrpcTransport(channel=channel))


def legacy_client(channel: grpc.Channel) -> tpu_v1.TpuClient:
    """The client of API version 1 over the same channel: one server has all versions."""
    return tpu_v1.TpuClient(transport=LegacyTransport(channel=channel))


def rest_session(emulator: str | None) -> Any:
    """A session for plain HTTP to Google; without credentials if it is for an emulator."""
    import requests  # noqa: PLC0415 - only flex-start needs it
    from google.auth.transport.requests import AuthorizedSession  # noqa: PLC0415

    if emulator:
        session = requests.Session()
        session.trust_env = False  # neither a proxy nor somebody's .netrc
        return session
    return AuthorizedSession(_load_credentials())  # type: ignore[no-untyped-call]


def access_tokens() -> Callable[[], str]:
    """Return a function for access tokens of the application-default credentials. It refreshes an
    expired token, and raises CloudError each time if there is no token."""
    load_once = cache(_load_credentials)

    def get_token() -> str:
        from google.auth.transport.requests import Request  # noqa: PLC0415 - only registries

        with translate_errors():
            if not load_once().valid:
                load_once().refresh(Request())  # type: ignore[no-untyped-call]
            return str(load_once().token)

    return get_token


def _load_credentials() -> Credentials:
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except DefaultCredentialsError as error:
        raise NotAllowed(
            "no Google credentials were found: run `gcloud auth application-default login`, or set"
            " STEWARD_EMULATOR to work without Google",
            run="gcloud auth application-default login",
        ) from error
    return credentials
