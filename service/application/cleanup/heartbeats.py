"""Heartbeats: a caller reports that a node is active, if need be with a token that permits only
this."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from service.application.cleanup.flood_gate import FloodGate
from service.application.retries import retry_stale
from service.domain.clock import Clock, to_rfc3339
from service.domain.errors import Conflict, StaleVersion, TokenRefused
from service.domain.event import Event
from service.domain.idle.links import BYTES, hash_of
from service.domain.idle.signals.heartbeat import (
    PREFIX,
    TOKEN_SECONDS,
    Beat,
    Heartbeat,
    HeartbeatToken,
    accept_beat,
)
from service.domain.nodes.node import Asked, Node
from service.store.unit import Unit, Units

MOST_A_MINUTE = 240
"""Heartbeats of one node that one process accepts in a minute: one of every second worker of the
largest slices. More is a flood."""

_LONGEST_TOKEN = 100
_UNKNOWN = ""
"""The key under which all unknown tokens are counted."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token, which is shown only once, and its stored record."""

    token: str
    stored: HeartbeatToken


class HeartbeatService:
    """Each public method is one unit of work."""

    def __init__(self, units: Units, clock: Clock) -> None:
        self._units = units
        self._clock = clock
        reason = "heartbeats came within a minute; send one a minute"
        self._gate = FloodGate(MOST_A_MINUTE, reason)

    def make_token(self, node_id: str, actor: str = "") -> NewToken:
        """Create a token for heartbeats of the current incarnation of a node; the token permits
        nothing else. Raises NotFound, or Conflict for a node that is being deleted or was not
        placed yet."""
        now, token = self._clock(), PREFIX + secrets.token_urlsafe(BYTES)
        with self._units() as unit:
            node = unit.nodes.get(node_id)
            _check_alive(node)
            stored = HeartbeatToken(hash_of(token), node.id, node.attempt, now, now + TOKEN_SECONDS)
            unit.heartbeats.add_token(stored)
            message = f"heartbeat token made, valid until {to_rfc3339(stored.expires_at)}"
            unit.events.add(Event(node.id, now, "asked", message, actor or "caller"))
        return NewToken(token, stored)

    def record_beat(self, node_id: str, beat: Beat, token: str | None = None) -> Heartbeat:
        """Accept a heartbeat; returns the heartbeat that holds. `token` is the caller's heartbeat
        token, None for a caller with full access.

        Raises TokenRefused for a token that is not valid for this incarnation of this node,
        RateLimited for a flood, Rejected for a heartbeat from the future or for more than a day,
        Conflict for a node that is being deleted. A heartbeat without news is not written.
        """
        return retry_stale(
            lambda: self._try_beat(node_id, beat, token),
            "another heartbeat arrived just now; do not send this one again",
        )

    def _try_beat(self, node_id: str, beat: Beat, token: str | None) -> Heartbeat:
        now = self._clock()
        with self._units.reading() as unit:
            if token is not None:
                self._check_token(unit, node_id, token, now)
            node = unit.nodes.get(node_id)
            before = unit.heartbeats.find_by_node(node_id)
        self._gate.count_call(node.id, now)
        _check_alive(node)
        after = accept_beat(before, beat, node.id, node.attempt, now)
        if after is before:
            return after
        with self._units() as unit:
            # The end of a node locks the row too: this heartbeat commits before it, or is refused.
            unit.nodes.lock(node.id)
            node = unit.nodes.get(node.id)
            _check_alive(node)
            if node.attempt != after.incarnation:
                raise StaleVersion(f"node {node.name} was created again just now")
            return unit.heartbeats.save(after)

    def _check_token(self, unit: Unit, node_id: str, token: str, now: int) -> None:
        """Raise TokenRefused unless the token is valid for the current incarnation of the node.
        Guessing counts against a rate limit."""
        known = None if len(token) > _LONGEST_TOKEN else unit.heartbeats.find_token(hash_of(token))
        if known is None or known.node_id != node_id:
            self._gate.count_call(_UNKNOWN, now)
            raise TokenRefused("this token is not valid for heartbeats of this node")
        if now >= known.expires_at:
            raise TokenRefused(f"this token has expired at {to_rfc3339(known.expires_at)}")
        if unit.nodes.get(node_id).attempt != known.incarnation:
            raise TokenRefused(
                "this token is for an earlier incarnation of the node; make a new token with"
                " tpu-steward nodes heartbeat-token"
            )


def _check_alive(node: Node) -> None:
    if node.has_ended or node.asked is Asked.ABSENT:
        raise Conflict(
            f"node {node.name} is {node.state}: it was deleted, and a deletion cannot be undone"
        )
    if not node.attempt:
        raise Conflict(f"node {node.name} is {node.state}: nothing runs on it yet")
