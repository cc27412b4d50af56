"""The control routes of workers, and their metadata servers on the REST port."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.emulator.errors import ApiError, Code
from service.emulator.names import Place
from service.emulator.nodes.worker import get_running_worker
from service.emulator.surfaces import control
from service.emulator.surfaces.rest import error_response, json_response, parse_body
from service.emulator.worker_http.workers import Workers
from service.emulator.world.world import World

NODES = "/_emulator/nodes"
# A project's name is any text without a slash, such as `example.com:lab`.
PREFIX = NODES + "/{project}/{zone}/{node}/workers/{worker}"
VERBS = ["GET", "HEAD", "POST", "PUT", "DELETE"]


def worker_routes(world: World, workers: Workers) -> list[Route]:
    """Return the routes. A path below a worker has the answer of the worker's own port."""

    async def answer_metadata(request: Request) -> Response:
        try:
            world.run_due_events()
            part = request.path_params
            place = Place(part["project"], part["zone"])
            record = world.get_node(place.child_name("nodes", part["node"]))
            worker = get_running_worker(record, _parse_number(part["worker"]))
        except ApiError as error:
            return error_response(error)
        path = f"/{request.path_params['path']}"
        prefix = str(request.scope["path"]).removesuffix(path)
        return await workers.metadata.answer_request(request, worker, path, prefix)

    async def open_port(request: Request) -> Response:
        try:
            worker = control.resolve_running_worker(world, parse_body(await request.body()))
            return json_response({"address": await workers.get_address(worker)})
        except ApiError as error:
            return error_response(error)

    async def show_serial(request: Request) -> Response:
        try:
            query: dict[str, object] = dict(request.query_params)
            if "worker" in query:
                query["worker"] = _parse_number(str(query["worker"]))
            return json_response(workers.describe_console(control.resolve_worker(world, query)))
        except ApiError as error:
            return error_response(error)

    return [
        Route(f"{NODES}/metadata-server", open_port, methods=["POST"]),
        Route(f"{NODES}/serial", show_serial, methods=["GET"]),
        Route(f"{PREFIX}/{{path:path}}", answer_metadata, methods=VERBS),
    ]


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 6:
        raise ApiError(Code.INVALID_ARGUMENT, "worker must be a whole number")
    return int(text)
