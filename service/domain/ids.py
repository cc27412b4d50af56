"""Ids, names and labels: how they are made, and which are allowed."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from service.domain.errors import Rejected


@dataclass(frozen=True, slots=True)
class IdSource:
    """Where new ids take their time and their random bits from."""

    seconds: Callable[[], float]
    randbits: Callable[[int], int]


_source: ContextVar[IdSource | None] = ContextVar("source of ids", default=None)


@contextmanager
def ids_from(source: IdSource) -> Iterator[None]:
    """Make the ids of this thread from another source within the block: for a simulated clock."""
    token = _source.set(source)
    try:
        yield
    finally:
        _source.reset(token)


def new_id() -> str:
    """A new id: a UUID version 7 (RFC 9562). Later ids sort after earlier ones, which pagination
    uses."""
    source = _source.get() or IdSource(time.time, secrets.randbits)
    millis = int(source.seconds() * 1_000)
    value = (millis << 80) | (0x7 << 76) | (source.randbits(12) << 64)
    value |= (0b10 << 62) | source.randbits(62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


NAME_RULE = re.compile(r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?")
LABEL_KEY_RULE = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE_RULE = re.compile(r"[a-z0-9_-]{0,63}")
RESERVED_LABEL_PREFIX = "steward-"
MAX_CLOUD_ID = 63
"""Google's maximum for a node id; only the ten-thousandth attempt of a long name reaches it."""

MACHINE_TYPE_RULE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+){1,4}")
"""A machine type of Compute Engine: `n1-standard-8`. No generation of TPUs has a hyphen."""

MAX_MACHINE_TYPE = 63

MAX_LABELS = 60
"""Maximum number of a caller's labels: Google allows 64, and four are reserved for ours."""


def cloud_id_for(name: str, node_id: str, attempt: int) -> str:
    """The id in the cloud of one attempt: derivable after a crash, and never reused."""
    suffix = "" if name.endswith(node_id[-8:]) else f"-{node_id[-8:]}"
    if attempt > 1:
        suffix += f"-{attempt}"
    return name[: MAX_CLOUD_ID - len(suffix)] + suffix


def is_machine_type(name: str) -> bool:
    """Whether a name is allowed as a machine type by its form; accelerator types have that form
    too."""
    return len(name) <= MAX_MACHINE_TYPE and MACHINE_TYPE_RULE.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Raise Rejected for a name of which no cloud id can be made.

    Google's rule for a node id is `[a-z]([-a-z0-9]{0,61}[a-z0-9])?`; 14 characters are reserved
    for the suffix that makes the id unique.
    """
    if not NAME_RULE.fullmatch(name):
        raise Rejected(
            f"the name {name[:80]!r} is not allowed. Use 1 to 49 lower-case letters, digits and"
            " hyphens; start with a letter, and end with a letter or digit",
            field="name",
        )


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise Rejected for labels with a name or value that is not allowed. Google would refuse it,
    or this service reserves it."""
    if len(labels) > MAX_LABELS:
        raise Rejected(f"{len(labels)} labels are too many: at most {MAX_LABELS}", field="labels")
    for key, value in labels.items():
        if key.startswith(RESERVED_LABEL_PREFIX):
            raise Rejected(
                f"the label {key[:80]!r} is not allowed:"
                f" {RESERVED_LABEL_PREFIX}* belongs to the service",
                field="labels",
            )
        if not LABEL_KEY_RULE.fullmatch(key):
            raise Rejected(
                f"the label key {key[:80]!r} is not allowed: it starts with a lower-case letter and"
                " has at most 63 lower-case letters, digits, hyphens and underscores",
                field="labels",
            )
        if not LABEL_VALUE_RULE.fullmatch(value):
            raise Rejected(
                f"the value {value[:80]!r} of label {key!r} is not allowed: at most 63 lower-case"
                " letters, digits, hyphens and underscores",
                field="labels",
            )
