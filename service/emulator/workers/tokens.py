"""The tokens of a worker's service account: well formed, without any access."""

from __future__ import annotations

import base64
import hashlib
import json

from service.emulator.nodes.worker import Worker
from service.emulator.workers.tree import Json, Query, TreeRefusal

LIFE_SECONDS = 3600
# Compute Engine returns the same token until five minutes before its end.
ROUND_SECONDS = LIFE_SECONDS - 300


def access_token(worker: Worker, query: Query, now: float) -> dict[str, Json]:
    """Return an OAuth token, the same for most of its life, as from a cache."""
    born = int(now // ROUND_SECONDS) * ROUND_SECONDS
    seed = f"{worker.instance_id}/{query.get('scopes', '')}/{born}"
    return {
        "access_token": f"ya29.emulator-{hashlib.sha256(seed.encode()).hexdigest()}",
        "expires_in": int(born + LIFE_SECONDS - now),
        "token_type": "Bearer",
    }


def identity_token(worker: Worker, query: Query, now: float) -> str | TreeRefusal:
    """Return an OpenID token for an audience, without a valid signature."""
    audience = query.get("audience", "")
    if not audience:
        return TreeRefusal(400, "non-empty audience parameter required\n")
    email = str(worker.node.service_account.email)
    subject = str(int(hashlib.sha256(email.encode()).hexdigest()[:16], 16))
    claims: dict[str, Json] = {
        "aud": audience,
        "azp": subject,
        "email": email,
        "email_verified": True,
        "exp": int(now) + LIFE_SECONDS,
        "iat": int(now),
        "iss": "https://accounts.google.com",
        "sub": subject,
    }
    if query.get("format") == "full":
        claims["google"] = {
            "compute_engine": {
                "instance_creation_timestamp": int(worker.record.created),
                "instance_id": str(worker.instance_id),
                "instance_name": worker.name,
                "project_id": worker.record.place.project,
                "project_number": worker.project_number,
                "zone": worker.record.place.zone,
            }
        }
    head: dict[str, Json] = {"alg": "RS256", "kid": "emulator", "typ": "JWT"}
    return ".".join(
        (_encode_part(head), _encode_part(claims), base64.urlsafe_b64encode(b"emulator").decode())
    )


def _encode_part(content: dict[str, Json]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
