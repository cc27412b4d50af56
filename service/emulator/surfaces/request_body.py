"""Bodies and parameters of HTTP requests, within limits; a body may be compressed."""

from __future__ import annotations

import json
import zlib
from typing import NoReturn
from urllib.parse import parse_qs

from starlette.requests import Request

from service.emulator.errors import ApiError, Code

MAX_BYTES = 10 * 1024 * 1024
"""The limit of Google's front end."""
MAX_PARAMETERS = 1000
FORM = "application/x-www-form-urlencoded"
GZIP = 16 + zlib.MAX_WBITS
AROUND = 20
"""The number of characters of an invalid text that are shown on each side of the error."""
# By the message of Python's parser: the message of Google's.
COMPLAINTS = {
    "Expecting property name enclosed in double quotes": "Expected an object key or }.",
    "Expecting ':' delimiter": "Expected : between key:value pair.",
    "Expecting ',' delimiter": "Expected , or } after key:value pair.",
    "Extra data": "Parsing terminated before end of input.",
    "Unterminated string starting at": "Closing quote expected in string.",
}


async def read_body(request: Request) -> bytes:
    """Read a body, uncompressed; raises ApiError for one that is too large or invalid.

    A body that is too large is read to its end, so that the client reads the response.
    """
    raw = bytearray()
    total = 0
    async for chunk in request.stream():
        total += len(chunk)
        if total <= MAX_BYTES:
            raw += chunk
    if total > MAX_BYTES:
        raise _too_large()
    if request.headers.get("content-encoding", "").lower() not in {"gzip", "x-gzip"}:
        return bytes(raw)
    unpacker = zlib.decompressobj(GZIP)
    try:
        # No more than the limit is unpacked.
        body = unpacker.decompress(raw, MAX_BYTES + 1)
    except zlib.error:
        raise ApiError(Code.INVALID_ARGUMENT, "The gzip payload cannot be unpacked.") from None
    if len(body) > MAX_BYTES:
        raise _too_large()
    if not unpacker.eof:
        raise ApiError(Code.INVALID_ARGUMENT, "The gzip payload is cut short.")
    return body


def is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM


def parse_form(body: bytes) -> dict[str, list[str]]:
    """Parse the parameters of a URL, or of a form in the body; raises ApiError."""
    try:
        text = body.decode(errors="replace")
        return parse_qs(text, keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        text = f"Too many parameters, the limit is {MAX_PARAMETERS}."
        raise ApiError(Code.INVALID_ARGUMENT, text) from None


def parse_body(body: bytes) -> object:
    """Parse a JSON body; an empty body is an empty object. Raises ApiError."""
    if not body.strip():
        return {}
    try:
        parsed = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        if b"\\u" in body:
            # A lone surrogate is valid JSON, but cannot be encoded.
            json.dumps(parsed, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        # As Google's parser: the text around the error, and a mark below the error.
        text = COMPLAINTS.get(error.msg, "Unexpected token.")
        if not error.doc[error.pos :].strip():
            text = text.replace("Unexpected token.", "Expected a value.")
            text = f"Unexpected end of string. {text}"
        first = max(0, error.pos - AROUND)
        around = error.doc[first : error.pos + AROUND].replace("\n", " ")
        mark = f"{' ' * (error.pos - first)}^"
        raise _invalid_payload(f"{text}\n{around}\n{mark}") from None
    except UnicodeError:
        raise _invalid_payload("Encountered non UTF-8 code points.") from None
    except RecursionError:
        raise _invalid_payload("Message too deep. Max recursion depth reached.") from None
    except ValueError:
        raise _invalid_payload("Unexpected token.") from None
    return parsed


def _invalid_payload(why: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {why}")


def _too_large() -> ApiError:
    text = f"Request payload size exceeds the limit: {MAX_BYTES} bytes."
    return ApiError(Code.INVALID_ARGUMENT, text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
