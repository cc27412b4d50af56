"""Routes that keep a node: until the keep ends, idleness, time to live and jobs do not end it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Response
from pydantic import Field

from service.api.http.deps import KeepsDep, NodesDep, VersionDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Instant, Text
from service.api.nodes.node_views import ChangedView
from service.api.nodes.nodes import changed_document
from service.application.cleanup.keeps import KeepOrder
from service.domain.clock import parse_instant_or_date
from service.domain.nodes.keep import LONGEST_SECONDS, MAX_REASON

router = Router(prefix="/v1/nodes", tags=["nodes"])

_CHANGED: dict[int | str, dict[str, Any]] = {
    200: {
        "model": ChangedView,
        "headers": {
            "ETag": {
                "description": 'Its version, for If-Match: `"3"`.',
                "schema": {"type": "string"},
            }
        },
    }
}
NodeId = Annotated[str, Path()]


class KeepRequest(Body):
    """For how long to keep the node, and why; give exactly one of `for_seconds` and `until`."""

    for_seconds: Annotated[int, Field(strict=True, ge=1, le=LONGEST_SECONDS)] | None = Field(
        default=None, description="Seconds to keep the node; at most 30 days.", examples=[14_400]
    )
    until: Instant | None = Field(
        default=None,
        description="When the keep ends (RFC 3339); at most 30 days from now.",
        examples=[None],
    )
    reason: Annotated[Text, Field(min_length=1, max_length=MAX_REASON)] = Field(
        description="Why the node is kept; shown to everybody.",
        examples=["a demo on Friday"],
    )

    def to_order(self) -> KeepOrder:
        """The keep in terms of the domain."""
        until = None if self.until is None else parse_instant_or_date(self.until)
        return KeepOrder(" ".join(self.reason.split()), until, self.for_seconds)


@router.post(
    "/{node_id}:keep",
    operation_id="keep_node",
    responses=_CHANGED | may_answer(400, 403, 404, 409, 412, 413, 415, 422),
)
def keep_node(
    node_id: NodeId, body: KeepRequest, keeps: KeepsDep, nodes: NodesDep, version: VersionDep
) -> Response:
    """Keep a node: until then neither idleness nor its time to live nor the end of its job deletes
    it. A person, Google, and a budget that deletes still do. A keep never becomes shorter."""
    return changed_document(nodes, keeps.keep_node(node_id, body.to_order(), version=version), 200)


@router.delete(
    "/{node_id}/keep",
    operation_id="unkeep_node",
    responses=_CHANGED | may_answer(404, 409, 412, 422),
)
def unkeep_node(node_id: NodeId, keeps: KeepsDep, nodes: NodesDep, version: VersionDep) -> Response:
    """End the keep of a node. If its time to live is over, the node is deleted after a notice. If
    its job has ended, the node is deleted at once."""
    return changed_document(nodes, keeps.end_keep(node_id, version=version), 200)
