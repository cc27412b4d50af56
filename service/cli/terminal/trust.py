"""Decides to which address a token may be sent: its receiver can spend money."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dotenv import dotenv_values

from service.cli.terminal.errors import MISUSED, Failure, is_text

PLAIN_HTTP = "STEWARD_ALLOW_PLAIN_HTTP"
"""Read from the environment only: a file of the current folder must not decide this."""

_FILE = Path(".env")
_NAMES = ("url", "host", "port", "token", "admin_token")


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """Settings of a client: the address of the service, and the token. Empty text is not set.

    Read without `Settings`, which takes longer to load than most commands run.
    """

    url: str = ""
    host: str = ""
    port: str = ""
    token: str = field(default="", repr=False)
    admin_token: str = field(default="", repr=False)
    exported: frozenset[str] = frozenset()
    """Names of the settings that the environment sets. The others come from the file `.env`."""

    @classmethod
    def from_environment(cls) -> ClientSettings:
        """Read the environment, and the file `.env` for what it does not set.

        Raises Failure if either is not text, or if the file refers to a variable of the
        environment: a file of a cloned folder could send any secret to its address that way.
        """
        with explain_read_errors():
            filed = dotenv_values(_FILE, interpolate=False) if _FILE.is_file() else {}
        for name, value in filed.items():
            if name.upper() in map(_variable_name, _NAMES) and "${" in (value or ""):
                raise Failure(
                    f"{name} in the file .env refers to the environment; write the value itself, or"
                    f" set {name} in the environment",
                    code=MISUSED,
                )
        environment = {name.upper(): value for name, value in os.environ.items()}
        said = {name.upper(): value or "" for name, value in filed.items()} | environment
        return cls(
            **{name: said.get(_variable_name(name), "") for name in _NAMES},
            exported=frozenset(name for name in _NAMES if environment.get(_variable_name(name))),
        )

    @property
    def secret(self) -> tuple[str, str] | None:
        """The setting and the token that is sent. None where no token is set."""
        for name, said in (("token", self.token), ("admin_token", self.admin_token)):
            if secret := said.strip():
                return name, secret
        return None


@contextmanager
def explain_read_errors() -> Iterator[None]:
    """Raises Failure when the environment or the file `.env` is not text."""
    for name, value in os.environ.items():
        if name.startswith("STEWARD_") and not is_text(value):
            raise Failure(f"{name} is not UTF-8 text", code=MISUSED)
    try:
        yield
    except UnicodeDecodeError:
        raise Failure("the file .env is not UTF-8 text", code=MISUSED) from None
    except OSError as error:
        raise Failure(f"the file .env cannot be read: {error.strerror}", code=MISUSED) from None


class Source(StrEnum):
    """Where a setting comes from."""

    DEFAULT = "default"
    ENVIRONMENT = "environment"
    FILE = ".env"


def check_address(caller: ClientSettings, *, is_local: bool, is_plain: bool) -> None:
    """Raise Failure where the token must not go to the address.

    A cloned folder may have an `.env` that names an address: the token of the environment is not
    sent there. On a network, plain HTTP shows the token to others.
    """
    if caller.secret is None:
        return
    name, _ = caller.secret
    named = ("url",) if caller.url else ("host", "port")
    for setting in named if _find_source(caller, name) is Source.ENVIRONMENT else ():
        if _find_source(caller, setting) is Source.FILE:
            raise Failure(
                f"the token is not sent: {_variable_name(name)} is set in the environment, but the"
                f" address ({_variable_name(setting)}) comes from the file .env of this folder; set"
                " both in the same place",
                code=MISUSED,
            )
    if is_plain and not is_local and os.environ.get(PLAIN_HTTP, "").lower() not in ("1", "true"):
        raise Failure(
            "the token is not sent: the address is http://, so others on the network could read it;"
            f" use https://, or set {PLAIN_HTTP}=true in the environment",
            code=MISUSED,
        )


def _find_source(caller: ClientSettings, name: str) -> Source:
    if name in caller.exported:
        return Source.ENVIRONMENT
    return Source.FILE if getattr(caller, name) else Source.DEFAULT


def _variable_name(name: str) -> str:
    return f"STEWARD_{name.upper()}"
