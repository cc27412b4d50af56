"""The control routes below `/_emulator/`: they read the world and cause events in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from service.emulator.clock import parse_time
from service.emulator.config.config import patched_config
from service.emulator.errors import not_found
from service.emulator.nodes import activity
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.worker import Worker, get_running_worker, get_worker
from service.emulator.surfaces.control_bodies import MAX_NOTICE_SECONDS, read_order
from service.emulator.surfaces.json_codec import to_json
from service.emulator.validation import invalid_value, parse_flag, parse_integer, parse_number
from service.emulator.wire import Node
from service.emulator.world import lifecycle
from service.emulator.world.world import World

MAX_DIGITS = 18


def describe_state(world: World) -> dict[str, Any]:
    """Return all resources, the pending events, the faults and the configuration."""
    now = world.run_due_events()
    return {
        "now": now,
        "nodes": [_describe_node(record) for _, record in sorted(world.nodes.items())],
        "queued_resources": [
            to_json(record.message, enum_numbers=False)
            for _, record in sorted(world.queue.records.items())
        ],
        "operations": [
            to_json(operation, enum_numbers=False) for operation in world.operations.list_all()
        ],
        "pending": [
            {"due": event.due, "target": event.target, "what": event.what}
            for event in world.timeline.list_pending()
        ],
        "faults": world.faults.list_all(),
        "config": world.config.as_dict(),
    }


def read_config(world: World) -> dict[str, Any]:
    return world.config.as_dict()


def change_config(world: World, patch: object) -> dict[str, Any]:
    """Apply a patch to the configuration; changes that have begun keep their time."""
    world.set_config(patched_config(world.config, patch))
    return world.config.as_dict()


def add_fault(world: World, order: object) -> dict[str, Any]:
    return world.faults.add(order, world.run_due_events()).as_dict()


def list_faults(world: World) -> dict[str, Any]:
    return {"faults": world.faults.list_all()}


def drop_faults(world: World, fault_id: str) -> dict[str, Any]:
    """Drop one fault by its id, or all of them."""
    if not fault_id:
        world.faults.clear()
    elif (
        not fault_id.isdecimal()
        or len(fault_id) > MAX_DIGITS
        or not world.faults.remove(int(fault_id))
    ):
        raise not_found(f"faults/{fault_id}")
    return list_faults(world)


def settle_world(world: World) -> dict[str, Any]:
    return {"settled": world.run_pending_events()}


def reset_world(world: World) -> dict[str, Any]:
    world.run_due_events()
    world.reset_all()
    return {}


def preempt_node(world: World, body: object) -> dict[str, Any]:
    """Preempt a node; `{"force": true}` preempts one that is neither spot nor preemptible.

    With `notice_seconds` its workers receive a notice immediately, or only those with a number in
    `workers`, and the node is PREEMPTED after that time. Programs on workers without a notice end
    before.
    """
    now = world.run_due_events()
    order = read_order("POST nodes/preempt", body)
    record = world.get_node(_parse_name(order))
    forced = parse_flag(order["force"], "force")
    seconds = parse_number(order["notice_seconds"], "notice_seconds", 0, MAX_NOTICE_SECONDS)
    if not seconds:
        lifecycle.preempt_node(world, record, now, forced=forced)
        return _describe_node(record)
    hosts = record.accelerator.hosts
    told = list(range(hosts)) if order["workers"] is None else order["workers"]
    if not isinstance(told, list) or not all(
        type(index) is int and 0 <= index < hosts for index in told
    ):
        raise invalid_value(f"workers must be a list of numbers from 0 to {hosts - 1}")
    lifecycle.announce_preemption(world, record, now, seconds, told, forced=forced)
    return _describe_node(record)


def maintain_node(world: World, body: object) -> dict[str, Any]:
    now = world.run_due_events()
    record = world.get_node(_parse_name(read_order("POST nodes/maintenance", body)))
    lifecycle.maintain_node(world, record, now)
    return _describe_node(record)


def break_host(world: World, body: object) -> dict[str, Any]:
    """Fail a node's host; with `{"recovers": false}` the node ends UNKNOWN."""
    now = world.run_due_events()
    order = read_order("POST nodes/host-error", body)
    record = world.get_node(_parse_name(order))
    lifecycle.break_host(world, record, now, recovers=parse_flag(order["recovers"], "recovers"))
    return _describe_node(record)


def set_health(world: World, body: object) -> dict[str, Any]:
    """Set the health of a node and its description, until the next change of the node."""
    world.run_due_events()
    order = read_order("POST nodes/health", body)
    record = world.get_node(_parse_name(order))
    health, description = order["health"], order["description"]
    if health not in Node.Health.keys() or not isinstance(description, str):  # noqa: SIM118
        raise invalid_value(f"health must be one of {', '.join(Node.Health.keys())}")
    world.clear_cache()
    record.message.health = Node.Health.Value(health)
    record.message.health_description = description
    return _describe_node(record)


def set_activity(world: World, body: object) -> dict[str, Any]:
    """Set the activity of a node, a worker or a chip from now on; absent quantities stay."""
    now = world.run_due_events()
    order = read_order("POST nodes/activity", body)
    record = world.get_node(_parse_name(order))
    changes = {
        key: activity.check_value(key, value)
        for key, value in order.items()
        if key in activity.HIGHEST
    }
    worker, chip = _parse_index("worker", order), _parse_index("chip", order)
    activity.record_activity(record, now, changes, worker, chip)
    return _describe_node(record)


def resolve_running_worker(world: World, body: object) -> Worker:
    """Return a worker whose machine is up; the first without a number. Raises ApiError."""
    found = _get_worker(world, read_order("POST nodes/metadata-server", body))
    return get_running_worker(found.record, found.number)


def resolve_worker(world: World, query: object) -> Worker:
    """Return a worker, whether its machine is up or not; raises ApiError."""
    return _get_worker(world, read_order("GET nodes/serial", query))


def _get_worker(world: World, order: Mapping[str, object]) -> Worker:
    world.run_due_events()
    record = world.get_node(_parse_name(order))
    return get_worker(record, _parse_index("worker", order) or 0)


def list_runs(world: World) -> dict[str, Any]:
    """Return what the containers of played workers really did."""
    world.run_due_events()
    return {"runs": world.runs.as_dicts()}


def list_bill(world: World, start: str, end: str) -> dict[str, Any]:
    """Return the bill of a window; `start` and `end` are unix seconds or RFC 3339."""
    now = world.run_due_events()
    low = _parse_bound("start", start, -math.inf)
    high = _parse_bound("end", end, math.inf)
    return {"entries": world.bill.list_entries(now, low, high)}


def _describe_node(record: NodeRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "node": to_json(record.message, enum_numbers=False),
        "activity": record.activity.as_dict(),
    }


def _parse_name(order: Mapping[str, object]) -> str:
    name = order["name"]
    if not isinstance(name, str) or not name:
        raise invalid_value("name must be projects/…/locations/…/nodes/…")
    return name


def _parse_index(key: str, order: Mapping[str, object]) -> int | None:
    raw = order.get(key)
    return None if raw is None else parse_integer(raw, key)


def _parse_bound(key: str, text: str, default: float) -> float:
    if not text:
        return default
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        raise invalid_value(f"{key} must be unix seconds or RFC 3339: {text!r}") from None
