"""The nodes of a queued resource: ordinary ones, born together and watched."""

from __future__ import annotations

from service.emulator.faults.faults import Effects
from service.emulator.limits.capacity import kind_of
from service.emulator.nodes import nodes
from service.emulator.nodes.nodes import NodeRecord, Watch
from service.emulator.wire import NodeMessage, copied
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedRecord, Slice
from service.emulator.world.world import World

LOST = {"PREEMPTED", "TERMINATED"}
"""Without hardware, and listed until somebody deletes them."""


def bear(world: World, record: QueuedRecord, at: float, watch: Watch) -> None:
    """Create all the nodes that were asked for, through the lifecycle of every node."""
    for each in record.slices:
        lifecycle.create(world, _born(world, record, each, at, watch), Effects())


def listed(world: World, record: QueuedRecord) -> list[NodeRecord]:
    found = (world.nodes.get(each.name) for each in record.slices)
    return [node for node in found if node is not None and node.queued_resource == record.name]


def clear_away(world: World, record: QueuedRecord, at: float, *, lost_too: bool) -> None:
    """Delete the nodes; those that lost their hardware only if told to."""
    record.lost_too = lost_too
    for node in listed(world, record):
        if node.state != "DELETING" and (lost_too or node.state not in LOST):
            lifecycle.delete(world, node, at, Effects())


def leaving(world: World, record: QueuedRecord) -> bool:
    """Say whether a node is still being deleted."""
    return any(node.state == "DELETING" for node in listed(world, record))


def orphan(world: World, record: QueuedRecord) -> None:
    """Leave what is still listed to itself: it goes on to hold its name and its quota."""
    for node in listed(world, record):
        node.queued_resource = ""
        node.watch = None
        world.holdings.take(node.place.project, {kind_of(node): node.accelerator.chips})


def _born(world: World, record: QueuedRecord, each: Slice, at: float, watch: Watch) -> NodeRecord:
    asked = copied(each.asked)
    model = each.model
    if model in {"spot", "preemptible", "reserved"}:
        setattr(asked.scheduling_config, model, True)
    message: NodeMessage = nodes.born(asked, each.name, world.new_uid(), each.accelerator, at)
    message.queued_resource = record.name
    message.multislice_node = each.multislice
    if not message.cidr_block:
        message.cidr_block = world.new_block(nodes.block_size(message, each.accelerator))
    return NodeRecord(
        message=message,
        place=record.place,
        accelerator=each.accelerator,
        created=at,
        queued_resource=record.name,
        model=model,
        watch=watch,
    )
