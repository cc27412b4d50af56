"""Heartbeats: the claim of a program or a person that a node is active until an instant. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.clock import DAY, HOUR, to_rfc3339
from service.domain.errors import Rejected

DEFAULT_SECONDS = 900
LONGEST_SECONDS = DAY
"""The longest heartbeat. A node that has to stay for longer is kept, which needs a reason."""

AHEAD_SECONDS = 60
"""The largest difference of a sender's clock ahead of ours."""

LEAST_SECONDS = 10
"""The shortest time between two heartbeats that are written. An earlier heartbeat without news is
answered only, so a flood of heartbeats costs nothing."""

PREFIX = "hb_"
"""The prefix of every heartbeat token, which distinguishes it from others and in logs."""

TOKEN_SECONDS = 30 * DAY
MAX_NOTE = 200


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The newest heartbeat of an incarnation of a node: its arrival, and its end."""

    node_id: str
    incarnation: int
    at: int
    until: int
    note: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class HeartbeatToken:
    """A token that is valid only for heartbeats of one incarnation of one node."""

    token_hash: str
    node_id: str
    incarnation: int
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Beat:
    """A heartbeat as it is sent: its instant by the sender's clock (None: now), and the seconds for
    which it holds."""

    at: int | None = None
    seconds: int = DEFAULT_SECONDS
    note: str = ""


def accept_beat(
    before: Heartbeat | None, beat: Beat, node_id: str, incarnation: int, now: int
) -> Heartbeat:
    """Return the newest heartbeat of a node after a new beat; the one before without news.

    Raises Rejected for a beat from the future, and for a beat that would hold for less than a
    second or more than a day.
    """
    sent_at = now if beat.at is None else beat.at
    seconds = beat.seconds
    if sent_at > now + AHEAD_SECONDS:
        raise Rejected(
            f"the heartbeat was sent at {to_rfc3339(sent_at)}, and now is {to_rfc3339(now)};"
            " set the clock of the machine that sends it",
            field="at",
        )
    if not 0 < seconds <= LONGEST_SECONDS:
        raise Rejected(
            f"a heartbeat holds for 1 second to {LONGEST_SECONDS // HOUR} hours; to keep a node for"
            " longer, use POST /v1/nodes/{id}:keep",
            field="expires_seconds",
        )
    until = min(sent_at, now) + seconds
    after = Heartbeat(node_id, incarnation, now, until, beat.note.strip()[:MAX_NOTE])
    if before is None:
        return after
    if before.incarnation != incarnation:
        return replace(after, version=before.version)
    is_news = until > before.until and now - before.at >= LEAST_SECONDS
    is_longer = until > before.until + LEAST_SECONDS
    if not is_news and not is_longer:
        return before
    return replace(after, until=max(until, before.until), version=before.version)
