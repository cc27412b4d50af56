"""How pages and static files are sent: compressed, and only if the caller has no such page yet."""

from __future__ import annotations

import gzip
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, wraps
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.templating import Jinja2Templates
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from service.dashboard.kit.unknown import prefers_html

log = structlog.get_logger(__name__)

AS_OF_HEADER = "X-As-Of"
"""The time at which a page was made, also of a page that did not change otherwise."""

SMALLEST_BYTES = 1_000
"""Smaller answers are sent as they are: they fit into one packet in any case."""

LINES = "lines"
"""The name of the way in which changes of a page are sent: see `list_changes`."""

_LEVEL = 6
_SHARED_HEADERS = {"etag", "vary", "cache-control", AS_OF_HEADER.lower()}
_TRUSTED_SITES = {"none", "same-origin"}
_AS_OF = re.compile(rb'<span id="as-of"[^>]*>as of <time datetime="([^"]*)"')
_STAMPED = "as of <time "
_ENTITY_TAG = re.compile(r'"[^"]*"')


class RecentPages:
    """The pages that were sent last, by their tags, of a limited size in bytes together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._pages: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def keep(self, tag: str, body: bytes) -> None:
        """Keep a page, and drop the oldest ones that have no room any more."""
        with self._lock:
            self._bytes += len(body) - len(self._pages.pop(tag, b""))
            self._pages[tag] = body
            while self._bytes > self._most_bytes:
                self._bytes -= len(self._pages.popitem(last=False)[1])

    def find(self, tags: Sequence[str]) -> bytes | None:
        """A page with one of these tags. None if none of them is kept."""
        with self._lock:
            return next((self._pages[tag] for tag in tags if tag in self._pages), None)


_recent = RecentPages(8_000_000)
"""Of this process. A caller whose page another process sent gets the whole page again."""


class HtmlRoute(APIRoute):
    """A route for browsers: an error of the service is a page too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, with a page for errors that nothing else answers."""
        answer = super().get_route_handler()

        async def answer_or_say_why(request: Request) -> Response:
            try:
                return await answer(request)
            except (HTTPException, RequestValidationError):
                raise
            except Exception:
                if not prefers_html(request.headers.get("accept", "")):
                    raise
                path = request.scope["route"].path  # without the token of a link
                log.exception("request failed", method=request.method, path=path)
                return show_failure(request)

        return answer_or_say_why


def show_failure(request: Request) -> Response:
    """The page for an error of the service. The log has the error, the page has not."""
    number = structlog.contextvars.get_contextvars().get("request_id", "")
    facts = {
        "heading": "This page failed",
        "message": f"This is a fault of the service. Its log has the reason at request {number}.",
        "back": ("/", "Overview"),
    }
    pages: Jinja2Templates = request.app.state.templates
    headers = {"Cache-Control": "no-store"}
    return pages.TemplateResponse(request, "error.html", facts, status_code=500, headers=headers)


class PageRoute(HtmlRoute):
    """A route whose pages are compressed. A caller that has a page gets only what changed."""

    def __init__(self, path: str, endpoint: Callable[..., Response], **settings: Any) -> None:
        @wraps(endpoint)
        def make_and_finish(**values: Any) -> Response:  # in one turn of a thread
            page, request = endpoint(**values), values["request"]
            is_page = page.status_code == 200 and page.media_type == "text/html"
            if request.method != "GET" or not is_page:
                return page
            return finish_page(request.headers, page, _recent)

        super().__init__(path, make_and_finish, **settings)


def finish_page(asked: Headers, page: Response, recent: RecentPages) -> Response:
    """The page as it is sent. An answer 304 if the caller has the same page already.

    A caller that sends `A-IM: lines` (RFC 3229) gets 226 with the changes of its page, if the page
    is one of `recent`. The time of the page does not count as a change. Each answer names it in
    `X-As-Of`, so that the caller can show it. The tag is weak: it does not tell a compressed page
    from the same page as it is.
    """
    body = bytes(page.body)
    as_of = _AS_OF.search(body)
    tag = f'"{digest_page(body)}"'
    page.headers["ETag"] = f"W/{tag}"
    page.headers.add_vary_header("Accept-Encoding, Cookie")
    if as_of is not None:
        page.headers[AS_OF_HEADER] = as_of[1].decode()
    headers = {name: value for name, value in page.headers.items() if name in _SHARED_HEADERS}
    known = _ENTITY_TAG.findall(asked.get("if-none-match", ""))
    if tag in known:
        return Response(status_code=304, headers=headers)
    if asked.get("a-im") == LINES:
        before = recent.find(known)
        recent.keep(tag, body)
        if before is not None:
            changes = json.dumps(list_changes(before, body), ensure_ascii=False).encode()
            headers |= {"IM": LINES, "Content-Type": "application/json"}
            page, body = Response(changes, 226, headers), changes
    if len(body) >= SMALLEST_BYTES and may_compress(asked):
        page.body = gzip.compress(body, _LEVEL, mtime=0)
        page.headers["Content-Encoding"] = "gzip"
        page.headers["Content-Length"] = str(len(page.body))
    return page


def list_changes(before: bytes, after: bytes) -> list[str | tuple[int, int]]:
    """What makes `after` out of `before`, line by line: a new line, or the place and the number of
    lines that are taken from `before`. A line with the time of the page is always new: pages of one
    tag differ in it."""
    old = before.decode().split("\n")
    places = {line: place for place, line in reversed(list(enumerate(old)))}
    found: list[str | tuple[int, int]] = []
    expected = 0
    for line in after.decode().split("\n"):
        is_expected = expected < len(old) and old[expected] == line
        here = expected if is_expected else places.get(line, -1)
        here = -1 if _STAMPED in line else here
        last = found[-1] if found else ""
        if here < 0:
            found.append(line)
            expected += 1
            continue
        if isinstance(last, tuple) and sum(last) == here:
            found[-1] = (last[0], last[1] + 1)
        else:
            found.append((here, 1))
        expected = here + 1
    return found


def digest_page(body: bytes) -> str:
    """The digest of a page, without the time at which it was made."""
    as_of = _AS_OF.search(body)
    if as_of is not None:
        stamp = rb'as of <time datetime="%b"[^>]*>[^<]*</time>' % re.escape(as_of[1])
        body = re.sub(stamp, b"as of", body)
    return sha256(body).hexdigest()[:20]


def may_compress(asked: Headers) -> bool:
    """Whether an answer may be compressed: the caller can read it, and no page of another site
    asked. Such a page could put text into an address and learn from the length of the answer what
    else is in it (BREACH)."""
    if asked.get("sec-fetch-site", "none") not in _TRUSTED_SITES:
        return False
    for coding in asked.get("accept-encoding", "").lower().split(","):
        name, _, weight = coding.replace(" ", "").partition(";")
        if name == "gzip":
            return not re.fullmatch(r"q=0(\.0*)?", weight)
    return False


class DigestedFiles(StaticFiles):
    """Static files whose address has a digest of the content: a browser keeps them for a year.

    Any other address of a file is asked for again each time.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)
        self._folder = folder

    async def get_response(self, path: str, scope: Scope) -> Response:
        """The file, with the time for which it may be kept."""
        answer = await super().get_response(path, scope)
        if answer.status_code in {200, 304}:
            is_exact = scope["query_string"] == f"v={digest_file(self._folder / path)}".encode()
            keep = "public, max-age=31536000, immutable" if is_exact else "no-cache"
            answer.headers["Cache-Control"] = keep
        return answer


@cache
def digest_file(path: Path) -> str:
    """The digest of a static file, as its address has it."""
    return sha256(path.read_bytes()).hexdigest()[:12]


def build_static_app(folder: Path) -> ASGIApp:
    """The application that sends the static files of a folder, compressed."""
    return GZipMiddleware(DigestedFiles(folder), SMALLEST_BYTES, _LEVEL)
