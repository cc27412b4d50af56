"""The queue of the cloud in memory: each step of a queued resource's life is made by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from service.cloud.ports import Operation, Order, Queue
from service.domain.errors import AlreadyExists, CloudError, CloudNotFound, InvalidRequest
from service.domain.nodes.node import CloudNode, NodeState, Place
from service.domain.nodes.queued_resource import QueuedResource, QueueState

BUSY = (QueueState.CREATING, QueueState.PROVISIONING, QueueState.SUSPENDING)


class FakeQueue:
    """What FakeCloud knows of queued resources."""

    nodes: dict[str, CloudNode]
    unreachable: frozenset[str]
    _call: Callable[[str, str, Callable[[], Any]], Any]
    _begin: Callable[[str, str], Operation]
    _finish: Callable[..., None]
    _born: Callable[..., CloudNode]

    def __init__(self) -> None:
        self.queues: dict[str, QueuedResource] = {}
        self._orders: dict[str, Order] = {}
        self.models: dict[str, str] = {}

    # what a test does

    def wait(self, state: str = QueueState.WAITING_FOR_RESOURCES) -> None:
        """The only queued resource shows this state from now on."""
        self._show(state)
        self._finish(self.ticket, ("create",))

    def grant(self) -> None:
        """Its turn has come: it is PROVISIONING, and its nodes are CREATING."""
        self._show(QueueState.PROVISIONING)
        order = self._orders[self.ticket]
        for cloud_id in self.queues[self.ticket].nodes:
            place = replace(order.place, cloud_id=cloud_id)
            self.nodes[place.path] = self._born(place, order, queued_resource=self.ticket)

    def activate(self) -> None:
        """All of its nodes are READY, and it is ACTIVE."""
        self._show(QueueState.ACTIVE)
        for path, node in self.nodes.items():
            if node.queued_resource == self.ticket:
                self.nodes[path] = replace(node, state=NodeState.READY)

    def suspend(self, *, leftovers: bool = False, initiator: str = "SERVICE") -> None:
        """The hardware is taken back, or somebody else (a USER) deletes the nodes; they stay
        PREEMPTED, or are gone."""
        self._show(QueueState.SUSPENDED)
        self.queues[self.ticket] = replace(self.queues[self.ticket], initiator=initiator)
        for path, node in list(self.nodes.items()):
            if node.queued_resource == self.ticket:
                if leftovers:
                    self.nodes[path] = replace(node, state=NodeState.PREEMPTED)
                else:
                    del self.nodes[path]

    def refuse(self, error: CloudError) -> None:
        """It ends FAILED, with a reason."""
        self._show(QueueState.FAILED, error=error)

    def clear(self) -> None:
        """What is being deleted is gone, with its nodes."""
        for path, queue in list(self.queues.items()):
            if queue.state == QueueState.DELETING:
                del self.queues[path]
                self._finish(path, ("delete",))
                for name, node in list(self.nodes.items()):
                    if node.queued_resource == path:
                        del self.nodes[name]

    @property
    def ticket(self) -> str:
        """The full name of the only queued resource there is."""
        (path,) = self.queues
        return path

    # what the service does

    def queue(self, project: str) -> Queue:
        def answer() -> Queue:
            shown = {
                path: queue
                for path, queue in self.queues.items()
                if queue.place.project == project and queue.place.zone not in self.unreachable
            }
            digest = repr(sorted(shown.items())).encode()
            return Queue(project, digest, lambda: shown, self.unreachable, pages=1)

        return self._call("queue", project, answer)

    def queued(self, place: Place) -> QueuedResource:
        return self._call("queued", place.queue_path, lambda: self._ticket(place))

    def queue_model(self, place: Place) -> str:
        def answer() -> str:
            self._ticket(place)
            return self.models.get(place.queue_path, "on_demand")

        return self._call("queue_model", place.queue_path, answer)

    def dequeue(self, place: Place, *, force: bool) -> Operation:
        def effect() -> Operation:
            queue = self._ticket(place)
            operation = self._begin("delete", queue.path)
            if queue.state in BUSY:
                error = InvalidRequest(f"delete is not supported while in state {queue.state}")
                self._finish(queue.path, ("delete",), error)
                return operation
            if queue.state == QueueState.ACTIVE and not force:
                raise InvalidRequest(f"{queue.path} has nodes")
            self.queues[queue.path] = replace(queue, state=QueueState.DELETING, initiator="USER")
            for path, node in self.nodes.items():
                if node.queued_resource == queue.path:
                    self.nodes[path] = replace(node, state=NodeState.DELETING)
                    self._begin("delete", path)
            return operation

        return self._call("dequeue", place.queue_path, effect)

    def _enqueue(self, order: Order) -> Operation:
        path, spec = order.place.queue_path, order.spec
        if path in self.queues:
            raise AlreadyExists(f"{path} exists")
        own = order.place.cloud_id
        nodes = (own,) if spec.slices == 1 else tuple(f"{own}-{n}" for n in range(spec.slices))
        self._orders[path] = order
        self.queues[path] = QueuedResource(
            place=order.place,
            state=QueueState.ACCEPTED,
            nodes=nodes,
            labels=dict(order.labels),
            accelerator_type=spec.accelerator_type,
        )
        return self._begin("create", path)

    def _ticket(self, place: Place) -> QueuedResource:
        found = self.queues.get(place.queue_path)
        if found is None:
            raise CloudNotFound(f"{place.queue_path} was not found")
        return found

    def _show(self, state: str, error: CloudError | None = None) -> None:
        self.queues[self.ticket] = replace(self.queues[self.ticket], state=state, error=error)
