"""Routes of nodes, their costs and their ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Protocol

import msgspec
from fastapi import Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from service.api.cleanup.policies import AppliedView
from service.api.http.deps import ExplanationsDep, NodesDep, PoliciesDep, VersionDep, services_of
from service.api.http.idempotency import HIT, IdempotencyKey, key_of, mark_repeat
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import NumberedQuery
from service.api.nodes.explanations import ExplanationView
from service.api.nodes.node_list import PARAMETERS, read_query
from service.api.nodes.node_request import NodeRequest, ReimageRequest, UpdateRequest
from service.api.nodes.node_views import (
    ChangedView,
    EntryPage,
    EntryView,
    EventPage,
    EventView,
    NodeCostView,
    NodePage,
    NodeView,
    RequestedView,
    UpdatedView,
)
from service.application.nodes.node_policy import NodePolicy
from service.application.nodes.nodes import NodeService
from service.domain.clock import to_rfc3339
from service.domain.nodes.node import Node

router = Router(prefix="/v1/nodes", tags=["nodes"])

JSON = "application/json"
_ETAG: dict[str, Any] = {
    "ETag": {"description": 'Its version, for If-Match: `"3"`.', "schema": {"type": "string"}}
}
_NODE: dict[int | str, dict[str, Any]] = {200: {"model": NodeView, "headers": _ETAG}}
_ACCEPTED: dict[int | str, dict[str, Any]] = {202: {"model": NodeView, "headers": _ETAG}}
_CHANGED: dict[int | str, dict[str, Any]] = {202: {"model": ChangedView, "headers": _ETAG}}
_CREATED: dict[int | str, dict[str, Any]] = {
    201: {
        "model": RequestedView,
        "headers": {
            **_ETAG,
            "Location": {"schema": {"type": "string"}},
            **HIT,
        },
    }
}


class HasWarnings(Protocol):
    """A changed node, with warnings for its owner."""

    @property
    def node(self) -> Node:
        """The node as stored."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings for the owner."""
        ...


class _Versioned(msgspec.Struct):
    """The only field that is read of a node's document."""

    version: int


_versioned = msgspec.json.Decoder(_Versioned)  # made once, by one thread: see `json_columns`


