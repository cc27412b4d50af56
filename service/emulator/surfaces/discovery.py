"""The discovery document of the API, from which some clients build themselves."""

from __future__ import annotations

from typing import Any

from service.emulator.api.methods import VERSIONS
from service.emulator.errors import ApiError, Code
from service.emulator.surfaces.discovery_document import describe_version

DEFAULT = "v2"


def get_document(version: str, root: str) -> dict[str, Any]:
    """Return the document of a version, with the emulator's address `root`; raises ApiError."""
    wanted = version or DEFAULT
    if wanted not in VERSIONS:
        known = ", ".join(VERSIONS)
        raise ApiError(Code.NOT_FOUND, f'Version "{wanted}" is not emulated; known: {known}.')
    return describe_version(wanted) | {"rootUrl": root, "baseUrl": root, "mtlsRootUrl": root}
