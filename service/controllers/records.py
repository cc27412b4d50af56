"""What the cloud's own record says of operations on a node: the evidence for both ends of usage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from service.cloud.ports import Operation, TpuCloud
from service.domain.errors import CloudError, CloudNotFound
from service.domain.looking import Looking
from service.domain.node import Node, Place
from service.domain.slices import numbers, part


class Records:
    """Looks operations up, at most one list a zone; made anew for each tick.

    Without an answer there is no evidence, and usage ends between two looks; that stops nothing.
    """

    def __init__(self, cloud: TpuCloud) -> None:
        self._cloud = cloud
        self._by_zone: dict[tuple[str, str], dict[str, list[Operation]]] = {}

    def of(self, node: Node) -> Sequence[Operation]:
        """Every operation on the node that the cloud remembers."""
        if node.sent_at is None:
            return ()
        return self.at(node.place, node.place.path)

    def at(self, place: Place, path: str) -> Sequence[Operation]:
        """Every operation that the cloud remembers on what has that full name, a node or a queued
        resource, in the zone of the place."""
        key = place.project, place.zone
        if key not in self._by_zone:
            self._by_zone[key] = self._listed(*key)
        return self._by_zone[key].get(path, ())

    def birth(self, place: Place) -> int | None:
        """When what is at that place was created, None when the cloud does not remember.

        Raises CloudError when it gives no answer: another time it may.
        """
        key = place.project, place.zone
        if key not in self._by_zone:
            self._by_zone[key] = self._by_target(*key)
        known = self._by_zone[key].get(place.path, ())
        return max((one.created_at for one in known if one.verb == "create"), default=None)

    def looking(self, node: Node, now: int, asked: int | None = None) -> Callable[[Node], Looking]:
        """How a node that is gone, or each of its slices, is to be looked at; asked for beforehand,
        since no call is made while a transaction is open.

        It was last there when it was last seen itself: a look at all that did not show it proves
        nothing of the time before. Nor was it there any more when the lists first lacked it.
        """
        parts = [part(node, number) for number in numbers(node)]
        if node.missed_at is not None and len(parts) == 1:
            now = max(node.seen_at, min(now, node.missed_at))
        refused = self._was_refused(node)
        found = {
            one.cloud_id: Looking(now, max(node.seen_at, one.seen_at), self.of(one), asked, refused)
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

    def _listed(self, project: str, zone: str) -> dict[str, list[Operation]]:
        try:
            return self._by_target(project, zone)
        except CloudError:
            return {}

    def _by_target(self, project: str, zone: str) -> dict[str, list[Operation]]:
        by_target: dict[str, list[Operation]] = defaultdict(list)
        for operation in self._cloud.operations(project, zone):
            by_target[operation.target].append(operation)
        return by_target
