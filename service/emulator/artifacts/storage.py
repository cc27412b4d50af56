"""An emulated Cloud Storage in memory. Every bucket exists; a reset of the world empties them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from service.emulator.validation import invalid_value, parse_flag, parse_mapping, require_known_keys

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
MULTI_REGIONS = {"US", "EU", "ASIA"}
MAX_BYTES = 128 * 1024 * 1024
"""Size of all objects together, which are in memory."""
MAX_OBJECTS = 100_000
MAX_OBJECT_NAME = 1024
"""Length in bytes, documented by Google."""
READ = frozenset({"storage.buckets.get", "storage.objects.get", "storage.objects.list"})
WRITE = frozenset(
    {"storage.objects.create", "storage.objects.delete", "storage.objects.update"}
    | {f"storage.multipartUploads.{verb}" for verb in ("abort", "create", "list", "listParts")}
)


@dataclass(frozen=True)
class BucketSettings:
    """Configured settings of one bucket."""

    missing: bool = False
    readable: bool = True
    writable: bool = True
    location: str = ""
    """In capitals, a region or US, EU, ASIA; empty for the region of the worker that asks."""

    @property
    def permissions(self) -> frozenset[str]:
        nothing: frozenset[str] = frozenset()
        return (READ if self.readable else nothing) | (WRITE if self.writable else nothing)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a bucket; each generation is unique."""

    name: str
    content: bytes
    content_type: str
    generation: int
    created: float


@dataclass(frozen=True)
class Page:
    items: tuple[StoredObject, ...]
    prefixes: tuple[str, ...] = ()
    next_token: str = ""
    """The name after which the next page begins; empty for the last page."""


class Full(Exception):
    """More than the emulator keeps in memory."""


class PreconditionFailed(Exception):
    """The object is not of the generation that the writer expects."""


@dataclass
class Storage:
    """The objects of all buckets, by bucket and name."""

    _buckets: dict[str, dict[str, StoredObject]] = field(default_factory=dict)
    _bytes: int = 0
    _objects: int = 0
    _generation: int = 0

    def clear(self) -> None:
        self._buckets.clear()
        self._bytes = self._objects = 0

    def get(self, bucket: str, name: str) -> StoredObject | None:
        return self._buckets.get(bucket, {}).get(name)

    def put(
        self,
        bucket: str,
        name: str,
        content: bytes,
        content_type: str,
        at: float,
        if_generation: int | None = None,
    ) -> StoredObject:
        """Return the written object. Raises Full, or PreconditionFailed for another generation.

        The generation of an object that does not exist is 0.
        """
        before = self.get(bucket, name)
        if if_generation is not None and if_generation != (before.generation if before else 0):
            raise PreconditionFailed
        size = self._bytes + len(content) - (len(before.content) if before else 0)
        if size > MAX_BYTES or self._objects + (before is None) > MAX_OBJECTS:
            raise Full
        self._bytes = size
        self._objects += before is None
        # Real generations look like microseconds since 1970, too.
        self._generation = max(self._generation + 1, int(at * 1_000_000))
        made = StoredObject(name, content, content_type, self._generation, at)
        self._buckets.setdefault(bucket, {})[name] = made
        return made

    def delete(self, bucket: str, name: str) -> bool:
        """Delete an object; False if there was none."""
        dropped = self._buckets.get(bucket, {}).pop(name, None)
        if dropped is None:
            return False
        self._bytes -= len(dropped.content)
        self._objects -= 1
        return True

    def list_page(self, bucket: str, prefix: str, delimiter: str, after: str, limit: int) -> Page:
        """List objects by name. Names with the same part up to a delimiter share one entry."""
        items: list[StoredObject] = []
        prefixes: list[str] = []
        last = ""
        for name, stored in sorted(self._buckets.get(bucket, {}).items()):
            if name <= after or not name.startswith(prefix):
                continue
            # The common prefix that stands in the list for the object; empty for none.
            head, cut, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            group = f"{prefix}{head}{delimiter}" if cut else ""
            if group and (group in prefixes or after.startswith(group)):
                last = name
                continue
            if len(items) + len(prefixes) == limit:
                return Page(tuple(items), tuple(prefixes), last)
            last = name
            if group:
                prefixes.append(group)
            else:
                items.append(stored)
        return Page(tuple(items), tuple(prefixes))


def buckets_of(raw: object, what: str) -> dict[str, BucketSettings]:
    """Return the checked settings of each bucket by name. Raises ApiError."""
    found: dict[str, BucketSettings] = {}
    for name, settings in parse_mapping(raw, what).items():
        if NAME.fullmatch(name) is None:
            raise invalid_value(f"{name!r} is no name of a bucket")
        given: Mapping[str, object] = parse_mapping(settings, f"the bucket {name}")
        require_known_keys(
            given, [field.name for field in fields(BucketSettings)], "key of a bucket"
        )
        location = given.get("location", "")
        if not isinstance(location, str) or len(location) > 64:
            raise invalid_value("location must be a region, or US, EU or ASIA")
        found[name] = BucketSettings(
            missing=parse_flag(given.get("missing", False), "missing"),
            readable=parse_flag(given.get("readable", True), "readable"),
            writable=parse_flag(given.get("writable", True), "writable"),
            location=location.upper(),
        )
    return found


def location_type(location: str) -> str:
    return "multi-region" if location in MULTI_REGIONS else "region"
