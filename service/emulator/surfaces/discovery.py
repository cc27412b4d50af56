"""The discovery document of the API, for clients that build themselves from it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from service.emulator.errors import ApiError, Code

VERSIONS = ("v2",)


def document(version: str, root: str) -> dict[str, Any]:
    """Give Google's document with our address in it, where its client library is installed."""
    wanted = version or "v2"
    if wanted not in VERSIONS:
        raise ApiError(Code.NOT_FOUND, f'Version "{wanted}" is not emulated; known: v2.')
    spec = importlib.util.find_spec("googleapiclient")
    if spec is None or spec.origin is None:
        raise ApiError(Code.NOT_FOUND, "No discovery document: google-api-python-client is absent.")
    folder = Path(spec.origin).parent / "discovery_cache" / "documents"
    text = (folder / f"tpu.{wanted}.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    found |= {"rootUrl": root, "baseUrl": root, "mtlsRootUrl": root}
    return found
