"""A loopback port for each worker: real clients can only be configured with an address."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from service.emulator.catalog import region_of
from service.emulator.errors import ApiError, Code
from service.emulator.nodes.worker import Worker
from service.emulator.surfaces.guard import Guard, Hosts
from service.emulator.surfaces.rest import build_endpoint, error_response
from service.emulator.surfaces.storage import PREFIXES, answer_storage, unauthenticated_response
from service.emulator.worker_http.control_channel import ControlChannel
from service.emulator.workers.server import MetadataServer
from service.emulator.world.world import World

LOOPBACK = "127.0.0.1"
NAMES = {
    *("127.0.0.1", "localhost", "::1", "169.254.169.254"),
    *("metadata", "metadata.google.internal", "metadata.google.internal."),
}
WRITE_LOGS = ("POST", "/v2/entries:write")
ELSEWHERE = "An emulated worker reaches its metadata server and nothing beyond this machine.\n"


class WorkerPorts:
    """Every open port by its worker. A port belongs to a node's uid, not to its name.

    A port serves the metadata, Cloud Logging and Cloud Storage.
    """

    def __init__(self, world: World, server: MetadataServer, channel: ControlChannel) -> None:
        self._world = world
        self._server = server
        self._channel = channel
        self._rest = build_endpoint(world)
        self._open: dict[tuple[int, int], _Port] = {}
        self._config = uvicorn.Config(
            # The host is checked below: a worker has several names for itself.
            Guard(self._answer_request, hosts=Hosts.ANY),
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
        )

    def __bool__(self) -> bool:
        return bool(self._open)

    async def open_port(self, worker: Worker) -> str:
        """Return the address of a worker's port, which is opened if needed. Raises ApiError."""
        key = worker.uid, worker.number
        if key not in self._open:
            try:
                listener = socket.create_server((LOOPBACK, 0))
            except OSError as error:
                raise ApiError(Code.RESOURCE_EXHAUSTED, f"no port is left: {error}") from None
            # Set before the first await, so that concurrent calls return the same port.
            port = self._open[key] = _Port(worker, listener)
            if not self._config.loaded:
                self._config.load()
            await port.start_serving(self._config)
        return self._open[key].address

    def close_unless(self, wanted: Callable[[Worker], bool]) -> None:
        """Close the ports of all workers that are not wanted."""
        for key, port in list(self._open.items()):
            if not wanted(port.worker):
                del self._open[key]
                port.close()

    async def close(self) -> None:
        """Close every port, and cancel the requests under way."""
        ports = list(self._open.values())
        self.close_unless(lambda _: False)
        tasks = [task for port in ports for task in port.state.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for port in ports:
            port.close()
        # Transports close in the next iteration of the loop.
        await asyncio.sleep(0)

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._find_response(request)
        except ApiError as error:
            response = error_response(error)
        await response(scope, receive, send)

    async def _find_response(self, request: Request) -> Response:
        server = tuple(request.scope["server"])
        port = next((port for port in self._open.values() if port.name == server), None)
        if port is None:
            raise ApiError(Code.UNAVAILABLE, "The worker is gone.")
        worker = port.worker
        if request.url.hostname not in NAMES:
            return PlainTextResponse(ELSEWHERE, 403)
        path = request.scope["path"]
        if "://" in path and not path.startswith("/"):
            # Clients send a whole URL as the target to a proxy.
            path = f"/{path.partition('://')[2].partition('/')[2]}"
        if path.startswith("/_emulator/"):
            return await self._channel.answer_request(request, worker, path)
        if path.startswith(PREFIXES) or (request.method, path) == WRITE_LOGS:
            return await self._answer_google(request, worker, path)
        return await self._server.answer_request(request, worker, path)

    async def _answer_google(self, request: Request, worker: Worker, path: str) -> Response:
        """Answer for Google's services, which require a token but accept any."""
        if not request.headers.get("authorization", "").startswith("Bearer "):
            return unauthenticated_response()
        if path.startswith(PREFIXES):
            region = region_of(worker.record.place.zone)
            return await answer_storage(self._world, request, region)
        return await self._rest(request)


class _Port:
    def __init__(self, worker: Worker, listener: socket.socket) -> None:
        self.worker = worker
        self.name = listener.getsockname()
        self.state = ServerState()
        self._listener = listener
        self._serving: asyncio.Server | None = None

    @property
    def address(self) -> str:
        host, port = self.name
        return f"{host}:{port}"

    async def start_serving(self, config: uvicorn.Config) -> None:
        """Serve like a uvicorn server, without the loop of its own."""
        make = partial(
            config.http_protocol_class, config=config, server_state=self.state, app_state={}
        )  # type: ignore[call-arg]
        loop = asyncio.get_running_loop()
        self._serving = await loop.create_server(make, sock=self._listener)

    def close(self) -> None:
        if self._serving is None:
            self._listener.close()
        else:
            self._serving.close()
        for connection in list(self.state.connections):
            connection.shutdown()
