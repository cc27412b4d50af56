"""What the cloud's own record says of operations on a node: the evidence for both ends of usage."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from service.cloud.ports import Operation, TpuCloud
from service.domain.errors import CloudError, CloudNotFound
from service.domain.evidence.poll import Poll
from service.domain.nodes.node import Node, Place
from service.domain.nodes.slices import numbers, part

FRESH_SECONDS = 2.0
"""So long the list of a zone serves all the nodes that one tick takes up."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The operations of a zone by what they were done to, and when the list was begun."""

    by_target: Mapping[str, Sequence[Operation]]
    at: float


class OperationLog:
    """Looks operations up, at most one list a zone; made anew for each tick.

    Without an answer there is no evidence, and usage ends between two looks; that stops nothing.
    """

    def __init__(self, cloud: TpuCloud) -> None:
        self._cloud = cloud
        self._by_zone: dict[tuple[str, str], _Listed] = {}
        self.monotonic: Callable[[], float] = time.monotonic

    def of(self, node: Node) -> Sequence[Operation]:
        """Every operation on the node that the cloud remembers."""
        if node.sent_at is None:
            return ()
        return self.at(node.place, node.place.path)

    def at(self, place: Place, path: str) -> Sequence[Operation]:
        """Every operation that the cloud remembers on what has that full name, a node or a queued
        resource, in the zone of the place."""
        return self._listed((place.project, place.zone), path).by_target.get(path, ())

    def birth(self, place: Place) -> int | None:
        """When what is at that place was created, None when the cloud does not remember.

        Raises CloudError when it gives no answer: another time it may.
        """
        key = place.project, place.zone
        if key not in self._by_zone:
            self._by_zone[key] = _Listed(self._by_target(*key), self.monotonic())
        known = self._by_zone[key].by_target.get(place.path, ())
        return max((one.created_at for one in known if one.verb == "create"), default=None)

    def poll(self, node: Node, now: int, asked: int | None = None) -> Callable[[Node], Poll]:
        """How a node that is gone, or each of its slices, is to be looked at; asked for beforehand,
        since no call is made while a transaction is open.

        It was last there when it was last seen itself, or when a list last showed it, which is for
        who writes to say. Nor was it there any more when the lists first lacked it.
        """
        parts = [part(node, number) for number in numbers(node)]
        if node.missed_at is not None and len(parts) == 1:
            now = max(node.seen_at, min(now, node.missed_at))
        refused = self._was_refused(node)
        found = {
            one.cloud_id: Poll(now, max(node.seen_at, one.seen_at), self.of(one), asked, refused)
            for one in parts
        }
        return lambda one: found[one.cloud_id]

    def _was_refused(self, node: Node) -> bool:
        """Whether its queued resource came to nothing, by the record of all operations."""
        if node.sent_at is None or not node.spec.queued:
            return False
        known = self.at(node.place, node.place.queue_path)
        return any(one.verb == "create" and one.error is not None for one in known)

    def last(self, node: Node) -> Operation | None:
        """The operation that was started last, now; None when there is none or it is forgotten."""
        if not node.operation:
            return None
        try:
            return self._cloud.operation(node.operation)
        except CloudNotFound:
            return None

    def create(self, node: Node) -> Operation | None:
        """The operation that created the node, by the record of all; None where that has none."""
        creates = (one for one in self.of(node) if one.verb == "create")
        return max(creates, key=lambda one: one.created_at, default=None)

    def _listed(self, key: tuple[str, str], path: str) -> _Listed:
        """The list of the zone, good enough for what has that full name."""
        known = self._by_zone.get(key)
        if known is None or self._is_stale(known, path):
            known = self._by_zone[key] = self._list(*key)
        return known

    def _is_stale(self, _listed: _Listed, _path: str) -> bool:
        return False

    def _list(self, project: str, zone: str) -> _Listed:
        begun = self.monotonic()
        try:
            return _Listed(self._by_target(project, zone), begun)
        except CloudError:
            return _Listed({}, begun)

    def _by_target(self, project: str, zone: str) -> dict[str, list[Operation]]:
        by_target: dict[str, list[Operation]] = defaultdict(list)
        for operation in self._cloud.operations(project, zone):
            by_target[operation.target].append(operation)
        return by_target


class SharedRecords(OperationLog):
    """Records for the threads of one tick: those that want the list of a zone at once share it.

    A list is asked for again when it is old, and for a node of which it says that something was
    still under way. A zone from which a hundred nodes go is listed once or twice, not a hundred
    times.
    """

    def __init__(self, cloud: TpuCloud) -> None:
        super().__init__(cloud)
        self._locks: dict[tuple[str, str], threading.Lock] = {}

    def forget(self, project: str) -> None:
        """Begin a tick of the project: what was listed in the one before serves no more."""
        for key in list(self._by_zone):
            if key[0] == project:
                self._by_zone.pop(key, None)

    def _listed(self, key: tuple[str, str], path: str) -> _Listed:
        with self._locks.setdefault(key, threading.Lock()):
            return super()._listed(key, path)

    def _is_stale(self, listed: _Listed, path: str) -> bool:
        if self.monotonic() - listed.at >= FRESH_SECONDS:
            return True
        return any(not one.done for one in listed.by_target.get(path, ()))


def polls_since(poll: Callable[[Node], Poll], shown: int) -> Callable[[Node], Poll]:
    """The same looks at what a list has shown at `shown`, too."""
    return lambda one: poll(one).since(shown)
