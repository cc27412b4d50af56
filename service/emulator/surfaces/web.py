"""The REST port: the API, its discovery document, the control routes and the status page."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.emulator.errors import ApiError, Code
from service.emulator.surfaces import control, discovery
from service.emulator.surfaces.control_bodies import read_order
from service.emulator.surfaces.guard import Guard, Hosts
from service.emulator.surfaces.page import status_page
from service.emulator.surfaces.rest import build_endpoint, error_response, json_response, parse_body
from service.emulator.surfaces.storage import storage_routes
from service.emulator.world.world import World

VERBS = ["GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS"]
Look = Callable[[Request], dict[str, Any]]
Act = Callable[[World, object], dict[str, Any]]

log = logging.getLogger(__name__)


def build_app(
    world: World,
    grpc_address: str = "",
    more: Iterable[Route] = (),
    *,
    loopback_only: bool = False,
    allowed_hosts: Collection[str] = (),
) -> Starlette:
    """Make the application of the REST port; the status page shows the address of the gRPC port."""

    async def answer_page(request: Request) -> Response:
        return HTMLResponse(status_page(world, grpc_address, str(request.base_url)))

    return Starlette(
        routes=[
            Route("/", answer_page),
            # No fault changes the health of the emulator.
            Route("/healthz", _build_view(lambda _: {"status": "ok"})),
            Route("/$discovery/rest", _build_view(_get_discovery)),
            Route("/discovery/v1/apis/tpu/{version}/rest", _build_view(_get_discovery)),
            *_list_control_routes(world),
            *storage_routes(world),
            *more,
            Route("/{path:path}", build_endpoint(world), methods=VERBS),
        ],
        middleware=[
            Middleware(
                Guard,
                hosts=Hosts.LOOPBACK if loopback_only else Hosts.LOCAL,
                allowed=allowed_hosts,
            )
        ],
        exception_handlers={HTTPException: _answer_unrouted, Exception: _answer_failed},
    )


def _list_control_routes(world: World) -> list[Route]:
    async def answer_manifest(request: Request) -> Response:
        name, reference = request.path_params["name"], request.path_params["reference"]
        found = world.manifests.serve_manifest(world.config.registry, name, reference)
        if found.delay_seconds:
            await asyncio.sleep(found.delay_seconds)
        headers = {"Docker-Content-Digest": found.digest} if found.digest else {}
        return Response(found.body, found.status, headers, found.content_type)

    looks: list[tuple[str, str, Look]] = [
        ("GET", "state", lambda _: control.describe_state(world)),
        ("GET", "config", lambda _: control.read_config(world)),
        ("GET", "faults", lambda _: control.list_faults(world)),
        (
            "DELETE",
            "faults",
            lambda ask: control.drop_faults(world, *_read_query("DELETE faults", ask)),
        ),
        ("GET", "runs", lambda _: control.list_runs(world)),
        ("POST", "settle", lambda _: control.settle_world(world)),
        ("POST", "reset", lambda _: control.reset_world(world)),
        ("GET", "bill", lambda ask: control.list_bill(world, *_read_query("GET bill", ask))),
    ]
    acts: list[tuple[str, str, Act]] = [
        ("PATCH", "config", control.change_config),
        ("POST", "faults", control.add_fault),
        ("POST", "nodes/preempt", control.preempt_node),
        ("POST", "nodes/maintenance", control.maintain_node),
        ("POST", "nodes/host-error", control.break_host),
        ("POST", "nodes/health", control.set_health),
        ("POST", "nodes/activity", control.set_activity),
    ]
    return [
        # The endpoint of all container registries; a name begins with the registry's host.
        Route("/_emulator/registry/v2/{name:path}/manifests/{reference}", answer_manifest),
        *(
            Route(f"/_emulator/{path}", _build_view(look), methods=[verb])
            for verb, path, look in looks
        ),
        *(
            Route(f"/_emulator/{path}", _build_action(world, act), methods=[verb])
            for verb, path, act in acts
        ),
    ]


def _build_view(look: Look) -> Callable[[Request], Any]:
    async def answer_view(request: Request) -> Response:
        try:
            return json_response(look(request))
        except ApiError as error:
            return error_response(error)

    return answer_view


def _build_action(world: World, act: Act) -> Callable[[Request], Any]:
    async def answer_action(request: Request) -> Response:
        try:
            return json_response(act(world, parse_body(await request.body())))
        except ApiError as error:
            return error_response(error)

    return answer_action


def _read_query(route: str, request: Request) -> list[str]:
    """Return the parameters of a route in their order; raises ApiError for an unknown one."""
    return [str(value) for value in read_order(route, request.query_params).values()]


def _get_discovery(request: Request) -> dict[str, Any]:
    version = request.path_params.get("version") or str(request.query_params.get("version", ""))
    return discovery.get_document(version, str(request.base_url))


async def _answer_unrouted(request: Request, error: Exception) -> Response:
    """Answer a request that the router refuses, mostly for its verb, in the API's envelope."""
    assert isinstance(error, HTTPException)
    text = f"{request.method} is not supported for {request.url.path}."
    return error_response(ApiError(Code.NOT_FOUND, text))


async def _answer_failed(request: Request, error: Exception) -> Response:
    log.error("%s %s failed inside the emulator", request.method, request.url.path, exc_info=error)
    return error_response(ApiError(Code.INTERNAL, "an internal error has occurred"))
