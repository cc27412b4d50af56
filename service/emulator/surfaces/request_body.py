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
AROUND = 20
"""How many characters of a broken text are shown on each side of the mistake."""
# What Google's parser says where ours says this.
COMPLAINTS = {
    "Expecting property name enclosed in double quotes": "Expected an object key or }.",
    "Expecting ':' delimiter": "Expected : between key:value pair.",
    "Expecting ',' delimiter": "Expected , or } after key:value pair.",
    "Extra data": "Parsing terminated before end of input.",
    "Unterminated string starting at": "Closing quote expected in string.",
}


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
        parsed = json.loads(body.decode("utf-8-sig"), parse_constant=_refuse_constant)
        if b"\\u" in body:
            # Half a surrogate pair is good JSON, but no text.
            json.dumps(parsed, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise _unreadable(_complaint(error)) from None
    except UnicodeError:
        raise _unreadable("Encountered non UTF-8 code points.") from None
    except RecursionError:
        raise _unreadable("Message too deep. Max recursion depth reached.") from None
    except ValueError:
        raise _unreadable("Unexpected token.") from None
    return parsed


def _complaint(error: json.JSONDecodeError) -> str:
    """Say what is wrong as Google's parser does, with the text around it and a mark below."""
    said = COMPLAINTS.get(error.msg, "Unexpected token.")
    if not error.doc[error.pos :].strip():
        said = f"Unexpected end of string. {said.replace('Unexpected token.', 'Expected a value.')}"
    first = max(0, error.pos - AROUND)
    around = error.doc[first : error.pos + AROUND].replace("\n", " ")
    return f"{said}\n{around}\n{' ' * (error.pos - first)}^"


def _unreadable(why: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid JSON payload received. {why}")


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
    raise ValueError(name)
