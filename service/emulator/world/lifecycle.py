"""The lifecycle of nodes: each change begins immediately, and a later event ends it."""

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
from service.emulator.limits.capacity import kind_of, shortage_error
from service.emulator.nodes import nodes
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.wire import Empty, Node, NodeMessage, copy_message
from service.emulator.world.world import World

Ending = Callable[[float], None]
SPOT_MODELS = {"spot", "preemptible"}
TERMINABLE = {"CREATING", "READY", "REPAIRING", "RESTARTING", "REIMAGING"}
UNDER_WAY = {"CREATING", "STARTING", "STOPPING", "REPAIRING", "RESTARTING", "REIMAGING"}
"""States that only an event ends."""
PREEMPTIBLE = {"CREATING", "READY"}
LOST = {"PREEMPTED", "TERMINATED", "UNKNOWN"}
"""States that only a deletion ends."""


def create_node(world: World, record: NodeRecord, effects: Effects) -> NodeMessage:
    """Move the node to CREATING; it becomes READY, or the operation fails with a stockout."""
    at = record.created
    world.set_state(record, "CREATING", at)
    operation = _begin_operation(world, record, "create", at)

    def end_create(at: float) -> None:
        problem = _find_problem(world, record, at, effects)
        if problem is not None:
            world.operations.mark_failed(operation, at, problem)
            world.set_state(record, "", at)
        else:
            nodes.add_endpoints(record.message, record.accelerator)
            _become_ready(world, record, at)
            _succeed_with_node(world, record, operation, at, effects)
            # A message that was built field by field takes 50 % more memory than its copy.
            record.message = copy_message(record.message)

    _schedule_end(world, record, "create", at, end_create)
    return operation


