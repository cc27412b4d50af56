"""The JSON API of Cloud Storage over HTTP: the calls that checkpoints and their checks need."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from service.emulator.api.calls.field_masks import Chosen
from service.emulator.artifacts.storage import (
    MAX_OBJECT_NAME,
    NAME,
    BucketSettings,
    Full,
    PreconditionFailed,
    StoredObject,
    location_type,
)
from service.emulator.errors import ApiError, Code
from service.emulator.permissions import is_permitted, token_of
from service.emulator.surfaces.partial_response import select_keys
from service.emulator.surfaces.request_body import parse_body, read_body
from service.emulator.surfaces.rest import CLIENT_GONE, json_response
from service.emulator.surfaces.storage_fields import UnknownField, chosen_fields
from service.emulator.world.world import World

PATH = re.compile(
    r"/(?:(?P<kind>upload|download)/)?storage/v1/b/(?P<bucket>[^/]+)"
    r"(?:/(?P<part>o|iam)(?:/(?P<name>.+))?)?"
)
BOUNDARY = re.compile(r"boundary=\"?([^\";]+)")
PREFIXES = ("/storage/", "/upload/storage/", "/download/storage/")
VERBS = ["GET", "HEAD", "POST", "PUT", "DELETE"]
# The default location of buckets for a caller that runs on no worker.
ELSEWHERE = "US-CENTRAL1"
MAX_PAGE = 1000


class StorageRefusal(Exception):
    """An error with the texts of Cloud Storage."""

    def __init__(self, status: int, reason: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason


@dataclass(frozen=True)
class Ask:
    """A request about one bucket, and perhaps one object of it."""

    world: World
    request: Request
    bucket: str
    name: str
    region: str
    base: str
    now: float

    @property
    def settings(self) -> BucketSettings:
        return self.world.config.buckets.get(self.bucket, BucketSettings())

    def get_param(self, key: str) -> str:
        return str(self.request.query_params.get(key, ""))

    def selected_fields(self, kind: str) -> Chosen:
        """Return the requested fields of a response; raises StorageRefusal for an unknown one."""
        try:
            return chosen_fields(kind, self.get_param("fields"))
        except UnknownField as unknown:
            text = f"Invalid field selection {str(unknown)[:200]}"
            raise StorageRefusal(400, "invalidParameter", text) from None

    def make_response(self, shown: dict[str, Any]) -> Response:
        return json_response(select_keys(shown, self.selected_fields(shown["kind"])))

    def has_permission(self, permission: str) -> bool:
        """Whether the caller has a permission, by its token and by the settings of the bucket."""
        token = token_of(self.request.headers.get("authorization", ""))
        granted = is_permitted(self.world.config.permissions, token, permission)
        return granted and permission in self.settings.permissions

    def require_permission(self, permission: str) -> None:
        """Raise StorageRefusal unless the bucket exists and the caller has a permission."""
        if self.settings.missing:
            raise StorageRefusal(404, "notFound", "The specified bucket does not exist.")
        if not self.has_permission(permission):
            raise StorageRefusal(
                403,
                "forbidden",
                f"The caller does not have {permission} access to the Google Cloud Storage bucket."
                f" Permission '{permission}' denied on resource (or it may not exist).",
            )


def storage_routes(world: World) -> list[Route]:
    """Return the routes of the REST port."""

    async def answer_elsewhere(request: Request) -> Response:
        return await answer_storage(world, request, ELSEWHERE)

    return [
        Route(f"{prefix}{{path:path}}", answer_elsewhere, methods=VERBS, name=prefix)
        for prefix in PREFIXES
    ]


async def answer_storage(world: World, request: Request, region: str) -> Response:
    """Answer a request below one of `PREFIXES`; `region` is the default location of buckets."""
    try:
        body = await read_body(request)
        return _route_request(world, request, body, region)
    except StorageRefusal as refusal:
        return _error_response(refusal)
    except ApiError as error:
        return _error_response(StorageRefusal(error.http_status, "invalid", error.message))
    except ClientDisconnect:
        return Response(status_code=CLIENT_GONE)


def _route_request(world: World, request: Request, body: bytes, region: str) -> Response:
    # As it was sent: the name of an object may contain quoted slashes.
    path: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    found = PATH.fullmatch(path.partition(b"?")[0].decode(errors="replace"))
    if found is None:
        raise StorageRefusal(404, "notFound", "Not Found")
    ask = Ask(
        world,
        request,
        unquote(found["bucket"]),
        unquote(found["name"] or ""),
        region,
        str(request.base_url).rstrip("/"),
        world.run_due_events(),
    )
    if NAME.fullmatch(ask.bucket) is None:
        raise StorageRefusal(400, "invalid", f"Invalid bucket name: '{ask.bucket}'")
    verb = "GET" if request.method == "HEAD" else request.method
    where = f"{verb} {found['kind'] or ''}/{found['part'] or 'b'}{'/…' if ask.name else ''}"
    if where == "POST upload/o":
        return _upload_object(ask, body)
    if where == "GET download/o/…":
        return _media_response(_get_existing(ask))
    acts: dict[str, Callable[[Ask], Response]] = {
        "GET /b": _get_bucket,
        "GET /iam/…": _test_permissions,
        "GET /o": _list_objects,
        "GET /o/…": _get_object,
        "DELETE /o/…": _delete_object,
    }
    if where not in acts:
        raise StorageRefusal(
            404, "notFound", f"The emulator does not know {where.partition(' ')[0]} here"
        )
    return acts[where](ask)


def _get_bucket(ask: Ask) -> Response:
    ask.require_permission("storage.buckets.get")
    location = ask.settings.location or ask.region.upper()
    return ask.make_response(
        {
            "kind": "storage#bucket",
            "id": ask.bucket,
            "name": ask.bucket,
            "selfLink": f"{ask.base}/storage/v1/b/{ask.bucket}",
            "location": location,
            "locationType": location_type(location),
            "storageClass": "STANDARD",
            "metageneration": "1",
            "iamConfiguration": {"uniformBucketLevelAccess": {"enabled": True}},
        }
    )


def _test_permissions(ask: Ask) -> Response:
    if ask.name != "testPermissions":
        raise StorageRefusal(404, "notFound", "Not Found")
    if ask.settings.missing:
        raise StorageRefusal(404, "notFound", "The specified bucket does not exist.")
    asked = ask.request.query_params.getlist("permissions")
    told: dict[str, Any] = {"kind": "storage#testIamPermissionsResponse"}
    held = [permission for permission in asked if ask.has_permission(permission)]
    return ask.make_response({**told, "permissions": held} if held else told)


def _list_objects(ask: Ask) -> Response:
    ask.require_permission("storage.objects.list")
    asked = ask.get_param("maxResults")
    limit = min(int(asked), MAX_PAGE) if asked.isdecimal() and int(asked) else MAX_PAGE
    page_token = ask.get_param("pageToken")
    try:
        after = base64.urlsafe_b64decode(page_token).decode()
    except ValueError:
        raise StorageRefusal(400, "invalid", f"Invalid page token: {page_token}") from None
    page = ask.world.storage.list_page(
        ask.bucket, ask.get_param("prefix"), ask.get_param("delimiter"), after, limit
    )
    told: dict[str, Any] = {"kind": "storage#objects"}
    if page.items:
        told["items"] = [_describe_object(ask, stored) for stored in page.items]
    if page.prefixes:
        told["prefixes"] = list(page.prefixes)
    if page.next_token:
        token = base64.urlsafe_b64encode(page.next_token.encode())
        told["nextPageToken"] = token.decode()
    return ask.make_response(told)


def _get_object(ask: Ask) -> Response:
    found = _get_existing(ask)
    if ask.get_param("alt") == "media":
        return _media_response(found)
    return ask.make_response(_describe_object(ask, found))


def _delete_object(ask: Ask) -> Response:
    ask.require_permission("storage.objects.delete")
    if not ask.world.storage.delete(ask.bucket, ask.name):
        raise _no_object(ask)
    return Response(status_code=204)


def _upload_object(ask: Ask, body: bytes) -> Response:
    ask.require_permission("storage.objects.create")
    ask.selected_fields("storage#object")
    name, content, content_type = _read_upload(ask, body)
    if not 0 < len(name.encode()) <= MAX_OBJECT_NAME:
        raise StorageRefusal(400, "required", "Required parameter: name")
    expected = ask.get_param("ifGenerationMatch")
    if ask.world.storage.get(ask.bucket, name) is not None and expected != "0":
        # An overwrite needs the permission to delete.
        ask.require_permission("storage.objects.delete")
    try:
        made = ask.world.storage.put(
            ask.bucket,
            name,
            content,
            content_type,
            ask.now,
            int(expected) if expected.isdecimal() else None,
        )
    except PreconditionFailed:
        text = "At least one of the pre-conditions you specified did not hold."
        raise StorageRefusal(412, "conditionNotMet", text) from None
    except Full:
        raise StorageRefusal(429, "rateLimitExceeded", "The emulator's storage is full.") from None
    return ask.make_response(_describe_object(ask, made))


def _read_upload(ask: Ask, body: bytes) -> tuple[str, bytes, str]:
    """Return the name, the content and its type; raises StorageRefusal."""
    content_type = ask.request.headers.get("content-type", "application/octet-stream")
    match ask.get_param("uploadType"):
        case "media":
            return ask.get_param("name"), body, content_type
        case "multipart":
            boundary = BOUNDARY.search(content_type)
            parts = body.split(f"--{boundary[1]}".encode())[1:-1] if boundary else []
            split = [re.split(rb"\r?\n\r?\n", part, maxsplit=1) for part in parts]
            if len(split) != 2 or any(len(part) != 2 for part in split):
                raise StorageRefusal(400, "invalid", "Malformed multipart body.")
            (_, metadata), (head, content) = split
            kind = re.search(rb"(?im)^content-type:[ \t]*([^\r\n]+)", head)
            content_type = kind[1].decode(errors="replace") if kind else "application/octet-stream"
            content = content.removesuffix(b"\n").removesuffix(b"\r")
            about = parse_body(metadata)
            name = about.get("name", "") if isinstance(about, dict) else ""
            return ask.get_param("name") or str(name), content, content_type
        case other:
            text = f"The emulator knows uploadType media and multipart, not {other!r}."
            raise StorageRefusal(400, "invalid", text)


def _get_existing(ask: Ask) -> StoredObject:
    ask.require_permission("storage.objects.get")
    found = ask.world.storage.get(ask.bucket, ask.name)
    if found is None:
        raise _no_object(ask)
    return found


def _no_object(ask: Ask) -> StorageRefusal:
    return StorageRefusal(404, "notFound", f"No such object: {ask.bucket}/{ask.name}")


def _media_response(found: StoredObject) -> Response:
    headers = {"X-Goog-Generation": str(found.generation), "X-Goog-Hash": f"md5={_md5_hash(found)}"}
    return Response(found.content, headers=headers, media_type=found.content_type)


def _describe_object(ask: Ask, found: StoredObject) -> dict[str, Any]:
    path = f"/b/{ask.bucket}/o/{quote(found.name, safe='')}"
    at = datetime.fromtimestamp(found.created, UTC).isoformat(timespec="milliseconds")
    moment = at.replace("+00:00", "Z")
    return {
        "kind": "storage#object",
        "id": f"{ask.bucket}/{found.name}/{found.generation}",
        "selfLink": f"{ask.base}/storage/v1{path}",
        "mediaLink": f"{ask.base}/download/storage/v1{path}?alt=media",
        "name": found.name,
        "bucket": ask.bucket,
        "generation": str(found.generation),
        "metageneration": "1",
        "contentType": found.content_type,
        "storageClass": "STANDARD",
        "size": str(len(found.content)),
        "md5Hash": _md5_hash(found),
        "timeCreated": moment,
        "updated": moment,
    }


def _md5_hash(found: StoredObject) -> str:
    digest = hashlib.md5(found.content, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def _error_response(refusal: StorageRefusal) -> Response:
    text = str(refusal)
    error = {
        "code": refusal.status,
        "message": text,
        "errors": [{"message": text, "domain": "global", "reason": refusal.reason}],
    }
    return json_response({"error": error}, refusal.status)


def unauthenticated_response() -> Response:
    """Return the response to a caller without a token, as Google's APIs send it."""
    error = ApiError(
        Code.UNAUTHENTICATED,
        "Request is missing required authentication credential. Expected OAuth 2 access token,"
        " login cookie or other valid authentication credential.",
    )
    return _error_response(StorageRefusal(error.http_status, "required", error.message))
