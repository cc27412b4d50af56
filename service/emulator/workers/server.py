"""The metadata server of a worker over HTTP, on any port."""

from __future__ import annotations

import asyncio
import html
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.emulator.errors import ApiError
from service.emulator.nodes import guest_attributes
from service.emulator.nodes.worker import Worker
from service.emulator.workers.metadata import GUESTS_DISABLED, build_tree
from service.emulator.workers.replies import (
    ROOT,
    Reply,
    build_reply,
    error_page,
    not_found,
    reply_above,
)
from service.emulator.workers.tree import Query
from service.emulator.workers.waiting import Waiting
from service.emulator.world.world import World

HEADERS = {
    "Metadata-Flavor": "Google",
    "Server": "Metadata Server for VM",
    "X-XSS-Protection": "0",
    "X-Frame-Options": "SAMEORIGIN",
}
GUESTS = f"{ROOT}instance/guest-attributes/"
GONE = Reply(503, "The worker is not running.\n")
MAX_WAIT = 10 * 365 * 24 * 3600.0

Write = Callable[[Worker, list[str]], None]


@dataclass
class MetadataServer:
    """Answers for every worker.

    `write` gets the lines with the warnings that a real server does not give.
    """

    world: World
    waiting: Waiting
    write: Write

    async def answer_request(
        self, request: Request, worker: Worker, path: str, prefix: str = ""
    ) -> Response:
        """Answer a request for a path of the tree; `prefix` is the path before it on this port."""
        found = await self._find_reply(request, worker, path)
        headers = dict(HEADERS)
        if found.etag:
            headers["ETag"] = found.etag
        if found.location:
            headers["Location"] = prefix + found.location
        return Response(
            found.body.encode(errors="replace"), found.status, headers, found.content_type
        )

    async def _find_reply(self, request: Request, worker: Worker, path: str) -> Reply:
        refusal = _find_refusal(request, path)
        if refusal is not None:
            return refusal
        if path.startswith(GUESTS):
            changed = await self._change_attribute(request, worker, path)
            if changed is not None:
                return changed
        # A client that binds its tokens to a certificate asks for them by POST.
        if request.method in {"GET", "HEAD"} or path.endswith("/token"):
            return await self._read_metadata(request, worker, path)
        return error_page(405, "Method Not Allowed", f"{request.method} is not supported here.")

    async def _change_attribute(self, request: Request, worker: Worker, path: str) -> Reply | None:
        """Count a query of guest attributes, and write or delete one; None for a read."""
        if not guest_attributes.is_enabled(worker.record):
            return Reply(GUESTS_DISABLED.status, GUESTS_DISABLED.text)
        now = self.world.run_due_events()
        allowed = guest_attributes.count_query(
            worker.record, worker.number, now, self.world.config.speed
        )
        if request.method == "DELETE":
            space, _, key = path.removeprefix(GUESTS).partition("/")
            if not guest_attributes.delete_value(worker.record, worker.number, space, key):
                return not_found(path)
            self.waiting.check_node(worker.uid)
            return Reply(200, "")
        if request.method == "PUT":
            body = b""
            async for chunk in request.stream():
                # A body that is too long is read to its end, but not kept.
                if len(body) <= guest_attributes.MAX_VALUE:
                    body += chunk
            return self._publish_attribute(worker, path, body, allowed=allowed)
        return None

    async def _read_metadata(self, request: Request, worker: Worker, path: str) -> Reply:
        """Return a value, or wait for its change; GONE if the client disconnects first."""
        query = dict(request.query_params)
        self.world.run_due_events()
        look = partial(self._look_up, worker, path, query)
        if query.get("wait_for_change") != "true":
            return look()
        try:
            seconds = _parse_seconds(query)
        except ValueError:
            return error_page(400, "Bad Request", "timeout_sec must be a number of seconds.")
        last_etag = query.get("last_etag", "")
        change = self.waiting.wait_for_change(worker.record, look, last_etag, seconds)
        changing = asyncio.create_task(change)
        leaving = asyncio.create_task(_wait_for_disconnect(request))
        try:
            await asyncio.wait({changing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return changing.result() if changing.done() else GONE
        finally:
            changing.cancel()
            leaving.cancel()
            await asyncio.gather(changing, leaving, return_exceptions=True)

    def _look_up(self, worker: Worker, path: str, query: Query) -> Reply:
        """Return a value without settling the world: an event may be under way."""
        if not worker.is_up or self.world.nodes.get(worker.record.name) is not worker.record:
            return GONE
        return build_reply(
            build_tree(worker, self.world.clock(), self.world.config.speed), path, query
        )

    def _publish_attribute(self, worker: Worker, path: str, body: bytes, *, allowed: bool) -> Reply:
        """Write a guest attribute. Over the allowance the value is lost, but the reply is 200."""
        space, _, key = path.removeprefix(GUESTS).partition("/")
        if not allowed:
            lost = f"over ten queries a minute or three a second, lost: {space}/{key}"
            self.write(worker, [f"emulator: {lost}"])
            return Reply(200, "")
        try:
            if len(body) > guest_attributes.MAX_VALUE:
                return error_page(
                    413, "Payload Too Large", f"At most {guest_attributes.MAX_VALUE} bytes."
                )
            guest_attributes.publish_value(worker.record, worker.number, space, key, body.decode())
        except ApiError as error:
            return error_page(400, "Bad Request", html.escape(error.message))
        except UnicodeDecodeError:
            return error_page(400, "Bad Request", "The value must be UTF-8.")
        self.waiting.check_node(worker.uid)
        return Reply(200, "")


def _find_refusal(request: Request, path: str) -> Reply | None:
    """Return the refusal of a forwarded request or one without Google's header; None if valid."""
    if "x-forwarded-for" in request.headers:
        return error_page(403, "Forbidden", "Requests that were forwarded are refused.")
    found = reply_above(path)
    if found is not None or not path.startswith(ROOT):
        return found or not_found(path)
    if request.headers.get("metadata-flavor") != "Google":
        return error_page(403, "Forbidden", "Missing required header: Metadata-Flavor: Google")
    return None


def _parse_seconds(query: Query) -> float | None:
    """Return the seconds to wait, None for no limit. The wait is real time, whatever the speed.

    Raises ValueError.
    """
    text = query.get("timeout_sec", "")
    if not text:
        return None
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(text)
    return min(max(seconds, 0.0), MAX_WAIT)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