@router.post(
    "",
    status_code=201,
    operation_id="request_node",
    responses=_CREATED | may_answer(400, 403, 409, 413, 415, 422),
)
def request_node(
    body: NodeRequest,
    nodes: NodesDep,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Record the request for a node and answer at once; the daemon creates the node."""
    found = nodes.request(body.to_request(), key=key_of(idempotency_key, body))
    answer = _response_with_policy(found.document, found.policy, found.warnings, 201)
    answer.headers["Location"] = f"/v1/nodes/{found.node.id}"
    mark_repeat(answer, created=found.created)
    return answer


@router.get(
    "",
    operation_id="list_nodes",
    responses={200: {"model": NodePage}, **may_answer(422, 503)},
    openapi_extra={"parameters": PARAMETERS},
)
async def list_nodes(request: Request) -> Response:
    """The nodes that match, the newest first, with what they cost as of now."""
    nodes = services_of(request).nodes
    asked = read_query(request.query_params.multi_items())
    if nodes.is_quick(*asked):
        page = nodes.list_page(*asked)  # handing it to a thread would take as long again
    else:
        page = await run_in_threadpool(nodes.list_page, *asked)
    body = f'{{"nodes":{page.nodes},"next_page_token":"{page.next_page_token}"}}'
    return Response(body.encode(), media_type=JSON)


@router.post(
    "/{node_id}:stop",
    status_code=202,
    operation_id="stop_node",
    responses=_CHANGED | may_answer(404, 409, 412, 422),
)
def stop_node(node_id: str, nodes: NodesDep, version: VersionDep) -> Response:
    """Request the stop of a node. Its disk stays, and its chips cost nothing. Its keep ends, and so
    does a job that runs on it."""
    return changed_document(nodes, nodes.request_stop(node_id, version=version), 202)


@router.post(
    "/{node_id}:start",
    status_code=202,
    operation_id="start_node",
    responses=_ACCEPTED | may_answer(403, 404, 409, 412, 422),
)
def start_node(node_id: str, nodes: NodesDep, version: VersionDep) -> Response:
    """Request that a stopped node runs again."""
    return _accepted_response(nodes, nodes.start(node_id, version=version).id)


@router.post(
    "/{node_id}:reimage",
    status_code=202,
    operation_id="reimage_node",
    responses=_ACCEPTED | may_answer(400, 404, 409, 412, 413, 415, 422),
)
def reimage_node(
    node_id: str, body: ReimageRequest, nodes: NodesDep, version: VersionDep
) -> Response:
    """Request other software on a legacy TPU Node, which cannot be used in the meantime."""
    return _accepted_response(nodes, nodes.reimage(node_id, body.to_software(), version=version).id)


@router.get("/{node_id}", operation_id="get_node", responses=_NODE | may_answer(404, 422))
def get_node(node_id: str, nodes: NodesDep) -> Response:
    """One node."""
    return _node_response(nodes.get_document(node_id), 200)


@router.patch(
    "/{node_id}",
    operation_id="update_node",
    responses={
        200: {"model": UpdatedView, "headers": _ETAG},
        **may_answer(400, 403, 404, 409, 412, 413, 415, 422),
    },
)
def update_node(
    node_id: str,
    body: UpdateRequest,
    nodes: NodesDep,
    policies: PoliciesDep,
    version: VersionDep,
) -> Response:
    """Change the idle policy and the time to live of a node, and who is charged for it from now on;
    the past stays as it is."""
    node = nodes.update(node_id, body.to_change(), version=version)
    policy = policies.get_for_node(node.id)
    return _response_with_policy(nodes.get_document(node.id), policy, (), 200)


@router.delete(
    "/{node_id}",
    status_code=202,
    operation_id="delete_node",
    responses=_CHANGED | may_answer(404, 409, 412, 422),
)
def delete_node(node_id: str, nodes: NodesDep, version: VersionDep) -> Response:
    """Request the deletion of a node. The node is gone when its state is DELETED. Its keep ends,
    and so does a job that runs on it."""
    return changed_document(nodes, nodes.request_end(node_id, version=version), 202)


@router.get("/{node_id}/events", operation_id="list_node_events", responses=may_answer(404, 422))
def list_node_events(
    node_id: str, nodes: NodesDep, query: Annotated[NumberedQuery, Query()]
) -> EventPage:
    """List the events of the node, oldest first."""
    found = nodes.list_events(node_id, query.after_number, query.one_more)
    page, token = query.cut_page(found, [number for number, _ in found])
    return EventPage(
        events=tuple(
            EventView(
                number=number,
                at=to_rfc3339(event.at),
                kind=event.kind,
                message=event.message,
                actor=event.actor,
                facts=dict(event.facts),
            )
            for number, event in page
        ),
        next_page_token=token,
    )


@router.get("/{node_id}/cost", operation_id="get_node_cost", responses=may_answer(404, 422))
def get_node_cost(node_id: str, nodes: NodesDep) -> NodeCostView:
    """What the node cost so far, to the second."""
    return NodeCostView.from_cost(nodes.get_cost(node_id))


@router.get("/{node_id}/ledger", operation_id="list_node_ledger", responses=may_answer(404, 422))
def list_node_ledger(
    node_id: str, nodes: NodesDep, query: Annotated[NumberedQuery, Query()]
) -> EntryPage:
    """What was posted for the node, in the order in which it was."""
    found = nodes.list_ledger_lines(node_id, query.after_number, query.one_more)
    page, token = query.cut_page(found, [line.id for line in found])
    return EntryPage(entries=tuple(map(EntryView.from_line, page)), next_page_token=token)


@router.get(
    "/{node_id}/ledger/{number}",
    operation_id="explain_ledger_entry",
    responses=may_answer(404, 422),
)
def explain_ledger_entry(
    node_id: str,
    number: Annotated[int, Path(ge=1, le=2**62)],
    nodes: NodesDep,
    explanations: ExplanationsDep,
) -> ExplanationView:
    """One line of the ledger, down to its price and to how both ends of its interval are known."""
    nodes.get(node_id)
    return ExplanationView.from_explanation(explanations.explain_line(node_id, number))


def _response_with_policy(
    node: bytes, found: NodePolicy, warnings: Sequence[str], status: int
) -> Response:
    """The answer to a request that may set an idle policy: the document of the node with `warnings`
    and the policy that applies."""
    all_warnings = msgspec.json.encode([*warnings, *found.warnings])
    policy = AppliedView.from_rule(found.applied).model_dump_json().encode()
    document = node[:-1] + b',"warnings":' + all_warnings + b',"policy":' + policy + b"}"
    return _node_response(document, status)


def changed_document(nodes: NodeService, changed: HasWarnings, status: int) -> Response:
    """The answer to a change of a node: the node with its `warnings`."""
    document, warnings = nodes.get_document(changed.node.id), msgspec.json.encode(changed.warnings)
    return _node_response(document[:-1] + b',"warnings":' + warnings + b"}", status)


def _accepted_response(nodes: NodeService, node_id: str) -> Response:
    return _node_response(nodes.get_document(node_id), 202)


def _node_response(document: bytes, status: int) -> Response:
    version = _versioned.decode(document).version
    return Response(document, status, {"ETag": f'"{version}"'}, JSON)
