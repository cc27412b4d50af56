"""The keys of the bodies and queries of control routes, with their types and defaults.

The configuration and faults have classes of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from service.emulator.nodes import activity
from service.emulator.validation import invalid_value, parse_mapping, require_known_keys

MAX_NOTICE_SECONDS = 3600.0


class Absent(Enum):
    """The meaning of an absent key that has no default value."""

    REQUIRED = "required"
    UNCHANGED = "as it was"


@dataclass(frozen=True)
class Key:
    """One key: its type in words, and its default value."""

    name: str
    type: str
    default: object = Absent.REQUIRED


MOMENT = "unix seconds or RFC 3339; empty for no bound"
FLAG = "true or false"
NAME = Key("name", "text, projects/…/locations/…/nodes/…")
WORKER = Key("worker", "whole number; null for the first", None)
BODIES: Mapping[str, tuple[Key, ...]] = {
    "POST nodes/preempt": (
        NAME,
        Key("force", FLAG, default=False),
        Key("notice_seconds", f"number, 0 to {MAX_NOTICE_SECONDS:.0f}", 0),
        Key("workers", "list of whole numbers; null for all", None),
    ),
    "POST nodes/maintenance": (NAME,),
    "POST nodes/host-error": (NAME, Key("recovers", FLAG, default=True)),
    "POST nodes/health": (
        NAME,
        Key("health", "text, such as UNHEALTHY_TENSORFLOW"),
        Key("description", "text", ""),
    ),
    "POST nodes/activity": (
        NAME,
        Key("worker", "whole number; null for all", None),
        Key("chip", "whole number; null for all", None),
        *(
            Key(name, f"number, 0 to {highest:.0f}", Absent.UNCHANGED)
            for name, highest in activity.HIGHEST.items()
        ),
    ),
    "POST nodes/metadata-server": (NAME, WORKER),
    "GET nodes/serial": (NAME, WORKER),
    "GET bill": (Key("start", MOMENT, ""), Key("end", MOMENT, "")),
    "DELETE faults": (Key("id", "whole number; empty for all", ""),),
}


def read_order(route: str, body: object) -> dict[str, object]:
    """Return the keys of a body, with the defaults of absent keys; raises ApiError."""
    keys = BODIES[route]
    said = parse_mapping(body, "the body")
    require_known_keys(said, [key.name for key in keys], "key")
    for key in keys:
        if key.default is Absent.REQUIRED and key.name not in said:
            raise invalid_value(f"{key.name} must be given: {key.type}")
    defaults = {key.name: key.default for key in keys if not isinstance(key.default, Absent)}
    return {**defaults, **said}
