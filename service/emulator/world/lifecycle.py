"""What nodes go through: each change begins at once, and ends by an event at its time."""

from __future__ import annotations

from collections.abc import Callable, Collection

from service.emulator.errors import (
    ApiError,
    Code,
    precondition_failed,
    update_in_state,
    wrong_state,
)
from service.emulator.faults.faults import Effects
from service.emulator.limits.capacity import kind_of, shortage
from service.emulator.nodes import nodes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.timeline import Event
from service.emulator.wire import Empty, Node, NodeMessage, copied
from service.emulator.world.world import World

Ending = Callable[[float], None]
SPOT_MODELS = {"spot", "preemptible"}
TERMINABLE = {"CREATING", "READY", "REPAIRING", "RESTARTING", "REIMAGING"}
UNDER_WAY = {"CREATING", "STARTING", "STOPPING", "REPAIRING", "RESTARTING", "REIMAGING"}
"""States that only an event brings to their end."""
PREEMPTIBLE = {"CREATING", "READY"}
LOST = {"PREEMPTED", "TERMINATED", "UNKNOWN"}
"""States that only a deletion brings to their end."""


def create(world: World, record: NodeRecord, effects: Effects) -> NodeMessage:
    """Show the node CREATING; it ends READY, or with a stock-out inside the operation."""
    at = record.created
    world.move(record, "CREATING", at)
    operation = _begin(world, record, "create", at)

    def end(at: float) -> None:
        problem = _problem(world, record, at, effects)
        if problem is not None:
            world.operations.fail(operation, at, problem)
            world.move(record, "", at)
        else:
            nodes.connect(record.message, record.accelerator)
            _ready(world, record, at)
            _succeed(world, record, operation, at, effects)
            # A message that grew piece by piece takes up half as much again as its copy.
            record.message = copied(record.message)

    _later(world, record, "create", at, end)
    return operation


