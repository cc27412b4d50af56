"""The configured behaviour of image pulls: how long a pull takes, and how it fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from service.emulator.validation import (
    invalid_value,
    parse_integer,
    parse_mapping,
    parse_number,
    require_known_keys,
)

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_SECONDS = 24 * 3600.0
MAX_TEXT = 1000


@dataclass(frozen=True)
class ImageSettings:
    """Settings of one image, by name without tag and digest. Unset fields follow from the name."""

    pull_seconds: float | None = None
    pull_fails: str | None = None
    """`denied`, `missing`, `unavailable`, `no-space`, or docker's words; empty for no failure."""
    times: int = 0
    """The number of pulls of each worker that the settings apply to; 0 for every pull."""
    digest: str | None = None
    """The digest behind a tag of the image: `sha256:…`."""

    def describe_pull(self) -> dict[str, Any]:
        """Return the set fields that a worker needs for one pull."""
        values = {name: getattr(self, name) for name in ("pull_seconds", "pull_fails", "digest")}
        return {name: value for name, value in values.items() if value is not None}


def images_of(raw: object, what: str) -> dict[str, ImageSettings]:
    """Return the checked settings of each image by name. Raises ApiError."""
    found: dict[str, ImageSettings] = {}
    for name, settings in parse_mapping(raw, what).items():
        given = parse_mapping(settings, f"the image {name}")
        require_known_keys(
            given, [field.name for field in fields(ImageSettings)], "key of an image"
        )
        value = given.get("pull_seconds")
        seconds = None if value is None else parse_number(value, "pull_seconds", 0, MAX_SECONDS)
        fails = _parse_text(given, "pull_fails")
        times = parse_integer(given.get("times", 0), "times")
        digest = _parse_text(given, "digest")
        if digest is not None and DIGEST.fullmatch(digest) is None:
            raise invalid_value("digest must be sha256: and 64 hexadecimal digits")
        found[name] = ImageSettings(seconds, fails, times, digest)
    return found


def _parse_text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or len(value) > MAX_TEXT):
        raise invalid_value(f"{key} must be a text of at most {MAX_TEXT} characters")
    return value
