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
    """A refusal of Cloud Storage, as a text for the container's log."""


def find_newest(directory: str) -> int:
    """Return the newest saved step, 0 if there is none. Raises CheckpointRefused."""
    bucket, prefix = _split_directory(directory)
    query = {"prefix": f"{prefix}step-"}
    latest = 0
    while True:
        page = json.loads(_send_request("GET", f"/storage/v1/b/{bucket}/o?{urlencode(query)}"))
        for item in page.get("items", []):
            step = STEP.fullmatch(item["name"].removeprefix(prefix))
            latest = max(latest, int(step[1]) if step else 0)
        if "nextPageToken" not in page:
            return latest
        query["pageToken"] = page["nextPageToken"]


def save(directory: str, step: int) -> None:
    """Save a step. Raises CheckpointRefused."""
    bucket, prefix = _split_directory(directory)
    name = quote(f"{prefix}step-{step:08}", safe="")
    path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}"
    _send_request("POST", path, json.dumps({"step": step}).encode())


def _split_directory(directory: str) -> tuple[str, str]:
    """Return a directory's quoted bucket and object prefix. Raises CheckpointRefused."""
    match = DIRECTORY.fullmatch(directory)
    if match is None:
        raise CheckpointRefused(
            f"STEWARD_CHECKPOINT_DIR must be gs://BUCKET/DIRECTORY: {directory}"
        )
    prefix = (match[2] or "").strip("/")
    return quote(match[1], safe=""), f"{prefix}/" if prefix else ""


def _send_request(verb: str, path: str, body: bytes = b"") -> bytes:
    try:
        _, token = worker.send_request(
            "GET", f"{ACCOUNT}/token", headers={"Metadata-Flavor": "Google"}
        )
        bearer = {"Authorization": f"Bearer {json.loads(token)['access_token']}"}
        status, content = worker.send_request(verb, path, body, bearer)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointRefused(f"Cloud Storage cannot be reached: {error}") from None
    if status != 200:
        raise CheckpointRefused(
            f"Cloud Storage answered {status}: {content.decode(errors='replace')}"
        )
    return content
