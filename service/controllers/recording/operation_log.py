"""The cloud's own record of operations on a node: the evidence for both ends of usage."""

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
from service.domain.nodes.slices import slice_as_node, slice_numbers

FRESH_SECONDS = 2.0
"""Seconds for which the list of a zone serves all nodes of one tick."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The operations of a zone by target, and the monotonic time at which the call began."""

    by_target: Mapping[str, Sequence[Operation]]
    at: float


class OperationLog:
    """Looks operations up with at most one list call for each zone; one object serves one tick.

    Without an answer there is no evidence, and usage ends between two looks; nothing else stops.
    """

    def __init__(self, cloud: TpuCloud) -> None:
        self._cloud = cloud
        self._by_zone: dict[tuple[str, str], _Listed] = {}
        self.monotonic: Callable[[], float] = time.monotonic

    def operations_of(self, node: Node) -> Sequence[Operation]:
        """All operations on the node that the cloud remembers."""
        if node.sent_at is None:
            return ()
        return self.operations_at(node.place, node.place.path)

    def operations_at(self, place: Place, path: str) -> Sequence[Operation]:
        """All remembered operations in the zone of the place on the node or queued resource with
        this full name."""
        return self._get_listed((place.project, place.zone), path).by_target.get(path, ())

    def read_creation_time(self, place: Place) -> int | None:
        """Creation time of the node at the place; None if the cloud does not remember it.

        Raises CloudError if the cloud gives no answer: a later call may succeed.
        """
        key = place.project, place.zone
        if key not in self._by_zone:
            self._by_zone[key] = _Listed(self._by_target(*key), self.monotonic())
        known = self._by_zone[key].by_target.get(place.path, ())
        creates = (operation for operation in known if operation.verb == "create")
        return max((operation.created_at for operation in creates), default=None)

    def build_poll(self, node: Node, now: int, asked: int | None = None) -> Callable[[Node], Poll]:
        """The poll of a node that is gone, or of each of its slices. Called beforehand, because no
        cloud call is made while a transaction is open.

        The node is last known to have existed when it was last seen, or when a list last showed it
        (the writer adds that time with `polls_since`). It was gone at the latest when the lists
        first lacked it."""
        parts = [slice_as_node(node, number) for number in slice_numbers(node)]
        if node.missed_at is not None and len(parts) == 1:
            now = max(node.seen_at, min(now, node.missed_at))
        refused = False  # whether the create of its queued resource failed
        if node.sent_at is not None and node.spec.queued:
            refused = any(
                operation.verb == "create" and operation.error is not None
                for operation in self.operations_at(node.place, node.place.queue_path)
            )
        found = {
            member.cloud_id: Poll(
                now, max(node.seen_at, member.seen_at), self.operations_of(member), asked, refused
            )
            for member in parts
        }
        return lambda member: found[member.cloud_id]

    def read_last_operation(self, node: Node) -> Operation | None:
        """Read the node's last operation; None if there is none or the cloud has forgotten it."""
        if not node.operation:
            return None
        try:
            return self._cloud.operation(node.operation)
        except CloudNotFound:
            return None

    def find_create(self, node: Node) -> Operation | None:
        """The recorded operation that created the node; None if the record has none."""
        creates = (
            operation for operation in self.operations_of(node) if operation.verb == "create"
        )
        return max(creates, key=lambda operation: operation.created_at, default=None)

    def _get_listed(self, key: tuple[str, str], path: str) -> _Listed:
        """The list of the zone, fresh enough for the resource with this full name."""
        known = self._by_zone.get(key)
        if known is None or self._is_stale(known, path):
            begun = self.monotonic()
            try:
                known = _Listed(self._by_target(*key), begun)
            except CloudError:
                known = _Listed({}, begun)
            self._by_zone[key] = known
        return known

    def _is_stale(self, _listed: _Listed, _path: str) -> bool:
        return False

    def _by_target(self, project: str, zone: str) -> dict[str, list[Operation]]:
        by_target: dict[str, list[Operation]] = defaultdict(list)
        for operation in self._cloud.operations(project, zone):
            by_target[operation.target].append(operation)
        return by_target


class SharedRecords(OperationLog):
    """Shares the list of a zone among the threads of one tick.

    A list is read again when it is old, and for a node with an operation that was still running. A
    zone from which a hundred nodes are deleted is listed once or twice, not a hundred times.
    """

    def __init__(self, cloud: TpuCloud) -> None:
        super().__init__(cloud)
        self._locks: dict[tuple[str, str], threading.Lock] = {}

    def forget_project(self, project: str) -> None:
        """Drop the project's lists; called at the beginning of a tick."""
        for key in list(self._by_zone):
            if key[0] == project:
                self._by_zone.pop(key, None)

    def _get_listed(self, key: tuple[str, str], path: str) -> _Listed:
        with self._locks.setdefault(key, threading.Lock()):
            return super()._get_listed(key, path)

    def _is_stale(self, listed: _Listed, path: str) -> bool:
        if self.monotonic() - listed.at >= FRESH_SECONDS:
            return True
        return any(not operation.done for operation in listed.by_target.get(path, ()))


def polls_since(poll: Callable[[Node], Poll], shown: int) -> Callable[[Node], Poll]:
    """The same polls of a node that a list has shown at `shown` too."""
    return lambda member: poll(member).with_previous(shown)
