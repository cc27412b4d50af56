"""What the configuration says of container images: how long a pull takes, and how it fails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from service.emulator.validation import known_only, mapping, number, refusal, whole

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MAX_SECONDS = 24 * 3600.0
MAX_TEXT = 1000


@dataclass(frozen=True)
class ImageSettings:
    """One image, by its name without tag and digest; what is not set follows the image's name."""

    pull_seconds: float | None = None
    pull_fails: str | None = None
    """`denied`, `missing`, `unavailable`, `no-space`, or docker's words; empty for no failure."""
    times: int = 0
    """How many pulls of each worker this is about; 0 for all of them."""
    digest: str | None = None
    """What a tag of the image stands for: `sha256:…`."""

    def told(self) -> dict[str, Any]:
        """Give what a worker has to know for one pull."""
        asked = {name: getattr(self, name) for name in ("pull_seconds", "pull_fails", "digest")}
        return {name: value for name, value in asked.items() if value is not None}


def images_of(raw: object, what: str) -> dict[str, ImageSettings]:
    """Check the settings of each image; raises ApiError."""
    return {name: _settings(name, each) for name, each in mapping(raw, what).items()}


def _settings(name: str, raw: object) -> ImageSettings:
    given = mapping(raw, f"the image {name}")
    known_only(given, [each.name for each in fields(ImageSettings)], "key of an image")
    return ImageSettings(
        pull_seconds=_optional(given, "pull_seconds"),
        pull_fails=_text(given, "pull_fails"),
        times=whole(given.get("times", 0), "times"),
        digest=_digest(given),
    )


def _optional(given: Mapping[str, object], key: str) -> float | None:
    value = given.get(key)
    return None if value is None else number(value, key, 0, MAX_SECONDS)


def _text(given: Mapping[str, object], key: str) -> str | None:
    value = given.get(key)
    if value is not None and (not isinstance(value, str) or len(value) > MAX_TEXT):
        raise refusal(f"{key} must be a text of at most {MAX_TEXT} characters")
    return value


def _digest(given: Mapping[str, object]) -> str | None:
    value = _text(given, "digest")
    if value is not None and DIGEST.fullmatch(value) is None:
        raise refusal("digest must be sha256: and 64 hexadecimal digits")
    return value
