"""Decides to which address a token may be sent: whoever receives it can spend money."""

from __future__ import annotations

import os
from enum import StrEnum

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.cli import configuration
from service.cli.failure import MISUSED, Failure

PLAIN_HTTP = "STEWARD_ALLOW_PLAIN_HTTP"
"""Read from the environment alone: a file of the current folder must not decide it."""


class Caller(BaseSettings):
    """What callers set: where the service is, and who they are."""

    model_config = SettingsConfigDict(env_prefix="STEWARD_", env_file=".env", extra="ignore")

    url: str = ""
    host: str = ""
    port: str = ""
    token: SecretStr | None = None
    admin_token: SecretStr | None = None

    @property
    def secret(self) -> tuple[str, str] | None:
        """(the setting, the token) that is sent; None where none is set."""
        for name in ("token", "admin_token"):
            said: SecretStr | None = getattr(self, name)
            if said is not None and (secret := said.get_secret_value().strip()):
                return name, secret
        return None


class Environment(Caller):
    """The same without the file `.env`."""

    model_config = SettingsConfigDict(env_prefix="STEWARD_", env_file=None, extra="ignore")


class Source(StrEnum):
    """Where a setting comes from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = ".env"


def check(caller: Caller, *, is_local: bool, is_plain: bool) -> None:
    """Raise Failure where the token must not go to the address.

    A folder that was cloned may have an `.env` of its own, which names an address: the token of the
    environment does not go there. Beyond this machine plain HTTP shows it to everybody on the way.
    """
    if caller.secret is None:
        return
    name, _ = caller.secret
    named = ("url",) if caller.url else ("host", "port")
    for setting in named if _source(caller, name) is Source.ENVIRONMENT else ():
        if _source(caller, setting) is Source.FILE:
            raise Failure(
                f"the token is not sent: {_variable(name)} is set in the environment, but the"
                f" address ({_variable(setting)}) comes from the file .env of this folder; set both"
                " in the same place",
                code=MISUSED,
            )
    if is_plain and not is_local and os.environ.get(PLAIN_HTTP, "").lower() not in ("1", "true"):
        raise Failure(
            "the token is not sent: the address is http://, so others on the network could read it;"
            f" use https://, or set {PLAIN_HTTP}=true in the environment",
            code=MISUSED,
        )


def _source(caller: Caller, name: str) -> Source:
    if getattr(configuration.read(Environment), name):
        return Source.ENVIRONMENT
    return Source.FILE if getattr(caller, name) else Source.DEFAULT


def _variable(name: str) -> str:
    return f"STEWARD_{name.upper()}"