def delete_node(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    """Move the node to DELETING; raises ApiError if it already is."""
    if record.state == "DELETING":
        raise wrong_state("delete", "DELETING")
    before, interrupted = record.state, record.pending
    _interrupt_change(world, record, at, ApiError(Code.CANCELLED, "The node is being deleted."))
    world.set_state(record, "DELETING", at)
    operation = _begin_operation(world, record, "delete", at)

    def end_delete(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.mark_failed(operation, at, effects.operation_error)
            world.set_state(record, before, at)
            if interrupted is not None and record.state in UNDER_WAY:
                # The deletion cancelled the event that would have ended this state.
                due = max(at, interrupted.due)
                record.pending = world.timeline.schedule_event(
                    due, record.name, interrupted.what, interrupted.act
                )
        else:
            world.set_state(record, "", at)
            conclude_operation(world, operation, at, effects, Empty())

    _schedule_end(world, record, "delete", at, end_delete)
    return operation


def stop_node(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    """Stop a READY node that has one host and is neither spot nor queued; raises ApiError."""
    _refuse_queued(record, "stop")
    _require_state(record, "stop", "READY")
    if not record.accelerator.single_host:
        raise precondition_failed(
            f"stop is only available with single TPU nodes; {record.accelerator.name} is a TPU pod"
        )
    if record.provisioning_model in SPOT_MODELS:
        raise precondition_failed(
            f"stop is not supported for {record.provisioning_model} nodes; delete the node instead"
        )
    world.set_state(record, "STOPPING", at)
    operation = _begin_operation(world, record, "stop", at)

    def end_stop(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.mark_failed(operation, at, effects.operation_error)
            world.set_state(record, "READY", at)
        else:
            record.message.health = Node.Health.HEALTH_UNSPECIFIED
            world.set_state(record, "STOPPED", at)
            _succeed_with_node(world, record, operation, at, effects)

    _schedule_end(world, record, "stop", at, end_stop)
    return operation


def start_node(world: World, record: NodeRecord, at: float, effects: Effects) -> NodeMessage:
    """Start a stopped node. A stopped node holds no capacity, so a stockout is possible."""
    _refuse_queued(record, "start")
    _require_state(record, "start", "STOPPED")
    world.set_state(record, "STARTING", at)
    operation = _begin_operation(world, record, "start", at)

    def end_start(at: float) -> None:
        problem = _find_problem(world, record, at, effects)
        if problem is not None:
            world.set_state(record, "STOPPED", at)
            world.operations.mark_failed(operation, at, problem)
        else:
            _become_ready(world, record, at)
            _succeed_with_node(world, record, operation, at, effects)

    _schedule_end(world, record, "start", at, end_start)
    return operation


def update_node(
    world: World, record: NodeRecord, at: float, effects: Effects, change: Callable[[], None]
) -> NodeMessage:
    """Apply a change to a READY or STOPPED node, whose state does not change."""
    if record.state not in {"READY", "STOPPED"}:
        raise update_in_state(record.state)
    _require_idle(record)
    operation = _begin_operation(world, record, "update", at)

    def end_update(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.mark_failed(operation, at, effects.operation_error)
        else:
            change()
            world.notify_updated(record, at)
            _succeed_with_node(world, record, operation, at, effects)

    _schedule_end(world, record, "update", at, end_update)
    return operation


def preempt_node(world: World, record: NodeRecord, at: float, *, forced: bool) -> None:
    """Preempt the node: it loses its hardware, and stays listed under its name until deleted."""
    _require_preemptible(record, forced=forced)
    _interrupt_change(world, record, at, update_in_state("PREEMPTED"))
    record.maintenance = None
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    world.set_state(record, "PREEMPTED", at)


def announce_preemption(
    world: World,
    record: NodeRecord,
    at: float,
    seconds: float,
    workers: Collection[int],
    *,
    forced: bool,
) -> None:
    """Preempt a node after some seconds; the given workers receive the notice immediately."""
    _require_preemptible(record, forced=forced)
    record.notices.update(dict.fromkeys(workers, at))
    world.announce_preemption(record, at, seconds, workers)

    def preempt_if_possible(at: float) -> None:
        if world.nodes.get(record.name) is record and record.state in PREEMPTIBLE:
            preempt_node(world, record, at, forced=True)

    world.timeline.schedule_event(
        at + seconds, record.name, "announced preemption", preempt_if_possible, fate=True
    )


def _require_preemptible(record: NodeRecord, *, forced: bool) -> None:
    if record.state not in PREEMPTIBLE:
        raise wrong_state("preempt", record.state)
    if record.provisioning_model not in SPOT_MODELS and not forced:
        raise precondition_failed("only spot and preemptible nodes are preempted, unless forced")


def terminate_node(world: World, record: NodeRecord, at: float) -> None:
    """Terminate a node at the end of its maximum lifetime; it stays listed until deleted."""
    if record.state not in TERMINABLE:
        raise wrong_state("terminate", record.state)
    _interrupt_change(world, record, at, update_in_state("TERMINATED"))
    record.maintenance = None
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    record.message.health_description = "The node reached the end of its life cycle."
    world.set_state(record, "TERMINATED", at)


def reimage_node(
    world: World, record: NodeRecord, at: float, effects: Effects, version: str
) -> NodeMessage:
    """Install another software version on a READY node."""
    _require_state(record, "reimage", "READY")
    record.message.health = Node.Health.HEALTH_UNSPECIFIED
    world.set_state(record, "REIMAGING", at)
    operation = _begin_operation(world, record, "reimage", at)

    def end_reimage(at: float) -> None:
        if effects.operation_error is None:
            record.message.runtime_version = version
        _become_ready(world, record, at)
        _finish_operation(world, record, operation, at, effects)

    _schedule_end(world, record, "reimage", at, end_reimage)
    return operation


def maintain_node(world: World, record: NodeRecord, at: float) -> None:
    """Start a maintenance event of a READY node; the node is READY again after its repair."""
    _repair_node(world, record, at, lambda _: None)


def maintain_on_request(
    world: World, record: NodeRecord, at: float, verb: str, effects: Effects
) -> NodeMessage:
    """Start a maintenance event; its operation ends when the node is READY again."""
    _require_state(record, verb, "READY")

    def end_maintenance(at: float) -> None:
        _finish_operation(world, record, operation, at, effects)

    _repair_node(world, record, at, end_maintenance)
    operation = _begin_operation(world, record, verb, at)
    return operation


def _repair_node(world: World, record: NodeRecord, at: float, then: Ending) -> None:
    if record.state != "READY":
        raise wrong_state("maintenance", record.state)
    _interrupt_change(world, record, at, update_in_state("REPAIRING"))
    record.maintenance = (at, at + world.config.seconds_for("repair"))
    record.message.health = Node.Health.UNHEALTHY_MAINTENANCE
    record.message.health_description = "The TPU is undergoing a maintenance event."
    world.set_state(record, "REPAIRING", at)

    def end_repair(at: float) -> None:
        record.maintenance = None
        _become_ready(world, record, at)
        then(at)

    _schedule_end(world, record, "repair", at, end_repair)


def break_host(world: World, record: NodeRecord, at: float, *, recovers: bool) -> None:
    """Fail the host of a READY node: it restarts, and is UNKNOWN after it unless it recovers."""
    if record.state != "READY":
        raise wrong_state("restart", record.state)
    _interrupt_change(world, record, at, update_in_state("RESTARTING"))
    record.message.health = Node.Health.TIMEOUT
    record.message.health_description = "The TPU is unresponsive after a host error."
    world.set_state(record, "RESTARTING", at)

    def end_restart(at: float) -> None:
        if recovers:
            _become_ready(world, record, at)
        else:
            record.maintenance = None
            world.set_state(record, "UNKNOWN", at)

    _schedule_end(world, record, "restart", at, end_restart)


def _find_problem(world: World, record: NodeRecord, at: float, effects: Effects) -> ApiError | None:
    """Return the error of a node that cannot start: a stockout or a fault. None if it can."""
    wanted = {} if record.holds_hardware else {kind_of(record): record.accelerator.chips}
    if effects.stocked_out or not world.hardware.has_room(world.config, wanted, at):
        code = world.config.stockout_code
        return shortage_error(record.place.zone, record.provisioning_model, code)
    return effects.operation_error


def _become_ready(world: World, record: NodeRecord, at: float) -> None:
    record.message.health = Node.Health.HEALTHY
    record.message.health_description = ""
    world.set_state(record, "READY", at)


def _begin_operation(world: World, record: NodeRecord, verb: str, at: float) -> NodeMessage:
    record.operation = world.operations.start(verb, record.name, record.place, at)
    return record.operation


def _schedule_end(world: World, record: NodeRecord, what: str, at: float, end: Ending) -> None:
    """Schedule the end of a change after its configured duration."""
    due = at + world.config.seconds_for(what)

    def end_change(at: float) -> None:
        record.pending = None
        end(at)

    record.pending = world.timeline.schedule_event(due, record.name, what, end_change)


def _finish_operation(
    world: World, record: NodeRecord, operation: NodeMessage, at: float, effects: Effects
) -> None:
    """End the operation with the error of a fault, or with the node as it is now."""
    if effects.operation_error is not None:
        world.operations.mark_failed(operation, at, effects.operation_error)
    else:
        _succeed_with_node(world, record, operation, at, effects)


def _succeed_with_node(
    world: World, record: NodeRecord, operation: NodeMessage, at: float, effects: Effects
) -> None:
    """End the operation with the node as it is now; a fault may delay the end."""
    record.operation = None
    conclude_operation(world, operation, at, effects, copy_message(record.message))


def conclude_operation(
    world: World, operation: NodeMessage, at: float, effects: Effects, response: NodeMessage
) -> None:
    """End the operation of a successful change; a fault may delay the end or misreport it."""

    def end_operation(at: float) -> None:
        if effects.misreport is not None:
            world.operations.mark_failed(operation, at, effects.misreport)
        else:
            world.operations.mark_succeeded(operation, at, response)

    if effects.operation_seconds:
        due = at + effects.operation_seconds
        world.timeline.schedule_event(due, operation.name, "operation", end_operation)
    else:
        end_operation(at)


def _interrupt_change(world: World, record: NodeRecord, at: float, error: ApiError) -> None:
    """Cancel the change in progress; its operation ends with the error."""
    if record.pending is not None:
        record.pending.cancelled = True
        record.pending = None
    if record.is_busy:
        world.operations.mark_failed(record.operation, at, error)
    record.operation = None


def _refuse_queued(record: NodeRecord, verb: str) -> None:
    if record.queued_resource:
        raise precondition_failed(f"{verb} is not supported for nodes of a queued resource")


def _require_state(record: NodeRecord, verb: str, state: str) -> None:
    if record.state != state:
        raise wrong_state(verb, record.state)
    _require_idle(record)


def _require_idle(record: NodeRecord) -> None:
    if record.is_busy:
        raise ApiError(
            Code.ABORTED,
            f"Resource '{record.name}' has an operation in progress: {record.operation.name}",
        )
