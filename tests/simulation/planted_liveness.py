"""Bugs by which nothing gets done, or what should stay goes, or anybody writes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from service.application.timekeeping import Timekeeper
from service.controllers.inventory import inventory as inventory_controller
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle import lifecycle as lifecycle_controller
from service.controllers.lifecycle.launch import LaunchSteps
from service.controllers.lifecycle.teardown import TeardownSteps
from service.controllers.metering import MeteringController
from service.controllers.orphans import deletion
from service.controllers.orphans import orphans as orphans_controller
from service.controllers.orphans.diff import OrphanLook
from service.domain.evidence import observation
from service.domain.evidence.poll import Poll
from service.domain.lease import Lease
from service.domain.lifecycle import lifecycle
from service.domain.lifecycle.absence import never_came
from service.domain.lifecycle.step import NodeLook, NodeStep
from service.domain.metering.meter import Usage
from service.domain.nodes.node import Asked, CloudNode, Node, NodeState
from service.domain.nodes.operation import Operation
from service.domain.orphans.fleet_watch import Blind
from service.domain.orphans.orphan import Orphan, OrphanVerdict
from service.store.nodes import Nodes
from service.store.unit import Unit, Units
from tests.planting import replace_function
from tests.simulation.replica import PROJECT
from tests.simulation.run import OTHER

Planting = Callable[[], Any]


def nothing_is_ever_placed() -> Any:
    """Each node waits for its turn."""
    return patch.object(LaunchSteps, "place", lambda *_: None)


def a_stop_is_never_done() -> Any:
    """What is READY is as it should be, also where it is to be stopped."""
    decide = lifecycle.next_step

    def step(node: Node, look: NodeLook, now: int) -> NodeStep:
        found = decide(node, look, now)
        return NodeStep.WAIT if found is NodeStep.STOP else found

    return patch.object(lifecycle_controller, "next_step", step)


def a_deletion_is_never_begun() -> Any:
    """What is READY stays."""
    decide = lifecycle.next_step

    def step(node: Node, look: NodeLook, now: int) -> NodeStep:
        found = decide(node, look, now)
        return NodeStep.WAIT if found in {NodeStep.DELETE, NodeStep.DEQUEUE} else found

    return patch.object(lifecycle_controller, "next_step", step)


def ready_and_deleted_as_its_create_failed() -> Any:
    """What the operation says of the create counts for more than that the node is READY."""
    decide = lifecycle._when_present

    def step(node: Node, sight: CloudNode, operation: Operation | None, now: int) -> NodeStep:
        if never_came(operation) and node.asked is Asked.PRESENT:
            return NodeStep.REPLACE
        return decide(node, sight, operation, now)

    return replace_function(lifecycle, lifecycle._when_present, step)


def every_second_is_uncertain() -> Any:
    """Nobody can say anything about when it ended, so nothing that is said can be wrong."""
    close = observation._close_usage

    def unsure(usage: Usage, poll: Poll) -> Usage:
        return replace(close(usage, poll), end_lo=usage.start)

    return replace_function(observation, observation._close_usage, unsure)


def ends_are_known_to_a_quarter_of_an_hour() -> Any:
    """The end is called more uncertain than it is."""
    close = observation._close_usage

    def unsure(usage: Usage, poll: Poll) -> Usage:
        known = close(usage, poll)
        assert known.end_lo is not None
        return replace(known, end_lo=max(usage.start, known.end_lo - 900))

    return replace_function(observation, observation._close_usage, unsure)


class _Anybody:
    """Units of work that ask for no lease."""

    def __init__(self, units: Units) -> None:
        self._units = units

    def __call__(self, _lease: Lease | None = None) -> AbstractContextManager[Unit]:
        return self._units()

    def reading(self) -> AbstractContextManager[Unit]:
        return self._units.reading()


def _without_a_lease(controller: type) -> Any:
    begin = controller.__init__  # type: ignore[misc]

    def unfenced(self: Any, units: Units, *more: Any, **named: Any) -> None:
        begin(self, _Anybody(units), *more, **named)

    return patch.object(controller, "__init__", unfenced)


def the_inventory_writes_without_a_lease() -> Any:
    """What a look has shown is written down, whoever looks after the project by now."""
    return _without_a_lease(InventoryController)


def the_ledger_is_written_without_a_lease() -> Any:
    """Money is posted, whoever looks after the project by now."""
    return _without_a_lease(MeteringController)


def what_has_a_time_to_live_is_not_missed() -> Any:
    """A node that is to be looked at when its time is over counts as looked after until then."""
    return replace_function(
        inventory_controller,
        inventory_controller._is_left_alone,
        lambda node, _now: node.next_try_at is None,
    )


def a_silent_queue_is_asked_by_name() -> Any:
    """What the list of queued resources lacks is asked for by name, also where the list says that
    the zone did not answer."""

    def blind_zones(self: OrphanLook) -> Blind:
        return frozenset((False, zone) for zone in self.inventory.unreachable)

    return patch.object(OrphanLook, "blind_zones", property(blind_zones))


def nothing_is_ever_collected() -> Any:
    """No orphan is ever old enough to be deleted without a person."""

    def leave(orphan: Orphan, _watch: object, _now: int) -> tuple[OrphanVerdict, str]:
        return OrphanVerdict.LEAVE, orphan.reason

    stack = ExitStack()
    for module in (orphans_controller, deletion):
        stack.enter_context(patch.object(module, "judge_orphan", leave))
    return stack


def one_slice_is_deleted_per_look() -> Any:
    """The other slices of a node have to wait for the looks that follow."""
    delete = TeardownSteps.delete

    def first(self: TeardownSteps, node: Node, look: NodeLook, lease: Lease) -> None:
        running = [
            number
            for number, sight in enumerate(look.slices)
            if sight is not None and sight.state != NodeState.DELETING
        ]
        slices = (
            sight if number in running[:1] else None for number, sight in enumerate(look.slices)
        )
        delete(self, node, replace(look, slices=tuple(slices)), lease)

    return patch.object(TeardownSteps, "delete", first)


def projects_are_mixed_up() -> Any:
    """What is due in one project is worked on under the lease of another."""
    due = Nodes.list_due

    def due_anywhere(self: Nodes, project: str, now: int, limit: int) -> Any:
        other = {PROJECT: OTHER, OTHER: PROJECT}[project]
        return [*due(self, project, now, limit), *due(self, other, now, limit)]

    return patch.object(Nodes, "list_due", due_anywhere)


def callers_go_by_the_clock_of_their_machine() -> Any:
    """Nobody asks the database for the time before a request is written down."""
    return patch.object(Timekeeper, "set_clock_in", lambda _self, _unit: None)


LIVENESS_BUGS: tuple[Planting, ...] = (
    nothing_is_ever_placed,
    a_stop_is_never_done,
    a_deletion_is_never_begun,
    ready_and_deleted_as_its_create_failed,
    every_second_is_uncertain,
    ends_are_known_to_a_quarter_of_an_hour,
    the_inventory_writes_without_a_lease,
    the_ledger_is_written_without_a_lease,
    what_has_a_time_to_live_is_not_missed,
    a_silent_queue_is_asked_by_name,
    nothing_is_ever_collected,
    one_slice_is_deleted_per_look,
    projects_are_mixed_up,
    callers_go_by_the_clock_of_their_machine,
)
