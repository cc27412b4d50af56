"""Emulated container registries. Every image exists, unless its name or the configuration denies
it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from service.emulator.validation import (
    invalid_value,
    parse_flag,
    parse_mapping,
    parse_number,
    parse_texts,
    require_known_keys,
)

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
BOTH = ("linux/amd64", "linux/arm64")
PARTS = {"amd64only": ("linux/amd64",), "arm64only": ("linux/arm64",)}
"""The platforms of an image, by a part of its name or tag."""
STATUSES = ("ok", "missing", "denied", "slow")
PLATFORM = re.compile(r"[a-z0-9]{1,32}/[a-z0-9]{1,32}")
MAX_SECONDS = 3600.0
MAX_SIZE = 10**9


@dataclass(frozen=True)
class RegistryImage:
    """Configured settings of one image."""

    status: str = "ok"
    seconds: float = 0.0
    """Until the registry answers, where the status is `slow`."""
    platforms: tuple[str, ...] = BOTH


@dataclass(frozen=True)
class Registry:
    """Configured settings of all registries: images by `host/repository:tag`."""

    images: Mapping[str, RegistryImage] = field(default_factory=dict)
    down: bool = False


@dataclass(frozen=True)
class Manifest:
    """Response of a registry, to be sent after a delay in real seconds."""

    status: int
    body: bytes
    content_type: str = "application/json"
    digest: str = ""
    delay_seconds: float = 0.0


def image_of(registry: Registry, name: str, tag: str) -> RegistryImage:
    """Return the settings of an image: configured, else from the parts of its name and tag."""
    configured = registry.images.get(f"{name}:{tag}", registry.images.get(name))
    if configured is not None:
        return configured
    parts = set(re.split(r"[/:._-]", f"{name}:{tag}"))
    if "noimage" in parts:
        return RegistryImage("missing")
    if "denied" in parts:
        return RegistryImage("denied")
    return RegistryImage(
        platforms=next((platforms for part, platforms in PARTS.items() if part in parts), BOTH)
    )


class ManifestStore:
    """Manifests by tag, and by each digest that a tag was served with."""

    def __init__(self) -> None:
        self._tags: dict[tuple[str, str], str] = {}

    def serve_manifest(self, registry: Registry, name: str, reference: str) -> Manifest:
        """Return the response to a manifest request; `name` begins with the registry's host.

        An image has the same digest each time. A digest is unknown until a tag was served with it.
        """
        if registry.down:
            return _build_error(503, "UNAVAILABLE", "the registry is down")
        tag = self._tags.get((name, reference), "") if ":" in reference else reference
        image = image_of(registry, name, tag)
        delay = image.seconds if image.status == "slow" else 0.0
        if image.status == "denied":
            return _build_error(403, "DENIED", "requested access to the resource is denied")

        manifests = []
        for platform in image.platforms:
            system, _, architecture = platform.partition("/")
            seed = hashlib.sha256(f"{name}:{tag} {platform}".encode())
            manifests.append(
                {
                    "mediaType": MANIFEST,
                    "digest": f"sha256:{seed.hexdigest()}",
                    "size": int.from_bytes(seed.digest()[:4]) % MAX_SIZE,
                    "platform": {"architecture": architecture, "os": system},
                }
            )
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
        body = json.dumps(index, separators=(",", ":")).encode()
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if image.status == "missing" or not tag or (":" in reference and digest != reference):
            return _build_error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        self._tags[name, digest] = tag
        return Manifest(200, body, INDEX, digest, delay)

    def clear(self) -> None:
        self._tags.clear()


def patched_registry(registry: Registry, patch: object) -> Registry:
    """Return the registry with a JSON merge of known keys. Raises ApiError."""
    changes = parse_mapping(patch, "registry")
    require_known_keys(changes, [field.name for field in fields(Registry)], "registry")
    if "down" in changes:
        registry = replace(registry, down=parse_flag(changes["down"], "down"))
    if "images" in changes:
        images: dict[str, RegistryImage] = {}
        for name, raw in parse_mapping(changes["images"], "images").items():
            order = parse_mapping(raw, "an image")
            require_known_keys(order, [field.name for field in fields(RegistryImage)], "image")
            status = order.get("status", "ok")
            if status not in STATUSES:
                raise invalid_value(f"status must be one of {', '.join(STATUSES)}")
            platforms = parse_texts(order.get("platforms", list(BOTH)), "platforms")
            if not platforms or not all(map(PLATFORM.fullmatch, platforms)):
                raise invalid_value("platforms must be a list such as ['linux/arm64']")
            seconds = parse_number(order.get("seconds", 0), "seconds", 0, MAX_SECONDS)
            images[name] = RegistryImage(str(status), seconds, platforms)
        registry = replace(registry, images=images)
    return registry


def _build_error(status: int, code: str, message: str) -> Manifest:
    """Return an error response as in the OCI distribution specification."""
    body: dict[str, Any] = {"errors": [{"code": code, "message": message}]}
    return Manifest(status, json.dumps(body).encode())
