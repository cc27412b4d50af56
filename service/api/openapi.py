"""The OpenAPI document: FastAPI's, with every error as the problem document that it is."""

from __future__ import annotations

from typing import Any

from service.api.auth import PUBLIC
from service.api.problems import MEDIA_TYPE

_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_REFUSED = {"description": "No token, or the wrong one", "content": _PROBLEM}
_OTHERWISE = {"description": "Any other problem", "content": _PROBLEM}


def corrected(document: dict[str, Any], *, guarded: bool) -> dict[str, Any]:
    """The document with the media type of problems, and with the token where one is needed."""
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            _correct(operation["responses"])
            if guarded and path not in PUBLIC:
                operation["security"] = [{"token": []}]
                operation["responses"]["401"] = _REFUSED
    if guarded:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document


def _correct(responses: dict[str, Any]) -> None:
    for status, response in responses.items():
        if status >= "400":
            response["content"] = _PROBLEM
    responses["default"] = _OTHERWISE
