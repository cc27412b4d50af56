"""Routes of heartbeats and of their tokens."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request
from pydantic import Field

from service.api.http.auth import heartbeat_token_of
from service.api.http.deps import HeartbeatsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Body, Instant, Text, Time, View
from service.application.cleanup.heartbeats import NewToken
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.idle.signals.heartbeat import DEFAULT_SECONDS, LONGEST_SECONDS, Beat, Heartbeat

router = Router(prefix="/v1/nodes", tags=["nodes"])

NodeId = Annotated[str, Path()]


class HeartbeatRequest(Body):
    """Reports that the node is active."""

    at: Instant | None = Field(
        default=None,
        description="When it was sent, by the sender's clock (RFC 3339); now by default. More than"
        " a minute in the future is refused.",
        examples=[None],
    )
    expires_seconds: Annotated[int, Field(strict=True, ge=1, le=LONGEST_SECONDS)] = Field(
        default=DEFAULT_SECONDS,
        description="Seconds for which the heartbeat counts; at most a day.",
        examples=[DEFAULT_SECONDS],
    )
    note: Annotated[Text, Field(max_length=200)] = Field(default="", examples=["epoch 7"])

    def to_beat(self) -> Beat:
        """The heartbeat in terms of the domain."""
        at = None if self.at is None else parse_instant_or_date(self.at)
        return Beat(at, self.expires_seconds, " ".join(self.note.split()))


class HeartbeatView(View):
    """The heartbeat that counts: the newest, or an earlier one that lasts as long or longer."""

    node_id: str
    at: Time = Field(description="When the service received it.")
    expires_at: Time = Field(description="The node counts as active until then.")
    note: str = Field(examples=["epoch 7"])

    @classmethod
    def from_heartbeat(cls, beat: Heartbeat) -> HeartbeatView:
        """The view of a heartbeat."""
        return cls(
            node_id=beat.node_id,
            at=to_rfc3339(beat.at),
            expires_at=to_rfc3339(beat.until),
            note=beat.note,
        )


class HeartbeatTokenView(View):
    """A token, which is never shown again."""

    token: str = Field(
        description="Send it as `Authorization: Bearer <token>`.", examples=["hb_3q2-7wAB"]
    )
    node_id: str
    incarnation: int = Field(
        description="The placement of the node for which the token is valid; not for a later one.",
        examples=[1],
    )
    expires_at: Time

    @classmethod
    def from_token(cls, made: NewToken) -> HeartbeatTokenView:
        """The view of a new token."""
        return cls(
            token=made.token,
            node_id=made.stored.node_id,
            incarnation=made.stored.incarnation,
            expires_at=to_rfc3339(made.stored.expires_at),
        )


@router.post(
    "/{node_id}/heartbeat",
    operation_id="send_heartbeat",
    responses=may_answer(400, 403, 404, 409, 413, 415, 422, 429),
)
def send_heartbeat(
    node_id: NodeId,
    service: HeartbeatsDep,
    request: Request,
    body: HeartbeatRequest | None = None,
) -> HeartbeatView:
    """Report that the node is active: it is not idle until the heartbeat expires. A heartbeat that
    lasts no longer than the previous one is answered, and not stored."""
    beat = (body or HeartbeatRequest()).to_beat()
    return HeartbeatView.from_heartbeat(
        service.record_beat(node_id, beat, heartbeat_token_of(request.scope))
    )


@router.post(
    "/{node_id}/heartbeat-token",
    status_code=201,
    operation_id="create_heartbeat_token",
    responses=may_answer(404, 409, 422),
)
def create_heartbeat_token(node_id: NodeId, service: HeartbeatsDep) -> HeartbeatTokenView:
    """Create a token for a program on the node. It is valid for heartbeats of this placement of the
    node, for 30 days, and for nothing else. The newest twenty tokens of a node are valid."""
    return HeartbeatTokenView.from_token(service.make_token(node_id))
