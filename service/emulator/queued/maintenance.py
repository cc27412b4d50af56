"""Maintenance of the nodes of a queued resource, started by hand on all or some of them."""

from __future__ import annotations

from collections.abc import Sequence

from service.emulator.errors import invalid_argument, wrong_state
from service.emulator.faults.faults import Effects
from service.emulator.queued import members
from service.emulator.wire import NodeMessage, copy_message
from service.emulator.world import lifecycle
from service.emulator.world.maintenance import require_startable
from service.emulator.world.queue import QueuedRecord
from service.emulator.world.world import World

VERB = "performMaintenanceQueuedResource"


def perform_maintenance(
    world: World, record: QueuedRecord, names: Sequence[str], at: float, effects: Effects
) -> NodeMessage:
    """Start the announced maintenance of the nodes with these names, full or short, or of all;
    raises ApiError.

    If one node cannot be maintained, none is. The operation ends after the repair time, even if a
    node is preempted or deleted before.
    """
    if record.state != "ACTIVE":
        raise wrong_state(VERB, record.state)
    nodes = {node.name: node for node in members.list_nodes(world, record)}
    prefix = record.place.child_name("nodes", "")
    full = [name if "/" in name else f"{prefix}{name}" for name in dict.fromkeys(names)]
    unknown = [name for name in full if name not in nodes]
    if unknown:
        raise invalid_argument(f'"{unknown[0]}" is not a node of {record.name}.')
    chosen = [nodes[name] for name in full] or list(nodes.values())
    for node in chosen:
        require_startable(node)
        if node.state != "READY" or node.is_busy:
            raise wrong_state(VERB, node.state)
    operation = world.operations.start(VERB, record.name, record.place, at)
    for node in chosen:
        lifecycle.maintain_node(world, node, at)

    def end_maintenance(at: float) -> None:
        if effects.operation_error is not None:
            world.operations.mark_failed(operation, at, effects.operation_error)
        else:
            lifecycle.conclude_operation(
                world, operation, at, effects, copy_message(record.message)
            )

    due = at + world.config.seconds_for("repair")
    world.timeline.schedule_event(due, operation.name, "maintained", end_maintenance)
    return operation
