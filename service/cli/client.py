"""Asks the HTTP API, and turns every way in which that can fail into lines for a person."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import httpx2
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.cli import configuration, problem
from service.cli.address import Address
from service.cli.failure import MISUSED, Failure
from service.cli.serve import address_of

TIMEOUT_SECONDS = 30.0
PAGE_SIZE = 1_000

Params = Mapping[str, Any]


class Caller(BaseSettings):
    """What only callers set: where the service is, and who they are."""

    model_config = SettingsConfigDict(env_prefix="STEWARD_", env_file=".env", extra="ignore")

    url: str = ""
    token: SecretStr | None = None
    admin_token: SecretStr | None = None


class Unreachable(Failure):
    """The service did not answer; it may the next time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API said: its JSON as text, and what that means."""

    text: str
    value: Any


class Client:
    """Calls the API under one address."""

    def __init__(self, http: httpx2.Client, url: str) -> None:
        self._http = http
        self._url = url

    def get(self, path: str, params: Params | None = None) -> Answer:
        """Read something."""
        return self.ask("GET", path, params=params)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Call the API. Raises Unreachable, or Failure with what the API says is wrong."""
        with self._reaching():
            response = self._http.request(
                method, path, params=_said(params), json=body, headers=headers
            )
        return self._read(response)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Says in a line what keeps the service from answering."""
        try:
            yield
        except httpx2.TimeoutException:
            raise Unreachable(f"{self._url} gave no answer in {TIMEOUT_SECONDS:.0f} s") from None
        except httpx2.ConnectError:
            raise Unreachable(
                f"nothing answers at {self._url}; start it with: tpu-steward dev"
            ) from None
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self._url} gave no usable answer: {error}") from None

    def send(self, path: str, content: BinaryIO, params: Params | None = None) -> Answer:
        """Send a file as it is, however large it is and however long its reading takes. Raises as
        `ask` does."""
        with self._reaching():
            response = self._http.post(
                path,
                params=_said(params),
                content=content,
                headers={"Content-Type": "application/octet-stream"},
                timeout=httpx2.Timeout(TIMEOUT_SECONDS, read=None),
            )
        return self._read(response)

    def stream(self, path: str, params: Params | None = None) -> Iterator[bytes]:
        """Read a file, a piece at a time. Raises as `ask` does, and Unreachable where it breaks
        off: what came until then is not the whole of it."""
        with (
            self._reaching(),
            self._http.stream("GET", path, params=_said(params)) as response,
        ):
            if not response.is_success:
                response.read()
                self._read(response)
            yield from response.iter_bytes()

    def pages(self, path: str, noun: str, params: Params | None = None) -> Answer:
        """Read a list to its end: one page as it is, more of them as one."""
        items: list[Any] = []
        token = ""
        while True:
            asked = {**(params or {}), "page_size": PAGE_SIZE, "page_token": token}
            answer = self.get(path, asked)
            first = not items
            items += answer.value[noun]
            token = str(answer.value.get("next_page_token") or "")
            if not token:
                break
        if first:
            return answer
        whole = {**answer.value, noun: items}
        return Answer(json.dumps(whole, ensure_ascii=False), whole)

    def _read(self, response: httpx2.Response) -> Answer:
        try:
            value = response.json() if response.content else None
        except ValueError:
            value = None
        if response.is_success and value is not None:
            return Answer(response.text, value)
        if isinstance(value, dict):
            raise Failure(*problem.lines(response.status_code, value))
        raise Failure(
            f"{self._url} answered {response.status_code} {response.reason_phrase}, and not as"
            " TPU Steward does; is it at that address? (STEWARD_URL)"
        )


@contextmanager
def connected() -> Iterator[Client]:
    """A client for the service at STEWARD_URL, or where the settings say that it listens."""
    caller = Caller()
    url = caller.url or address_of(configuration.load()).url
    try:
        parsed = httpx2.URL(url)
        local = Address(parsed.host, parsed.port or 0, "STEWARD_URL").is_local
    except httpx2.InvalidURL:
        parsed, local = httpx2.URL(""), False
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Failure(
            f"STEWARD_URL: {url[:200]!r} is not an address, as in http://127.0.0.1:8080",
            code=MISUSED,
        )
    # A proxy of the environment could not reach this machine.
    with httpx2.Client(
        base_url=url, headers=_headers(caller), timeout=TIMEOUT_SECONDS, trust_env=not local
    ) as http:
        yield Client(http, url.rstrip("/"))


def _headers(caller: Caller) -> dict[str, str]:
    for token in (caller.token, caller.admin_token):
        if token is not None and (secret := token.get_secret_value().strip()):
            if not secret.isascii():
                raise Failure(
                    "STEWARD_TOKEN is no token: it has letters beyond ASCII", code=MISUSED
                )
            return {"Authorization": f"Bearer {secret}"}
    return {}


def _said(params: Params | None) -> dict[str, Any]:
    """What was really asked for: None, empty text and empty lists say nothing."""
    return {
        name: value for name, value in (params or {}).items() if value not in (None, "", [], ())
    }
