"""The metadata server of a worker over HTTP, wherever its requests come in."""

from __future__ import annotations

import asyncio
import html
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.emulator.errors import ApiError
from service.emulator.nodes import guest_attributes
from service.emulator.nodes.worker import Worker
from service.emulator.workers.metadata import GUESTS_DISABLED, tree
from service.emulator.workers.replies import ROOT, Reply, above, not_found, page, reply
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

Remark = Callable[[Worker, str], None]


@dataclass
class MetadataServer:
    """Answers for every worker; `remark` is told what no real server would say."""

    world: World
    waiting: Waiting
    remark: Remark

    async def answer(
        self, request: Request, worker: Worker, path: str, prefix: str = ""
    ) -> Response:
        """Answer for a path as the worker would spell it; `prefix` is where it really is."""
        found = await self._answer(request, worker, path)
        headers = dict(HEADERS)
        if found.etag:
            headers["ETag"] = found.etag
        if found.location:
            headers["Location"] = prefix + found.location
        return Response(
            found.body.encode(errors="replace"), found.status, headers, found.content_type
        )

    async def _answer(self, request: Request, worker: Worker, path: str) -> Reply:
        refusal = _refusal(request, path)
        if refusal is not None:
            return refusal
        if path.startswith(GUESTS):
            changed = await self._change(request, worker, path)
            if changed is not None:
                return changed
        # A client that binds its tokens to a certificate asks for them by POST.
        if request.method in {"GET", "HEAD"} or path.endswith("/token"):
            return await self._read(request, worker, path)
        return page(405, "Method Not Allowed", f"{request.method} is not supported here.")

    async def _change(self, request: Request, worker: Worker, path: str) -> Reply | None:
        """Count a query of guest attributes, and do what it wants; None if it wants to read."""
        if not guest_attributes.enabled(worker.record):
            return Reply(GUESTS_DISABLED.status, GUESTS_DISABLED.text)
        allowed = self._count(worker)
        if request.method == "DELETE":
            return self._withdraw(worker, path)
        if request.method == "PUT":
            return self._publish(worker, path, await _body(request), allowed=allowed)
        return None

    async def _read(self, request: Request, worker: Worker, path: str) -> Reply:
        query = dict(request.query_params)
        self.world.settle()
        look = partial(self._look, worker, path, query)
        if query.get("wait_for_change") != "true":
            return look()
        try:
            seconds = _seconds(query)
        except ValueError:
            return page(400, "Bad Request", "timeout_sec must be a number of seconds.")
        last_etag = query.get("last_etag", "")
        change = self.waiting.change(worker.record, look, last_etag, seconds)
        return await _unless_disconnected(request, change)

    def _look(self, worker: Worker, path: str, query: Query) -> Reply:
        """Read a value without letting anything happen: it may be asked amid what happens."""
        if not worker.up or self.world.nodes.get(worker.record.name) is not worker.record:
            return GONE
        return reply(tree(worker, self.world.clock(), self.world.config.speed), path, query)

    def _withdraw(self, worker: Worker, path: str) -> Reply:
        space, _, key = path.removeprefix(GUESTS).partition("/")
        if not guest_attributes.withdraw(worker.record, worker.number, space, key):
            return not_found(path)
        self.waiting.check(worker.uid)
        return Reply(200, "")

    def _publish(self, worker: Worker, path: str, body: bytes | None, *, allowed: bool) -> Reply:
        """Write a guest attribute; over the allowance it is lost, and its writer is not told."""
        space, _, key = path.removeprefix(GUESTS).partition("/")
        if not allowed:
            self.remark(worker, f"over ten queries a minute or three a second, lost: {space}/{key}")
            return Reply(200, "")
        try:
            if body is None:
                return page(
                    413, "Payload Too Large", f"At most {guest_attributes.MAX_VALUE} bytes."
                )
            guest_attributes.publish(worker.record, worker.number, space, key, body.decode())
        except ApiError as error:
            return page(400, "Bad Request", html.escape(error.message))
        except UnicodeDecodeError:
            return page(400, "Bad Request", "The value must be UTF-8.")
        self.waiting.check(worker.uid)
        return Reply(200, "")

    def _count(self, worker: Worker) -> bool:
        now = self.world.settle()
        return guest_attributes.count_query(
            worker.record, worker.number, now, self.world.config.speed
        )


def _refusal(request: Request, path: str) -> Reply | None:
    """Refuse what did not come from a program that knows where it is, as Google documents."""
    if "x-forwarded-for" in request.headers:
        return page(403, "Forbidden", "Requests that were forwarded are refused.")
    found = above(path)
    if found is not None or not path.startswith(ROOT):
        return found or not_found(path)
    if request.headers.get("metadata-flavor") != "Google":
        return page(403, "Forbidden", "Missing required header: Metadata-Flavor: Google")
    return None


async def _body(request: Request) -> bytes | None:
    """Read a body, None if it is too long."""
    body = b""
    async for chunk in request.stream():
        if len(body) <= guest_attributes.MAX_VALUE:
            body += chunk
    return body if len(body) <= guest_attributes.MAX_VALUE else None


def _seconds(query: Query) -> float | None:
    """Read how long to wait, None for ever; the wait is the client's, so speed has no part in it.

    Raises ValueError.
    """
    text = query.get("timeout_sec", "")
    if not text:
        return None
    seconds = float(text)
    if not math.isfinite(seconds):
        raise ValueError(text)
    return min(max(seconds, 0.0), MAX_WAIT)


async def _unless_disconnected(request: Request, change: Coroutine[None, None, Reply]) -> Reply:
    """Wait, but not longer than the client does."""
    changing = asyncio.create_task(change)
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({changing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return changing.result() if changing.done() else GONE
    finally:
        changing.cancel()
        leaving.cancel()
        await asyncio.gather(changing, leaving, return_exceptions=True)


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
