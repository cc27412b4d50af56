"""The discovery document of the API, for clients that build themselves from it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

from service.emulator.api.methods import VERSIONS
from service.emulator.errors import ApiError, Code

DEFAULT = "v2"


def document(version: str, root: str) -> dict[str, Any]:
    """Give Google's document with our address in it, where its client library is installed."""
    wanted = version or DEFAULT
    if wanted not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise ApiError(Code.NOT_FOUND, f'Version "{wanted}" is not emulated; known: {known}.')
    spec = importlib.util.find_spec("googleapiclient")
    if spec is None or spec.origin is None:
        raise ApiError(Code.NOT_FOUND, "No discovery document: google-api-python-client is absent.")
    folder = Path(spec.origin).parent / "discovery_cache" / "documents"
    found: dict[str, Any] = json.loads((folder / f"tpu.{wanted}.json").read_bytes())
    found |= {"rootUrl": root, "baseUrl": root, "mtlsRootUrl": root}
    return found
