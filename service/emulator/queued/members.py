"""The nodes of a queued resource: ordinary nodes that are created together and observed."""

from __future__ import annotations

from service.emulator.faults.faults import Effects
from service.emulator.limits.capacity import kind_of
from service.emulator.nodes import nodes
from service.emulator.nodes.nodes import NodeRecord, Watch
from service.emulator.wire import copy_message
from service.emulator.world import lifecycle
from service.emulator.world.queue import QueuedRecord
from service.emulator.world.world import World

LOST = {"PREEMPTED", "TERMINATED"}
"""States without hardware; nodes in them stay listed until deleted."""


def create_nodes(world: World, record: QueuedRecord, at: float, watch: Watch) -> None:
    """Create all requested nodes, as CreateNode does."""
    for slice_ in record.slices:
        asked = copy_message(slice_.asked)
        if slice_.model in {"spot", "preemptible", "reserved"}:
            setattr(asked.scheduling_config, slice_.model, True)
        message = nodes.make_node(asked, slice_.name, world.new_uid(), slice_.accelerator, at)
        message.queued_resource = record.name
        message.multislice_node = slice_.multislice
        if not message.cidr_block:
            message.cidr_block = world.new_block(nodes.block_size(message, slice_.accelerator))
        node = NodeRecord(
            message=message,
            place=record.place,
            accelerator=slice_.accelerator,
            created=at,
            queued_resource=record.name,
            model=slice_.model,
            watch=watch,
        )
        lifecycle.create_node(world, node, Effects())


def list_nodes(world: World, record: QueuedRecord) -> list[NodeRecord]:
    """Return the existing nodes of a queued resource."""
    found = (world.nodes.get(slice_.name) for slice_ in record.slices)
    return [node for node in found if node is not None and node.queued_resource == record.name]


def delete_nodes(world: World, record: QueuedRecord, at: float, *, lost_too: bool) -> None:
    """Delete the nodes; nodes in `LOST` only with `lost_too`."""
    record.lost_too = lost_too
    for node in list_nodes(world, record):
        if node.state != "DELETING" and (lost_too or node.state not in LOST):
            lifecycle.delete_node(world, node, at, Effects())


def has_deleting_node(world: World, record: QueuedRecord) -> bool:
    """Whether a node is still being deleted."""
    return any(node.state == "DELETING" for node in list_nodes(world, record))


def orphan_nodes(world: World, record: QueuedRecord) -> None:
    """Detach the nodes that are still listed: each holds its name and its own quota from now on."""
    for node in list_nodes(world, record):
        node.queued_resource = ""
        node.watch = None
        world.holdings.take_chips(node.place.project, {kind_of(node): node.accelerator.chips})
