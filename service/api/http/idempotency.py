"""The header Idempotency-Key: a repeated request with the same key returns the first answer."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Response

from service.api.http.schemas import Body
from service.domain.idempotency import RequestKey

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[!-~]+$",
        description="A second request with the same key and body returns the first answer. The same"
        " key with another body is refused.",
    ),
]

HIT: dict[str, Any] = {
    "Idempotency-Hit": {
        "description": "`true` when the key had led to this before: nothing was made now.",
        "schema": {"type": "string"},
    }
}
"""The header of an answer to a known key, for the documentation of a route."""


def key_of(header: str | None, body: Body) -> RequestKey | None:
    """The key with the digest of the body. None without the header."""
    return None if header is None else RequestKey(header, body.to_digest())


def mark_repeat(response: Response, *, created: bool) -> None:
    """Mark the answer to a repeated request."""
    if not created:
        response.headers["Idempotency-Hit"] = "true"
