"""The control routes about the workers of nodes, and their metadata servers on the REST port."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.emulator.errors import ApiError, Code
from service.emulator.names import Place
from service.emulator.nodes.worker import Worker, worker_of
from service.emulator.surfaces import control
from service.emulator.surfaces.rest import error_response, json_response, parse_body
from service.emulator.worker_http.workers import Workers
from service.emulator.world.world import World

NODES = "/_emulator/nodes"
# A project may be called `example.com:lab`, so its name is any text without a slash.
PREFIX = NODES + "/{project}/{zone}/{node}/workers/{worker}"
VERBS = ["GET", "HEAD", "POST", "PUT", "DELETE"]


def worker_routes(world: World, workers: Workers) -> list[Route]:
    """List the routes; every path below a worker is one that its own port would answer."""

    async def metadata(request: Request) -> Response:
        try:
            worker = _worker(world, request)
        except ApiError as error:
            return error_response(error)
        path = f"/{request.path_params['path']}"
        prefix = str(request.scope["path"]).removesuffix(path)
        return await workers.metadata.answer(request, worker, path, prefix)

    async def port(request: Request) -> Response:
        try:
            worker = control.worker(world, parse_body(await request.body()))
            return json_response({"address": await workers.address(worker)})
        except ApiError as error:
            return error_response(error)

    async def serial(request: Request) -> Response:
        try:
            return json_response(workers.serial(control.any_worker(world, _asked(request))))
        except ApiError as error:
            return error_response(error)

    return [
        Route(f"{NODES}/metadata-server", port, methods=["POST"]),
        Route(f"{NODES}/serial", serial, methods=["GET"]),
        Route(f"{PREFIX}/{{path:path}}", metadata, methods=VERBS),
    ]


def _worker(world: World, request: Request) -> Worker:
    world.settle()
    part = request.path_params
    record = world.find(Place(part["project"], part["zone"]).child("nodes", part["node"]))
    return worker_of(record, _number(part["worker"]))


def _asked(request: Request) -> dict[str, object]:
    """Read a query as the body that says the same."""
    query: dict[str, object] = dict(request.query_params)
    if "worker" in query:
        query["worker"] = _number(str(query["worker"]))
    return query


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise ApiError(Code.INVALID_ARGUMENT, "worker must be a whole number")
    return int(text)
