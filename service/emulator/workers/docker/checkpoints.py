"""The checkpoints of a played training: objects `step-<number>` under a `gs://` directory."""

from __future__ import annotations

import json
import re
from urllib.parse import quote, urlencode

from service.emulator.workers.docker import worker

DIRECTORY = re.compile(r"gs://([^/]+)(?:/(.*))?")
STEP = re.compile(r"step-(\d+)")
ACCOUNT = "/computeMetadata/v1/instance/service-accounts/default"


class CheckpointRefused(Exception):
    """What Cloud Storage refused, in words for the container's log."""


def newest(directory: str) -> int:
    """Find the newest step that was saved, 0 if there is none; raises Refused."""
    bucket, prefix = _parts(directory)
    query = {"prefix": f"{prefix}step-"}
    latest = 0
    while True:
        told = json.loads(_ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(query)}"))
        for item in told.get("items", []):
            step = STEP.fullmatch(item["name"].removeprefix(prefix))
            latest = max(latest, int(step[1]) if step else 0)
        if "nextPageToken" not in told:
            return latest
        query["pageToken"] = told["nextPageToken"]


def save(directory: str, step: int) -> None:
    """Save a step; raises Refused."""
    bucket, prefix = _parts(directory)
    name = quote(f"{prefix}step-{step:08}", safe="")
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
    _ask("POST", path, json.dumps({"step": step}).encode())


def _parts(directory: str) -> tuple[str, str]:
    """Split a directory into its bucket, quoted, and the beginning of its objects' names."""
    match = DIRECTORY.fullmatch(directory)
    if match is None:
        raise CheckpointRefused(
            f"STEWARD_CHECKPOINT_DIR must be gs://BUCKET/DIRECTORY: {directory}"
        )
    prefix = (match[2] or "").strip("/")
    return quote(match[1], safe=""), f"{prefix}/" if prefix else ""


def _ask(verb: str, path: str, body: bytes = b"") -> bytes:
    try:
        _, token = worker.request("GET", f"{ACCOUNT}/token", headers={"Metadata-Flavor": "Google"})
        bearer = {"Authorization": f"Bearer {json.loads(token)['access_token']}"}
        status, content = worker.request(verb, path, body, bearer)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointRefused(f"Cloud Storage cannot be reached: {error}") from None
    if status != 200:
        raise CheckpointRefused(
            f"Cloud Storage answered {status}: {content.decode(errors='replace')}"
        )
    return content
