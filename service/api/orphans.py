"""Routes of orphans: cloud resources without a record."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import Field

from service.api.http.deps import NodesDep, OrphansDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Body,
    Line,
    Name,
    Page,
    PageQuery,
    Time,
    Usd,
    View,
    time_or_none,
    usd_or_none,
)
from service.api.nodes.node_views import NodeView
from service.application.orphans import Adopter, OrphanKind, SeenOrphan, sum_orphans
from service.domain.clock import to_rfc3339
from service.domain.money import format_usd
from service.domain.orphans.orphan import OrphanVerdict, owner_hints

router = Router(prefix="/v1/orphans", tags=["orphans"])

OrphanId = Annotated[
    str,
    Path(pattern=r"^[0-9a-f]{32}$", description="Its id, from the list of orphans."),
]
_ADOPTED: dict[int | str, dict[str, Any]] = {
    201: {"model": NodeView, "headers": {"Location": {"schema": {"type": "string"}}}}
}


class OrphansQuery(PageQuery):
    """Which orphans to list."""

    project: Name = Field(default="", description="Only of this project.", examples=["lab"])
    kind: OrphanKind | None = Field(default=None, description="Only of this kind.")


class DeleteRequest(Body):
    """How sure the caller is."""

    confirm: Annotated[str, Field(max_length=400)] = Field(
        default="",
        description="Its full name; without it nothing that is not ours is deleted.",
        examples=["projects/lab/locations/us-west4-a/nodes/somebodys"],
    )


class AdoptRequest(Body):
    """Whose the node is to be, and how it is to be called."""

    name: Name = Field(
        default="", description="The cloud's name for it by default.", examples=["trainer"]
    )
    owner: Line = Field(default="", examples=["ada"])
    team: Line = Field(default="", examples=["vision"])


class OrphanView(View):
    """A node or a queued resource in the cloud that no live record accounts for."""

    id: str = Field(examples=["5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"])
    kind: OrphanKind = Field(description="A stranger is never touched by itself.")
    name: str = Field(examples=["projects/lab/locations/us-west4-a/nodes/somebodys"])
    project: str = Field(examples=["lab"])
    zone: str = Field(examples=["us-west4-a"])
    cloud_id: str = Field(examples=["somebodys"])
    is_queued_resource: bool = Field(description="Whether it is one, rather than a node.")
    state: str = Field(description="Google's name of it.", examples=["READY"])
    accelerator_type: str = Field(examples=["v5litepod-8"])
    chips: int | None = Field(description="Null for an unknown type.", examples=[8])
    runtime_version: str = Field(examples=["v2-alpha-tpuv5-lite"])
    provisioning_model: str = Field(
        description="Empty for a queued resource of which Google does not say it.",
        examples=["on_demand"],
    )
    labels: dict[str, str]
    owner_hints: dict[str, str] = Field(description="The labels that may say whose it is.")
    queued_resource: str = Field(
        description=(
            "The queued resource that the node belongs to, by its full name, else empty. It stays"
            " when the node is deleted, and holds quota until it is deleted as well."
        ),
        examples=[""],
    )
    created_at: Time | None
    first_seen: Time
    last_seen: Time
    hourly_cost: Usd | None = Field(
        description="What it costs an hour; null when it is not billed, or no price is known."
    )
    hourly_cost_when_ready: Usd | None = Field(
        description="What the nodes of a queued resource that waits will cost an hour once they are"
        " READY; null for all else, and where no price is known."
    )
    verdict: OrphanVerdict = Field(description="What becomes of it by itself.")
    reason: str = Field(description="Why.")
    to_be_deleted: bool
    asked_by: str = Field(description="Who requested its end.", examples=["caller"])
    last_error: str = Field(description="Why it is not gone yet.", examples=[""])
    gone_at: Time | None

    @classmethod
    def from_orphan(cls, seen: SeenOrphan) -> OrphanView:
        """The view of an orphan."""
        orphan, shown = seen.orphan, seen.orphan.shown
        accelerator = shown.accelerator
        return cls(
            id=orphan.id,
            kind=orphan.kind,
            name=shown.path,
            project=shown.place.project,
            zone=shown.place.zone,
            cloud_id=shown.place.cloud_id,
            is_queued_resource=shown.queued,
            state=shown.state,
            accelerator_type=shown.accelerator_type,
            chips=None if accelerator is None else accelerator.chips,
            runtime_version=shown.runtime_version,
            provisioning_model=shown.provisioning_model,
            labels=dict(shown.labels),
            owner_hints=owner_hints(shown.labels),
            queued_resource=shown.ticket,
            created_at=time_or_none(shown.created_at),
            first_seen=to_rfc3339(orphan.first_seen),
            last_seen=to_rfc3339(seen.last_seen),
            hourly_cost=usd_or_none(seen.hourly),
            hourly_cost_when_ready=usd_or_none(seen.to_come),
            verdict=orphan.verdict,
            reason=orphan.reason,
            to_be_deleted=orphan.to_be_deleted,
            asked_by=orphan.asked_by,
            last_error=orphan.last_error,
            gone_at=time_or_none(orphan.gone_at),
        )


class OrphanPage(Page):
    """A page of orphans, the most expensive first."""

    orphans: tuple[OrphanView, ...]
    total_hourly_cost: Usd = Field(description="Of all that match, not of this page alone.")
    unpriced: int = Field(description="How many of them are billed with unknown price.")


@router.get("", operation_id="list_orphans", responses=may_answer(422, 503))
def list_orphans(orphans: OrphansDep, query: Annotated[OrphansQuery, Query()]) -> OrphanPage:
    """What the last look at the cloud showed that no live record accounts for."""
    found = orphans.list_all(query.project, query.kind)
    page, token = query.cut_page(found)
    total = sum_orphans(found)
    return OrphanPage(
        orphans=tuple(map(OrphanView.from_orphan, page)),
        total_hourly_cost=format_usd(total.hourly),
        unpriced=total.unpriced,
        next_page_token=token,
    )


@router.post(
    "/{orphan_id}:delete",
    status_code=202,
    operation_id="delete_orphan",
    responses=may_answer(400, 404, 409, 413, 415, 422),
)
def delete_orphan(
    orphan_id: OrphanId, orphans: OrphansDep, body: DeleteRequest | None = None
) -> OrphanView:
    """Request the deletion of an orphan. The daemon checks it once more, then deletes it.

    A resource of others is deleted only if `confirm` repeats its full name. The queued resource of
    a node is not deleted with the node: delete it too.
    """
    confirm = "" if body is None else body.confirm
    return OrphanView.from_orphan(orphans.delete(orphan_id, confirm=confirm))


@router.post(
    "/{orphan_id}:adopt",
    status_code=201,
    operation_id="adopt_orphan",
    responses=_ADOPTED | may_answer(400, 404, 409, 413, 415, 422),
)
def adopt_orphan(
    orphan_id: OrphanId, orphans: OrphansDep, nodes: NodesDep, body: AdoptRequest | None = None
) -> Response:
    """Make a record for a node that is READY: it is managed like any other from now on, and charged
    from this second, not from its first. The node of a queued resource cannot be adopted."""
    wanted = Adopter() if body is None else Adopter(**body.model_dump())
    node = orphans.adopt(orphan_id, wanted)
    location = {"Location": f"/v1/nodes/{node.id}"}
    return Response(nodes.get_document(node.id), 201, location, "application/json")
