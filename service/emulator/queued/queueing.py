"""The lifecycle of queued resources: each state begins immediately, and a later event ends it."""

from __future__ import annotations

import math
from functools import partial

from service.emulator.clock import to_timestamp
from service.emulator.errors import ApiError, Code
from service.emulator.faults.faults import Effects
from service.emulator.limits.capacity import Hardware, shortage_error
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.queued import members
from service.emulator.queued.states import (
    end_after_deletions,
    enter_state,
    schedule_after,
    schedule_after_deletions,
    schedule_at,
)
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedRecord
from service.emulator.world.world import World

LEAST_EXAMINE_SECONDS = 1.0
"""The shortest time between two checks for hardware. `speed` shortens the configured one, and an
endless series of checks at one moment would stop time."""


def create_resource(world: World, record: QueuedRecord, effects: Effects) -> NodeMessage:
    """Move the queued resource to CREATING; the operation ends with ACCEPTED or FAILED."""
    at = record.created
    record.flaw = effects.provisioning_error
    record.stocked_out_until = at + effects.stockout_seconds if effects.stocked_out else -math.inf
    record.examine = partial(_examine_capacity, world, record)
    world.queue.add_record(record, at)
    world.holdings.take_chips(record.place.project, record.demand)
    enter_state(world, record, "CREATING", at, initiator="USER")
    operation = world.operations.start("create", record.name, record.place, at)
    if record.window.end < math.inf:
        expire = partial(_expire_request, world, record)
        record.expiry = world.timeline.schedule_event(
            record.window.end, record.name, "expire", expire, fate=True
        )

    def end_creation(at: float) -> None:
        problem = record.doom or effects.operation_error
        if problem is not None:
            world.operations.mark_failed(operation, at, problem)
            _fail_request(world, record, problem, at)
            return
        enter_state(world, record, "ACCEPTED", at)
        response = copy_message(record.message)
        lifecycle.conclude_operation(world, operation, at, effects, response)
        schedule_after(world, record, "queue", at, partial(wait_for_hardware, world, record))
        if at >= record.window.end:
            _expire_request(world, record, at)

    schedule_after(world, record, "accept", at, end_creation)
    return operation


def wait_for_hardware(world: World, record: QueuedRecord, at: float) -> None:
    """Wait for hardware, from the start of the requested window on."""

    def start_waiting(at: float) -> None:
        world.queue.waiting[record.name] = record
        _examine_capacity(world, record, at)

    if at >= record.window.start:
        enter_state(world, record, "WAITING_FOR_RESOURCES", at)
        schedule_after(world, record, "allocate", at, start_waiting)
        return
    if record.state != "ACCEPTED":
        enter_state(world, record, "ACCEPTED", at)
    schedule_at(
        world, record, "queue", record.window.start, partial(wait_for_hardware, world, record)
    )


def _examine_capacity(world: World, record: QueuedRecord, at: float) -> None:
    """Start to provision if there is hardware for all nodes; otherwise check again later.

    A reservation that is smaller than the request fails it.
    """
    config, demand = world.config, record.demand
    if at >= record.stocked_out_until and world.hardware.has_room(config, demand, at):
        enter_state(world, record, "PROVISIONING", at)
        record.ready.clear()
        flaw = record.flaw
        if flaw is not None:
            # Scheduled before the nodes are created, so that it comes before they are READY.
            schedule_after(
                world, record, "create", at, lambda at: _fail_request(world, record, flaw, at)
            )
        members.create_nodes(world, record, at, partial(_follow_node, world, record))
    elif record.provisioning_model == "reserved" and not Hardware().has_room(config, demand, at):
        error = shortage_error(record.place.zone, "reserved", Code.RESOURCE_EXHAUSTED)
        _fail_request(world, record, error, at)
    elif record.pending is None:
        due = at + max(world.config.seconds_for("examine"), LEAST_EXAMINE_SECONDS)
        if at < record.stocked_out_until:
            due = min(due, record.stocked_out_until)
        schedule_at(world, record, "examine", due, partial(_examine_capacity, world, record))


def _follow_node(
    world: World, record: QueuedRecord, node: NodeRecord, at: float, state: str
) -> None:
    """Change the queued resource after a node's change of state: activate it with the last READY
    node, suspend it with the first lost or deleted one."""
    if record.state in {"PROVISIONING", "ACTIVE"}:
        if state == "READY":
            record.ready.add(node.name)
            all_ready = len(record.ready) == len(record.slices)
            if all_ready and record.state == "PROVISIONING" and record.flaw is None:
                schedule_after(
                    world, record, "activate", at, partial(_become_active, world, record)
                )
        elif state in members.LOST:
            _suspend_nodes(world, record, at, "SERVICE")
        elif state in {"DELETING", ""}:
            _suspend_nodes(world, record, at, "USER")
    elif state != "DELETING":
        if record.state != "SUSPENDED":
            # The deletion of the node failed.
            members.delete_nodes(world, record, at, lost_too=record.lost_too)
        end_after_deletions(world, record, at)


def _become_active(world: World, record: QueuedRecord, at: float) -> None:
    enter_state(world, record, "ACTIVE", at)
    record.run_ends = min(at + record.terms.run_seconds, record.terms.run_until)
    if record.run_ends < math.inf:
        end = partial(_suspend_nodes, world, record, initiator="SERVICE")
        record.curfew = world.timeline.schedule_event(
            max(at, record.run_ends), record.name, "run", end, fate=True
        )


def _suspend_nodes(world: World, record: QueuedRecord, at: float, initiator: str) -> None:
    """Delete the nodes that still run; the queued resource ends SUSPENDED and is not requeued."""
    enter_state(world, record, "SUSPENDING", at, initiator=initiator)
    end = partial(enter_state, world, record, "SUSPENDED", initiator=initiator)
    schedule_after_deletions(world, record, "suspend", at, end)
    members.delete_nodes(world, record, at, lost_too=False)


def _expire_request(world: World, record: QueuedRecord, at: float) -> None:
    if record.state in {"ACCEPTED", "WAITING_FOR_RESOURCES"}:
        until = to_timestamp(record.window.end).ToJsonString()
        text = f"The queued resource could not be provisioned before its valid-until time {until}."
        _fail_request(world, record, ApiError(Code.DEADLINE_EXCEEDED, text), at)


def _fail_request(world: World, record: QueuedRecord, error: ApiError, at: float) -> None:
    """Move the queued resource to FAILED, where it stays until deleted, and delete its nodes."""
    enter_state(world, record, "FAILED", at, error=error)
    members.delete_nodes(world, record, at, lost_too=False)
