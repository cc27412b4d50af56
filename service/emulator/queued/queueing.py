"""What queued resources go through: each state begins at once, and ends by an event at its time."""

from __future__ import annotations

import math
from functools import partial

from service.emulator.clock import stamp
from service.emulator.errors import ApiError, Code
from service.emulator.faults.faults import Effects
from service.emulator.limits.capacity import Hardware, shortage
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.queued import members
from service.emulator.queued.states import end_if_wound_up, enter, later, when, wind_up
from service.emulator.wire import NodeMessage, copied
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedRecord
from service.emulator.world.world import World

LEAST_EXAMINE_SECONDS = 1.0
"""Time alone changes capacity by the hour, at any speed; to look without end would stop time."""


def create(world: World, record: QueuedRecord, effects: Effects) -> NodeMessage:
    """Show the queued resource CREATING; the operation ends when it is ACCEPTED, or FAILED."""
    at = record.created
    record.flaw = effects.provisioning_error
    record.stocked_out_until = at + effects.stockout_seconds if effects.stocked_out else -math.inf
    record.examine = partial(_examine, world, record)
    world.queue.add(record, at)
    world.holdings.take(record.place.project, record.demand)
    enter(world, record, "CREATING", at, initiator="USER")
    operation = world.operations.start("create", record.name, record.place, at)
    if record.window.end < math.inf:
        expire = partial(_expire, world, record)
        record.expiry = world.timeline.schedule(
            record.window.end, record.name, "expire", expire, fate=True
        )

    def end(at: float) -> None:
        problem = record.doom or effects.operation_error
        if problem is not None:
            world.operations.fail(operation, at, problem)
            _fail(world, record, problem, at)
            return
        enter(world, record, "ACCEPTED", at)
        response = copied(record.message)
        lifecycle.conclude(world, operation, at, effects, response)
        later(world, record, "queue", at, partial(queue, world, record))
        if at >= record.window.end:
            _expire(world, record, at)

    later(world, record, "accept", at, end)
    return operation


def queue(world: World, record: QueuedRecord, at: float) -> None:
    """Begin to wait for hardware, though not before the time that was asked for."""
    if at >= record.window.start:
        enter(world, record, "WAITING_FOR_RESOURCES", at)
        later(world, record, "allocate", at, partial(_consider, world, record))
        return
    if record.state != "ACCEPTED":
        enter(world, record, "ACCEPTED", at)
    when(world, record, "queue", record.window.start, partial(queue, world, record))


def _consider(world: World, record: QueuedRecord, at: float) -> None:
    world.queue.waiting[record.name] = record
    _examine(world, record, at)


def _examine(world: World, record: QueuedRecord, at: float) -> None:
    """Begin to provision if there is hardware for all of it, or look again later."""
    config, demand = world.config, record.demand
    if at >= record.stocked_out_until and world.hardware.has_room(config, demand, at):
        _provision(world, record, at)
    elif record.provisioning_model == "reserved" and not Hardware().has_room(config, demand, at):
        error = shortage(record.place.zone, "reserved", Code.RESOURCE_EXHAUSTED)
        _fail(world, record, error, at)
    elif record.pending is None:
        due = at + max(world.config.seconds("examine"), LEAST_EXAMINE_SECONDS)
        if at < record.stocked_out_until:
            due = min(due, record.stocked_out_until)
        when(world, record, "examine", due, partial(_examine, world, record))


def _provision(world: World, record: QueuedRecord, at: float) -> None:
    enter(world, record, "PROVISIONING", at)
    record.ready.clear()
    flaw = record.flaw
    if flaw is not None:
        # Before the nodes are born, so that they do not become READY first.
        later(world, record, "create", at, lambda at: _fail(world, record, flaw, at))
    members.bear(world, record, at, partial(_watch, world, record))


def _watch(world: World, record: QueuedRecord, node: NodeRecord, at: float, state: str) -> None:
    """Follow what becomes of a node: it may be the last one READY, or the first one lost."""
    if record.state in {"PROVISIONING", "ACTIVE"}:
        if state == "READY":
            _count_ready(world, record, node, at)
        elif state in members.LOST:
            _suspend(world, record, at, "SERVICE")
        elif state in {"DELETING", ""}:
            _suspend(world, record, at, "USER")
    elif state != "DELETING":
        if record.state != "SUSPENDED":
            # A deletion that failed brought it back.
            members.clear_away(world, record, at, lost_too=record.lost_too)
        end_if_wound_up(world, record, at)


def _count_ready(world: World, record: QueuedRecord, node: NodeRecord, at: float) -> None:
    record.ready.add(node.name)
    ready = len(record.ready) == len(record.slices)
    if ready and record.state == "PROVISIONING" and record.flaw is None:
        later(world, record, "activate", at, partial(_activate, world, record))


def _activate(world: World, record: QueuedRecord, at: float) -> None:
    enter(world, record, "ACTIVE", at)
    record.run_ends = min(at + record.terms.run_seconds, record.terms.run_until)
    if record.run_ends < math.inf:
        end = partial(_suspend, world, record, initiator="SERVICE")
        record.curfew = world.timeline.schedule(
            max(at, record.run_ends), record.name, "run", end, fate=True
        )


def _suspend(world: World, record: QueuedRecord, at: float, initiator: str) -> None:
    """Delete what still runs; the end is SUSPENDED, from where nothing goes back to the queue."""
    enter(world, record, "SUSPENDING", at, initiator=initiator)
    end = partial(enter, world, record, "SUSPENDED", initiator=initiator)
    wind_up(world, record, "suspend", at, end)
    members.clear_away(world, record, at, lost_too=False)


def _expire(world: World, record: QueuedRecord, at: float) -> None:
    if record.state in {"ACCEPTED", "WAITING_FOR_RESOURCES"}:
        until = stamp(record.window.end).ToJsonString()
        text = f"The queued resource could not be provisioned before its valid-until time {until}."
        _fail(world, record, ApiError(Code.DEADLINE_EXCEEDED, text), at)


def _fail(world: World, record: QueuedRecord, error: ApiError, at: float) -> None:
    """It stays FAILED until it is deleted; what it had of nodes goes at once."""
    enter(world, record, "FAILED", at, error=error)
    members.clear_away(world, record, at, lost_too=False)
