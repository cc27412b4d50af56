"""What comes in over HTTP, within bounds: bodies whole or refused, plain or compressed."""

from __future__ import annotations

import json
import zlib
from typing import NoReturn
from urllib.parse import parse_qs

from starlette.requests import Request

from service.emulator.errors import ApiError, Code

MAX_BYTES = 10 * 1024 * 1024
"""What Google's front end takes."""
MAX_PARAMETERS = 1000
FORM = "application/x-www-form-urlencoded"
GZIP = 16 + zlib.MAX_WBITS


async def read_body(request: Request) -> bytes:
    """Read a body, unpacked; raises ApiError for one that is too large or broken.

    One that is too large is still read to its end, so that the answer finds its reader.
    """
    raw = bytearray()
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
        if total <= MAX_BYTES:
            raw += chunk
    if total > MAX_BYTES:
        raise _too_large()
    if request.headers.get("content-encoding", "").lower() in {"gzip", "x-gzip"}:
        return _unpacked(bytes(raw))
    return bytes(raw)


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def parse_form(body: bytes) -> dict[str, list[str]]:
    """Read the parameters of an address, or those that were too long for one; raises ApiError."""
    try:
        text = body.decode(errors="replace")
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        text = f"Too many parameters, the limit is {MAX_PARAMETERS}."
        raise ApiError(Code.INVALID_ARGUMENT, text) from None


def parse_body(body: bytes) -> object:
    """Read a JSON body, empty as an empty object; raises ApiError."""
    if not body.strip():
        return {}
    try:
        parsed = json.loads(body, parse_constant=_refuse_constant)
        if b"\\u" in body:
            # Half a surrogate pair is good JSON, but no text.
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        text = f"Invalid JSON payload received. {error}"
        raise ApiError(Code.INVALID_ARGUMENT, text) from None
    return parsed


def _unpacked(raw: bytes) -> bytes:
    """Unpack a little more than is allowed at most, however much there would be."""
    unpacker = zlib.decompressobj(GZIP)
    try:
        body = unpacker.decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        raise ApiError(Code.INVALID_ARGUMENT, "The gzip payload cannot be unpacked.") from None
    if len(body) > MAX_BYTES:
        raise _too_large()
    if not unpacker.eof:
        raise ApiError(Code.INVALID_ARGUMENT, "The gzip payload is cut short.")
    return body


def _too_large() -> ApiError:
    text = f"Request payload size exceeds the limit: {MAX_BYTES} bytes."
    return ApiError(Code.INVALID_ARGUMENT, text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON.")
