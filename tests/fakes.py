"""A cloud in memory that does what it is told, forgets nothing, and fails on command."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from sqlalchemy import Engine

from service.cloud.ports import Inventory, Operation, Order, Sighting
from service.domain.catalog import catalog
from service.domain.catalog.images import list_images
from service.domain.catalog.provisioning import Architecture
from service.domain.errors import AlreadyExists, CloudError, CloudNotFound, CloudUnavailable
from service.domain.evidence.audit_log import Termination
from service.domain.jobs.startup import metadata_of
from service.domain.lease import Lease
from service.domain.nodes.node import CloudNode, NodeState, Place
from service.store.leases import Leases
from tests.fake_queue import FakeQueue
from tests.hands import HandClock


class Killed(BaseException):
    """The process is gone at this point; nothing may catch it, and nothing is unwound."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one call: an error, before or after the call took effect."""

    error: BaseException
    after: bool = False


class FakeCloud(FakeQueue):
    """Every change of state is made by the test, so each test says what the cloud does when."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__()
        self.clock = clock
        self.nodes: dict[str, CloudNode] = {}
        self.done: dict[str, Operation] = {}
        self.calls: list[tuple[str, str]] = []
        self.unreachable: frozenset[str] = frozenset()
        self.offered: dict[str, Sequence[str]] = {}
        self.wanted: dict[str, str] = {}
        self.maps: dict[str, dict[str, str]] = {}
        """The metadata of each node."""
        self.written: dict[str, dict[int, dict[str, str]]] = {}
        """The guest attributes of each worker of each node, of one namespace."""
        self._faults: dict[str, list[Fault]] = defaultdict(list)
        self._uids = 7_000

    # what a test does

    def fail(self, verb: str, error: BaseException, *, after: bool = False) -> None:
        """Have the next call of that verb fail."""
        self._faults[verb].append(Fault(error, after))

    def heal(self, verb: str) -> None:
        """Calls of that verb fail no more."""
        self._faults[verb].clear()

    def come_up(self, path: str | None = None) -> int:
        """The node is READY from now on, and so ends its operation; answers the instant."""
        self._set(path, state=NodeState.READY)
        self._finish(path or self.only, ("create", "start"))
        return self.clock()

    def reimaged(self, error: CloudError | None = None) -> int:
        """The reimage that is under way ends, and the node is READY; answers the instant."""
        path = self.only
        version = self.wanted.pop(path) if error is None else self.nodes[path].runtime_version
        self._set(path, state=NodeState.READY, runtime_version=version)
        self._finish(path, ("reimage",), error)
        return self.clock()

    def settle(self) -> None:
        """What is being deleted is gone, what is being stopped is stopped."""
        for path, node in list(self.nodes.items()):
            if node.state == NodeState.DELETING:
                del self.nodes[path]
                self._finish(path, ("delete",))
            elif node.state == NodeState.STOPPING:
                self._set(path, state=NodeState.STOPPED)
                self._finish(path, ("stop",))

    def become(self, state: str, path: str | None = None) -> None:
        """The node changes its state by itself."""
        self._set(path, state=state)

    def lose(self, path: str | None = None) -> None:
        """The node is gone at once, and the cloud has no record of why."""
        del self.nodes[path or self.only]

    def delete_elsewhere(self, path: str | None = None) -> None:
        """Someone deletes the node in the console; it is gone at once."""
        path = path or self.only
        self._begin("delete", path)
        self._finish(path, ("delete",))
        del self.nodes[path]

    def spare(self, path: str | None = None) -> None:
        """The deletion or stop that is under way fails, and the node is READY again."""
        path = path or self.only
        self._set(path, state=NodeState.READY)
        self._finish(path, ("delete", "stop"), CloudUnavailable("it did not work"))

    def stock_out(self, error: CloudError) -> None:
        """The create that is under way fails late, inside its operation, and leaves nothing."""
        path = self.only
        del self.nodes[path]
        self._finish(path, ("create",), error)

    @property
    def only(self) -> str:
        """The full name of the only node there is."""
        (path,) = self.nodes
        return path

    def count(self, verb: str) -> int:
        """How often that call was made."""
        return sum(1 for called, _ in self.calls if called == verb)

    # what the service does (`service.cloud.ports.TpuCloud`)

    def inventory(self, project: str) -> Inventory:
        def answer() -> Inventory:
            shown = {
                path: Sighting(repr(node).encode(), lambda node=node: node)  # type: ignore[misc]
                for path, node in self.nodes.items()
                if node.place.project == project and node.place.zone not in self.unreachable
            }
            digest = repr(sorted(shown.items(), key=lambda item: item[0])).encode()
            return Inventory(project, digest, lambda: shown, self.unreachable, pages=1)

        return self._call("inventory", project, answer)

    def get(self, place: Place) -> CloudNode:
        return self._call("get", place.path, lambda: self._found(place.path))

    def create(self, order: Order) -> Operation:
        path = order.place.path

        def effect() -> Operation:
            if order.spec.queued:
                return self._enqueue(order)
            if path in self.nodes:
                raise AlreadyExists(f"{path} exists")
            self.nodes[path] = self._born(order.place, order)
            self.maps[path] = metadata_of(order.spec, order.task)
            return self._begin("create", path)

        return self._call("create", path, effect)

    def _born(self, place: Place, order: Order, queued_resource: str = "") -> CloudNode:
        self._uids += 1
        return CloudNode(
            place=place,
            uid=str(self._uids),
            state=NodeState.CREATING,
            accelerator_type=order.spec.accelerator_type,
            runtime_version=order.spec.runtime_version,
            labels=dict(order.labels),
            created_at=self.clock(),
            queued_resource=queued_resource,
        )

    def delete(self, place: Place) -> Operation:
        return self._call("delete", place.path, lambda: self._turn(place, "delete"))

    def start(self, place: Place) -> Operation:
        return self._call("start", place.path, lambda: self._turn(place, "start"))

    def stop(self, place: Place) -> Operation:
        return self._call("stop", place.path, lambda: self._turn(place, "stop"))

    def operation(self, name: str) -> Operation:
        if name not in self.done:
            raise CloudNotFound(f"{name} is not known")
        return self.done[name]

    def operations(self, project: str, zone: str) -> Sequence[Operation]:
        prefix = f"projects/{project}/locations/{zone}/"
        return self._call(
            "operations",
            zone,
            lambda: [op for op in self.done.values() if op.target.startswith(prefix)],
        )

    def metadata(self, place: Place) -> Mapping[str, str]:
        def effect() -> Mapping[str, str]:
            self._found(place.path)
            return dict(self.maps.get(place.path, {}))

        return self._call("metadata", place.path, effect)

    def update_metadata(self, place: Place, metadata: Mapping[str, str]) -> Operation:
        def effect() -> Operation:
            self._found(place.path)
            self.maps[place.path] = dict(metadata)
            return self._begin("update", place.path)

        return self._call("update_metadata", place.path, effect)

    def guest_attributes(self, place: Place, namespace: str) -> Sequence[Mapping[str, str]]:
        def effect() -> Sequence[Mapping[str, str]]:
            self._found(place.path)
            written = self.written.get(place.path, {})
            return [written.get(number, {}) for number in range(max(written, default=-1) + 1)]

        return self._call("guest_attributes", place.path, effect)

    def reimage(self, place: Place, runtime_version: str) -> Operation:
        def effect() -> Operation:
            self.wanted[place.path] = runtime_version
            return self._turn(place, "reimage")

        return self._call("reimage", place.path, effect)

    def runtime_versions(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        known = [image.name for image in list_images() if image.architecture is architecture]
        return self._call("runtime_versions", zone, lambda: self.offered.get(zone, known))

    def accelerator_types(
        self, project: str, zone: str, architecture: Architecture = Architecture.VM
    ) -> Sequence[str]:
        known = [accelerator.name for accelerator in catalog.load_catalog().list_served()]
        return self._call("accelerator_types", zone, lambda: known)

    def _call(self, verb: str, subject: str, effect: Callable[[], Any]) -> Any:
        self.calls.append((verb, subject))
        fault = self._faults[verb].pop(0) if self._faults[verb] else None
        if fault is not None and not fault.after:
            raise fault.error
        answer = effect()
        if fault is not None:
            raise fault.error
        return answer

    def _found(self, path: str) -> CloudNode:
        if path not in self.nodes:
            raise CloudNotFound(f"{path} was not found")
        return self.nodes[path]

    def _turn(self, place: Place, verb: str) -> Operation:
        self._found(place.path)
        states = {
            "delete": NodeState.DELETING,
            "start": NodeState.STARTING,
            "stop": NodeState.STOPPING,
            "reimage": NodeState.REIMAGING,
        }
        self._set(place.path, state=states[verb])
        return self._begin(verb, place.path)

    def _set(self, path: str | None, **changes: Any) -> None:
        path = path or self.only
        self.nodes[path] = replace(self.nodes[path], **changes)

    def _begin(self, verb: str, path: str) -> Operation:
        name = f"operation-{len(self.done)}-{verb}"
        self.done[name] = Operation(name, verb, path, self.clock())
        return self.done[name]

    def _finish(self, path: str, verbs: Sequence[str], error: CloudError | None = None) -> None:
        for name, op in self.done.items():
            if op.target == path and op.verb in verbs and not op.done:
                self.done[name] = replace(op, done=True, ended_at=self.clock(), error=error)


class FakeHistory:
    """A log that a test writes, and that can be taken away."""

    def __init__(self) -> None:
        self.entries: list[Termination] = []
        self.error: CloudError | None = None
        self.asked: list[tuple[str, int, int]] = []

    def write(self, path: str, at: int, reason: str = "PREEMPTED") -> None:
        """An entry arrives."""
        self.entries.append(Termination(path, at, reason))

    def list_terminations(self, project: str, since: int, until: int) -> Sequence[Termination]:
        self.asked.append((project, since, until))
        if self.error is not None:
            raise self.error
        return [entry for entry in self.entries if since <= entry.at < until]


COMMANDS = frozenset({"create", "delete", "start", "stop", "reimage", "dequeue", "update_metadata"})
"""What changes something in the cloud."""


class NoLeaseCheck(BaseException):
    """A command was sent without a look at the lease. No controller can catch it."""


class LeaseChecks:
    """Whether a thread has looked at its lease since its last command."""

    is_on = False

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Note each look at a lease, and ask for one before each command."""
        look = Leases.is_held

        def noted(leases: Leases, lease: Lease) -> bool:
            self._of_thread.is_fresh = True
            return look(leases, lease)

        with patch.object(Leases, "is_held", noted):
            self.is_on = True
            try:
                yield
            finally:
                self.is_on = False

    def use(self, command: str) -> None:
        """A command goes out. Fails unless the lease was looked at for it."""
        if self.is_on:
            if not getattr(self._of_thread, "is_fresh", False):
                raise NoLeaseCheck(command)
            self._of_thread.is_fresh = False


LEASE_CHECKS = LeaseChecks()


class OutsideTransactions:
    """A cloud that refuses to be asked while a database connection is held, and to be commanded
    without a look at the lease."""

    def __init__(self, inner: FakeCloud, engine: Engine) -> None:
        self._inner = inner
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        held = self._engine.pool.checkedout()  # type: ignore[attr-defined]
        assert held == 0, f"{name} was called inside a transaction"
        if name in COMMANDS:
            LEASE_CHECKS.use(name)
        return getattr(self._inner, name)
