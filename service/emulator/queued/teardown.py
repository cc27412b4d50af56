"""Deletion and reset of a queued resource."""

from __future__ import annotations

import math

from service.emulator.errors import ApiError, precondition_failed, wrong_state
from service.emulator.faults.faults import Effects
from service.emulator.queued import members, queueing
from service.emulator.queued.states import enter_state, schedule_after_deletions
from service.emulator.wire import Empty, NodeMessage, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedRecord, QueuedTransition
from service.emulator.world.world import World

# In these states a delete is accepted and its operation fails a little later, even with force.
# Cloud TPU was seen to do so.
TOO_BUSY_TO_DELETE = {"CREATING", "PROVISIONING", "SUSPENDING"}
CAN_BE_RESET = {"ACTIVE", "FAILED", "SUSPENDED"}


def delete_resource(
    world: World, record: QueuedRecord, at: float, effects: Effects, *, force: bool
) -> NodeMessage:
    """Delete a queued resource, with `force` its nodes first; raises ApiError.

    Without `force` it is deleted once it has no running nodes, and preempted nodes stay listed.
    """
    state = record.state
    if state == "DELETING":
        raise wrong_state("delete", state)
    if state == "ACTIVE" and not force:
        raise precondition_failed(
            f"The queued resource {record.name} is in state ACTIVE and has nodes;"
            " delete them first, or set force"
        )
    operation = world.operations.start("delete", record.name, record.place, at)
    if state in TOO_BUSY_TO_DELETE or effects.operation_error is not None:
        error = effects.operation_error or wrong_state("delete", state)
        _refuse_later(world, operation, at, error)
        return operation

    def end_deletion(at: float) -> None:
        if record.expiry is not None:
            record.expiry.cancelled = True
        world.queue.remove_record(record, at)
        world.holdings.give_back(record.place.project, record.demand)
        members.orphan_nodes(world, record)
        world.queue.notify_observers(QueuedTransition(at, record.name, record.state, "", "SERVICE"))
        lifecycle.conclude_operation(world, operation, at, effects, Empty())

    enter_state(world, record, "DELETING", at, initiator="USER")
    schedule_after_deletions(world, record, "remove", at, end_deletion)
    if force:
        members.delete_nodes(world, record, at, lost_too=True)
    return operation


def reset_resource(world: World, record: QueuedRecord, at: float, effects: Effects) -> NodeMessage:
    """Delete the nodes and queue the request again; the operation ends once it is queued.

    Google does not document a reset. Here it fails after the end of the requested window, and for
    an invalid request.
    """
    if record.state not in CAN_BE_RESET:
        raise wrong_state("reset", record.state)
    if record.doom is not None or at >= record.window.end:
        raise precondition_failed(
            f"The queued resource {record.name} cannot be provisioned any more; delete it"
        )
    operation = world.operations.start("reset", record.name, record.place, at)
    if effects.operation_error is not None:
        _refuse_later(world, operation, at, effects.operation_error)
        return operation

    def end_reset(at: float) -> None:
        record.flaw = None
        record.stocked_out_until = -math.inf
        queueing.wait_for_hardware(world, record, at)
        response = copy_message(record.message)
        lifecycle.conclude_operation(world, operation, at, effects, response)

    enter_state(world, record, "SUSPENDING", at, initiator="USER")
    schedule_after_deletions(world, record, "suspend", at, end_reset)
    members.delete_nodes(world, record, at, lost_too=True)
    return operation


def _refuse_later(world: World, operation: NodeMessage, at: float, error: ApiError) -> None:
    world.timeline.schedule_event(
        at + world.config.seconds_for("refuse"),
        operation.name,
        "refuse",
        lambda at: world.operations.mark_failed(operation, at, error),
    )