def delete(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    if record.state == "DELETING":
        raise wrong_state("delete", "DELETING")
    before, interrupted = record.state, record.pending
    _interrupt(world, record, at, ApiError(Code.CANCELLED, "The node is being deleted."))
    world.move(record, "DELETING", at)
    operation = _begin(world, record, "delete", at)

    def end(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.fail(operation, at, effects.operation_error)
            world.move(record, before, at)
            _resume(world, record, interrupted, at)
        else:
            world.move(record, "", at)
            conclude(world, operation, at, effects, Empty())

    _later(world, record, "delete", at, end)
    return operation


def stop(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    _refuse_queued(record, "stop")
    _require(record, "stop", "READY")
    if not record.accelerator.single_host:
        raise precondition_failed(
            f"stop is only available with single TPU nodes; {record.accelerator.name} is a TPU pod"
        )
    if record.provisioning_model in SPOT_MODELS:
        raise precondition_failed(
            f"stop is not supported for {record.provisioning_model} nodes; delete the node instead"
        )
    world.move(record, "STOPPING", at)
    operation = _begin(world, record, "stop", at)

    def end(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.fail(operation, at, effects.operation_error)
            world.move(record, "READY", at)
        else:
            record.message.health = Node.Health.HEALTH_UNSPECIFIED
            world.move(record, "STOPPED", at)
            _succeed(world, record, operation, at, effects)

    _later(world, record, "stop", at, end)
    return operation


def start(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    """Start a stopped node, whose capacity was not held: it may end with a stock-out."""
    _refuse_queued(record, "start")
    _require(record, "start", "STOPPED")
    world.move(record, "STARTING", at)
    operation = _begin(world, record, "start", at)

    def end(at: float) -> None:
        problem = _problem(world, record, at, effects)
        if problem is not None:
            world.move(record, "STOPPED", at)
            world.operations.fail(operation, at, problem)
        else:
            _ready(world, record, at)
            _succeed(world, record, operation, at, effects)

    _later(world, record, "start", at, end)
    return operation


def update(
    world: World, record: NodeRecord, at: float, effects: Effects, change: Callable[[], None]
) -> NodeMessage:
    """Apply a change to a node that stays in its state meanwhile."""
    if record.state not in {"READY", "STOPPED"}:
        raise update_in_state(record.state)
    _require_idle(record)
    operation = _begin(world, record, "update", at)

    def end(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.fail(operation, at, effects.operation_error)
        else:
            change()
            world.updated(record, at)
            _succeed(world, record, operation, at, effects)

    _later(world, record, "update", at, end)
    return operation


def preempt(world: World, record: NodeRecord, at: float, *, forced: bool) -> None:
    """Take the node's hardware away; it stays listed and holds its name until deleted."""
    _require_preemptible(record, forced=forced)
    _interrupt(world, record, at, update_in_state("PREEMPTED"))
    record.maintenance = None
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    world.move(record, "PREEMPTED", at)


def announce_preemption(
    world: World,
    record: NodeRecord,
    at: float,
    seconds: float,
    workers: Collection[int],
    *,
    forced: bool,
) -> None:
    """Preempt a node after some seconds; the workers that are named are told at once."""
    _require_preemptible(record, forced=forced)
    record.notices.update(dict.fromkeys(workers, at))
    world.announce_preemption(record, at, seconds, workers)

    def act(at: float) -> None:
        if world.nodes.get(record.name) is record and record.state in PREEMPTIBLE:
            preempt(world, record, at, forced=True)

    world.timeline.schedule(at + seconds, record.name, "announced preemption", act, fate=True)


def _require_preemptible(record: NodeRecord, *, forced: bool) -> None:
    if record.state not in PREEMPTIBLE:
        raise wrong_state("preempt", record.state)
    if record.provisioning_model not in SPOT_MODELS and not forced:
        raise precondition_failed("only spot and preemptible nodes are preempted, unless forced")


def terminate(world: World, record: NodeRecord, at: float) -> None:
    """End the life of a node that may live only so long; it stays listed until deleted."""
    if record.state not in TERMINABLE:
        raise wrong_state("terminate", record.state)
    _interrupt(world, record, at, update_in_state("TERMINATED"))
    record.maintenance = None
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    record.message.health_description = "The node reached the end of its life cycle."
    world.move(record, "TERMINATED", at)


def reimage(
    world: World, record: NodeRecord, at: float, effects: Effects, version: str
) -> NodeMessage:
    """Put another version of its software on a node."""
    _require(record, "reimage", "READY")
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    world.move(record, "REIMAGING", at)
    operation = _begin(world, record, "reimage", at)

    def end(at: float) -> None:
        if effects.operation_error is None:
            record.message.runtime_version = version
        _ready(world, record, at)
        _finish(world, record, operation, at, effects)

    _later(world, record, "reimage", at, end)
    return operation


def maintain(world: World, record: NodeRecord, at: float) -> None:
    """Repair a READY node under a maintenance event; it comes back READY."""
    _repair(world, record, at, lambda _: None)


def maintain_on_request(
    world: World, record: NodeRecord, at: float, verb: str, effects: Effects
) -> NodeMessage:
    """As `maintain`, with an operation that lasts until the node is READY again."""
    _require(record, verb, "READY")

    def end(at: float) -> None:
        _finish(world, record, operation, at, effects)

    _repair(world, record, at, end)
    operation = _begin(world, record, verb, at)
    return operation


def _repair(world: World, record: NodeRecord, at: float, then: Ending) -> None:
    if record.state != "READY":
        raise wrong_state("maintenance", record.state)
    _interrupt(world, record, at, update_in_state("REPAIRING"))
    record.maintenance = (at, at + world.config.seconds("repair"))
    record.message.health = Node.Health.UNHEALTHY_MAINTENANCE
    record.message.health_description = "The TPU is undergoing a maintenance event."
    world.move(record, "REPAIRING", at)

    def end(at: float) -> None:
        record.maintenance = None
        _ready(world, record, at)
        then(at)

    _later(world, record, "repair", at, end)


def break_host(world: World, record: NodeRecord, at: float, *, recovers: bool) -> None:
    """Restart a READY node whose host failed; a repair that fails leaves it UNKNOWN."""
    if record.state != "READY":
        raise wrong_state("restart", record.state)
    _interrupt(world, record, at, update_in_state("RESTARTING"))
    record.message.health = Node.Health.TIMEOUT
    record.message.health_description = "The TPU is unresponsive after a host error."
    world.move(record, "RESTARTING", at)

    def end(at: float) -> None:
        if recovers:
            _ready(world, record, at)
        else:
            record.maintenance = None
            world.move(record, "UNKNOWN", at)

    _later(world, record, "restart", at, end)


def _problem(world: World, record: NodeRecord, at: float, effects: Effects) -> ApiError | None:
    """Say why a node cannot have its hardware; None if it can."""
    wanted = {} if record.holds_hardware else {kind_of(record): record.accelerator.chips}
    if effects.stocked_out or not world.hardware.has_room(world.config, wanted, at):
        code = world.config.stockout_code
        return shortage(record.place.zone, record.provisioning_model, code)
    return effects.operation_error


def _ready(world: World, record: NodeRecord, at: float) -> None:
    record.message.health = Node.Health.HEALTHY
    record.message.health_description = ""
    world.move(record, "READY", at)


def _begin(world: World, record: NodeRecord, verb: str, at: float) -> NodeMessage:
    record.operation = world.operations.start(verb, record.name, record.place, at)
    return record.operation


def _later(world: World, record: NodeRecord, what: str, at: float, end: Ending) -> None:
    due = at + world.config.seconds(what)

    def act(at: float) -> None:
        record.pending = None
        end(at)

    record.pending = world.timeline.schedule(due, record.name, what, act)


def _resume(world: World, record: NodeRecord, interrupted: Event | None, at: float) -> None:
    """Let go on what a deletion called off that then failed; nothing else would end the state."""
    if interrupted is not None and record.state in UNDER_WAY:
        due = max(at, interrupted.due)
        record.pending = world.timeline.schedule(
            due, record.name, interrupted.what, interrupted.act
        )


def _finish(
    world: World, record: NodeRecord, operation: NodeMessage, at: float, effects: Effects
) -> None:
    """Close the operation as a fault has it, or with the node as it is now."""
    if effects.operation_error is not None:
        world.operations.fail(operation, at, effects.operation_error)
    else:
        _succeed(world, record, operation, at, effects)


def _succeed(
    world: World, record: NodeRecord, operation: NodeMessage, at: float, effects: Effects
) -> None:
    """Close the operation with the node as it is now, though perhaps only later."""
    record.operation = None
    conclude(world, operation, at, effects, copied(record.message))


def conclude(
    world: World, operation: NodeMessage, at: float, effects: Effects, response: NodeMessage
) -> None:
    """Close the operation of what succeeded, perhaps only later, perhaps with a lie."""

    def close(at: float) -> None:
        if effects.misreport is not None:
            world.operations.fail(operation, at, effects.misreport)
        else:
            world.operations.succeed(operation, at, response)

    if effects.operation_seconds:
        due = at + effects.operation_seconds
        world.timeline.schedule(due, operation.name, "operation", close)
    else:
        close(at)


def _interrupt(world: World, record: NodeRecord, at: float, error: ApiError) -> None:
    """Call off what is under way; its operation ends with the error."""
    if record.pending is not None:
        record.pending.cancelled = True
        record.pending = None
    if record.busy:
        world.operations.fail(record.operation, at, error)
    record.operation = None


def _refuse_queued(record: NodeRecord, verb: str) -> None:
    if record.queued_resource:
        raise precondition_failed(f"{verb} is not supported for nodes of a queued resource")


def _require(record: NodeRecord, verb: str, state: str) -> None:
    if record.state != state:
        raise wrong_state(verb, record.state)
    _require_idle(record)


def _require_idle(record: NodeRecord) -> None:
    if record.busy:
        raise ApiError(
            Code.ABORTED,
            f"Resource '{record.name}' has an operation in progress: {record.operation.name}",
        )
