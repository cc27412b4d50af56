"""Resource names, node ids and labels: their formats, and the errors of malformed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from service.emulator.errors import ApiError, Code, invalid_argument

NODE_ID = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
PROJECT = r"[A-Za-z0-9][A-Za-z0-9.:_-]{0,62}"
ZONE = r"[a-z][a-z0-9-]{0,62}|-"
LABEL_KEY_START = re.compile(r"[a-z]")
LABEL_CHARACTER = re.compile(r"[a-z0-9_-]")
MAX_LABELS = 64
MAX_LABEL_LENGTH = 63


@dataclass(frozen=True)
class Place:
    """A project and a zone; the zone `-` means every zone."""

    project: str
    zone: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def is_wildcard(self) -> bool:
        return self.zone == "-"

    def child_name(self, collection: str, name: str) -> str:
        return f"{self.parent}/{collection}/{name}"


def malformed_name(field: str, value: str, pattern: str) -> ApiError:
    return ApiError(
        Code.INVALID_ARGUMENT,
        f'Invalid value for field "{field}": "{value}" does not match the pattern "{pattern}".',
    )


def project_of(name: str) -> str:
    """Return P of `projects/P`, the parent of locations; raises ApiError."""
    match = re.fullmatch(f"projects/({PROJECT})", name)
    if match is None:
        raise malformed_name("name", name, "projects/*")
    return match[1]


def place_of(parent: str, field: str = "parent") -> Place:
    """Parse `projects/P/locations/Z`; raises ApiError."""
    match = re.fullmatch(f"projects/({PROJECT})/locations/({ZONE})", parent)
    if match is None:
        raise malformed_name(field, parent, "projects/*/locations/*")
    return Place(match[1], match[2])


def child_of(name: str, collection: str, field: str = "name") -> tuple[Place, str]:
    """Parse `projects/P/locations/Z/<collection>/<id>`; raises ApiError."""
    match = re.fullmatch(f"projects/({PROJECT})/locations/({ZONE})/{collection}/([^/]+)", name)
    if match is None:
        raise malformed_name(field, name, f"projects/*/locations/*/{collection}/*")
    return Place(match[1], match[2]), match[3]


def check_node_id(node_id: str) -> None:
    if NODE_ID.fullmatch(node_id) is None:
        raise invalid_argument(
            f'The field "NodeId" cannot be "{node_id}". It must match'
            f' the regular expression "^{NODE_ID.pattern}$".'
        )


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise ApiError for too many labels, or for the first invalid one by key."""
    problem = ""
    if len(labels) > MAX_LABELS:
        problem = f"{len(labels)} labels given, the maximum is {MAX_LABELS}"
    for key, value in sorted(labels.items()):
        problem = problem or _find_key_problem(key)
        if not problem and len(value) > MAX_LABEL_LENGTH:
            problem = (
                f'value "{value}" is longer than {MAX_LABEL_LENGTH} characters for key "{key}"'
            )
        problem = problem or _find_bad_character(f'value "{value}"', value, f' for key "{key}"')
    if problem:
        raise ApiError(Code.INVALID_ARGUMENT, f"resource labels are invalid: {problem}")


def _find_key_problem(key: str) -> str:
    if not key:
        return "key must not be empty"
    if len(key) > MAX_LABEL_LENGTH:
        return f'key "{key}" is longer than {MAX_LABEL_LENGTH} characters'
    if LABEL_KEY_START.match(key) is None:
        return f'key "{key}" must start with a lowercase letter'
    return _find_bad_character(f'key "{key}"', key, "")


def _find_bad_character(what: str, text: str, suffix: str) -> str:
    for index, character in enumerate(text):
        if LABEL_CHARACTER.match(character) is None:
            return f"{what} contains invalid character '{character}' at index {index}{suffix}"
    return ""
