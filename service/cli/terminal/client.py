"""Client of the HTTP API. Every failure becomes a Failure with lines for the user."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx2

from service.cli.terminal.address import Address, address_of
from service.cli.terminal.errors import (
    MISUSED,
    Failure,
    is_google_error,
    is_problem,
    problem_to_lines,
)
from service.cli.terminal.trust import ClientSettings, check_address
from service.domain.network import DEFAULT_HOST, DEFAULT_PORT, LAST_PORT

TIMEOUT_SECONDS = 30.0
PAGE_SIZE = 1_000
SCHEMES = ("http", "https")

Params = Mapping[str, Any]


class Unreachable(Failure):
    """The service did not answer. A retry may succeed."""


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """Answer of the API: its JSON as text, and parsed."""

    text: str
    value: Any


class Client:
    """Calls the API under one address."""

    def __init__(self, http: httpx2.Client, url: str) -> None:
        self._http = http
        self._url = url

    def check_service(self) -> None:
        """Raise Unreachable when nothing answers, and Failure when another program does."""
        with self._explain_errors():
            ours = is_steward(self._http)
        if not ours:
            raise self._not_steward("answers")

    def get(self, path: str, params: Params | None = None) -> ApiAnswer:
        """Read a resource. Raises Unreachable, or Failure with the problem."""
        return self.send_request("GET", path, params=params)

    def send_request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> ApiAnswer:
        """Call the API. Raises Unreachable, or Failure with the problem that the API answers."""
        with self._explain_errors():
            response = self._http.request(
                method, path, params=_drop_empty(params), json=body, headers=headers
            )
        return self._parse_answer(response)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """Turns errors of the connection into Unreachable."""
        try:
            yield
        except httpx2.TimeoutException:
            raise Unreachable(f"{self._url} gave no answer in {TIMEOUT_SECONDS:.0f} s") from None
        except httpx2.ConnectError as error:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, ssl.SSLError):
                cause = cause.__cause__ or cause.__context__
            if cause is None:
                reason = f"nothing answers at {self._url}; start it with: tpu-steward dev"
            elif isinstance(cause, ssl.SSLCertVerificationError):
                reason = f"the certificate of {self._url} cannot be trusted: {cause.verify_message}"
            else:
                reason = (
                    f"what answers at {self._url} does not speak a known TLS version; is it http://?"
                    " (STEWARD_URL)"
                )
            raise Unreachable(reason) from None
        except httpx2.HTTPError as error:
            raise Unreachable(f"{self._url} gave no usable answer: {error}") from None

    def send_file(self, path: str, content: BinaryIO, params: Params | None = None) -> ApiAnswer:
        """Send a file of any size. The wait for the answer has no timeout: the service reads the
        file first. Raises Unreachable, or Failure with the problem."""
        with self._explain_errors():
            response = self._http.post(
                path,
                params=_drop_empty(params),
                content=content,
                headers={"Content-Type": "application/octet-stream"},
                timeout=httpx2.Timeout(TIMEOUT_SECONDS, read=None),
            )
        return self._parse_answer(response)

    def read_stream(
        self, path: str, params: Params | None = None, *, media_type: str, beats: bool = False
    ) -> Iterator[bytes]:
        """Read a file of the media type, in pieces. `beats`: the service sends keepalives.

        Raises Unreachable, or Failure with the problem. Unreachable after the first piece: the
        file is incomplete.
        """
        seconds = 2 * TIMEOUT_SECONDS if beats else TIMEOUT_SECONDS
        with (
            self._explain_errors(),
            self._http.stream("GET", path, params=_drop_empty(params), timeout=seconds) as response,
        ):
            if not response.is_success:
                response.read()
                self._parse_answer(response)
            content_type = str(response.headers.get("Content-Type", ""))
            if content_type.partition(";")[0].strip().lower() != media_type:
                raise self._not_steward(f"answered with no {media_type}")
            yield from response.iter_bytes()

    def get_all(self, path: str, noun: str, params: Params | None = None) -> ApiAnswer:
        """Read all pages of a list as one answer. A single page is returned as it came."""
        items: list[Any] = []
        token = ""
        while True:
            asked = {**(params or {}), "page_size": PAGE_SIZE, "page_token": token or None}
            answer = self.get(path, asked)
            first = not items
            if not isinstance(found := answer.value.get(noun), list):
                raise self._not_steward(f"answered without {noun}")
            items += found
            token, before = str(answer.value.get("next_page_token") or ""), token
            if token and (token == before or not found):
                raise self._not_steward("answered with a list that never ends")
            if not token:
                break
        if first:
            return answer
        whole = {**answer.value, noun: items}
        return ApiAnswer(json.dumps(whole, ensure_ascii=False), whole)

    def _parse_answer(self, response: httpx2.Response) -> ApiAnswer:
        """The answer. Raises Failure for a problem, and for an answer of another program: TPU
        Steward answers with objects that are not empty."""
        try:
            value = response.json() if response.content else None
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and value:
            if response.is_success:
                return ApiAnswer(response.text, value)
            if is_problem(value):
                raise Failure(*problem_to_lines(response.status_code, value))
            if is_google_error(value):
                raise Failure(
                    f"{self._url} is the address of the emulator, or of another API of Google's:"
                    " set STEWARD_URL to that of TPU Steward, which is http://127.0.0.1:8080"
                    " unless it was set otherwise"
                )
        raise self._not_steward(f"answered {response.status_code} {response.reason_phrase}")

    def _not_steward(self, did: str) -> Failure:
        return Failure(
            f"{self._url} {did}, and not as TPU Steward does; is it at that address? (STEWARD_URL)"
        )


def is_steward(http: httpx2.Client) -> bool:
    """Whether the server is TPU Steward. Its problem document for an unknown path shows it."""
    return "urn:tpu-steward:" in http.get("/v1").text


def quote_segment(name: str) -> str:
    """A name as one segment of a path, with every special character quoted."""
    return quote(name, safe="")


@contextmanager
def open_client() -> Iterator[Client]:
    """A client of the service at STEWARD_URL, or at the address of the settings. Raises Failure
    for an invalid address, and for a token that must not be sent to it."""
    caller = ClientSettings.from_environment()
    port = caller.port or str(DEFAULT_PORT)
    if caller.url:
        url = caller.url
    elif port.isascii() and port.isdigit() and int(port) <= LAST_PORT:
        url = Address(caller.host or DEFAULT_HOST, int(port), "STEWARD_PORT").url
    else:
        # Raises Failure for the setting that is invalid.
        from service.cli.terminal import configuration  # noqa: PLC0415 - takes longer than most commands

        url = address_of(configuration.load_settings()).url
    try:
        parsed = httpx2.URL(url)
        local = Address(parsed.host, parsed.port or 0, "STEWARD_URL").is_local
    except httpx2.InvalidURL:
        parsed, local = httpx2.URL(""), False
    if parsed.scheme not in SCHEMES or not parsed.host or (parsed.port or 0) > LAST_PORT:
        raise Failure(
            f"STEWARD_URL: {url[:200]!r} is not an address, as in http://127.0.0.1:8080",
            code=MISUSED,
        )
    check_address(caller, is_local=local, is_plain=parsed.scheme == "http")
    headers = {}
    if caller.secret is not None:
        name, secret = caller.secret
        if not (secret.isascii() and secret.isprintable()):
            raise Failure(
                f"STEWARD_{name.upper()} is no token: it has characters that are not ASCII in one"
                " line",
                code=MISUSED,
            )
        headers["Authorization"] = f"Bearer {secret}"
    # A proxy of the environment cannot reach this machine. Without TLS no certificates are loaded:
    # loading them takes longer than the request.
    nobody = local and parsed.scheme == "http"
    with httpx2.Client(
        base_url=url,
        headers=headers,
        timeout=TIMEOUT_SECONDS,
        trust_env=not local,
        verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if nobody else True,
    ) as http:
        yield Client(http, str(parsed.copy_with(userinfo=b"")).rstrip("/"))


def _drop_empty(params: Params | None) -> dict[str, Any]:
    """The parameters without None and empty lists. Empty text stays: without it the API would
    answer with everything."""
    return {name: value for name, value in (params or {}).items() if value not in (None, [], ())}
