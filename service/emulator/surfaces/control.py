"""What `/_emulator/…` does: look into the world, and make things happen to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from service.emulator.clock import parse
from service.emulator.config.config import patched
from service.emulator.errors import not_found
from service.emulator.nodes import activity
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.nodes.worker import Worker, numbered, worker_of
from service.emulator.surfaces.control_bodies import MAX_NOTICE_SECONDS, read_order
from service.emulator.surfaces.json_codec import to_json
from service.emulator.validation import flag, number, refusal, whole
from service.emulator.wire import Node
from service.emulator.world import lifecycle
from service.emulator.world.world import World

MAX_DIGITS = 18


def state(world: World) -> dict[str, Any]:
    """Show everything there is, and what is due to happen."""
    now = world.settle()
    return {
        "now": now,
        "nodes": [_shown(record) for _, record in sorted(world.nodes.items())],
        "queued_resources": [
            to_json(record.message, enum_numbers=False)
            for _, record in sorted(world.queue.records.items())
        ],
        "operations": [to_json(each, enum_numbers=False) for each in world.operations.everything()],
        "pending": [
            {"due": each.due, "target": each.target, "what": each.what}
            for each in world.timeline.pending()
        ],
        "faults": world.faults.all(),
        "config": world.config.as_dict(),
    }


def read_config(world: World) -> dict[str, Any]:
    return world.config.as_dict()


def change_config(world: World, patch: object) -> dict[str, Any]:
    """Apply a patch; what has already begun keeps its time."""
    world.configure(patched(world.config, patch))
    return world.config.as_dict()


def add_fault(world: World, order: object) -> dict[str, Any]:
    return world.faults.add(order, world.settle()).as_dict()


def list_faults(world: World) -> dict[str, Any]:
    return {"faults": world.faults.all()}


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


def settle(world: World) -> dict[str, Any]:
    return {"settled": world.hurry()}


def reset(world: World) -> dict[str, Any]:
    world.settle()
    world.reset()
    return {}


def preempt(world: World, body: object) -> dict[str, Any]:
    """Preempt a node; `{"force": true}` takes one that is neither spot nor preemptible.

    With `notice_seconds` its workers are told at once, or only `workers` by their numbers, and the
    node is PREEMPTED after that long. Programs on workers that are not told die of it before.
    """
    now = world.settle()
    order = read_order("POST nodes/preempt", body)
    record = world.find(_name(order))
    forced = flag(order["force"], "force")
    seconds = number(order["notice_seconds"], "notice_seconds", 0, MAX_NOTICE_SECONDS)
    if seconds:
        told = _numbers("workers", order, record.accelerator.hosts)
        lifecycle.announce_preemption(world, record, now, seconds, told, forced=forced)
    else:
        lifecycle.preempt(world, record, now, forced=forced)
    return _shown(record)


def maintain(world: World, body: object) -> dict[str, Any]:
    now = world.settle()
    record = world.find(_name(read_order("POST nodes/maintenance", body)))
    lifecycle.maintain(world, record, now)
    return _shown(record)


def break_host(world: World, body: object) -> dict[str, Any]:
    """Fail a node's host; with `{"recovers": false}` the node is UNKNOWN from then on."""
    now = world.settle()
    order = read_order("POST nodes/host-error", body)
    record = world.find(_name(order))
    lifecycle.break_host(world, record, now, recovers=flag(order["recovers"], "recovers"))
    return _shown(record)


def set_health(world: World, body: object) -> dict[str, Any]:
    """Show a node in another health, with a reason, until something changes it."""
    world.settle()
    order = read_order("POST nodes/health", body)
    record = world.find(_name(order))
    health, description = order["health"], order["description"]
    if health not in Node.Health.keys() or not isinstance(description, str):  # noqa: SIM118
        raise refusal(f"health must be one of {', '.join(Node.Health.keys())}")
    world.touch()
    record.message.health = Node.Health.Value(health)
    record.message.health_description = description
    return _shown(record)


def set_activity(world: World, body: object) -> dict[str, Any]:
    """Say how busy a node, a worker or a chip is from now on; what is not named stays as it was."""
    now = world.settle()
    order = read_order("POST nodes/activity", body)
    record = world.find(_name(order))
    changes = {
        key: activity.check(key, value) for key, value in order.items() if key in activity.HIGHEST
    }
    worker, chip = _index("worker", order), _index("chip", order)
    activity.note(record, now, changes, worker, chip)
    return _shown(record)


def worker(world: World, body: object) -> Worker:
    """Pick a worker whose machine is up; without a number, the first."""
    found = _worker(world, read_order("POST nodes/metadata-server", body))
    return worker_of(found.record, found.number)


def any_worker(world: World, query: object) -> Worker:
    """Pick a worker, whether its machine is up or not."""
    return _worker(world, read_order("GET nodes/serial", query))


def _worker(world: World, order: Mapping[str, object]) -> Worker:
    world.settle()
    record = world.find(_name(order))
    return numbered(record, _index("worker", order) or 0)


def runs(world: World) -> dict[str, Any]:
    """Tell what the containers of played workers really did."""
    world.settle()
    return {"runs": world.runs.shown()}


def bill(world: World, start: str, end: str) -> dict[str, Any]:
    """Give the account, clipped to a window of unix seconds or RFC 3339 moments."""
    now = world.settle()
    low = _moment("start", start, -math.inf)
    high = _moment("end", end, math.inf)
    return {"entries": world.bill.entries(now, low, high)}


def _shown(record: NodeRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "node": to_json(record.message, enum_numbers=False),
        "activity": record.activity.shown(),
    }


def _name(order: Mapping[str, object]) -> str:
    name = order["name"]
    if not isinstance(name, str) or not name:
        raise refusal("name must be projects/…/locations/…/nodes/…")
    return name


def _index(key: str, order: Mapping[str, object]) -> int | None:
    raw = order.get(key)
    return None if raw is None else whole(raw, key)


def _numbers(key: str, order: Mapping[str, object], below: int) -> list[int]:
    """Read numbers of workers; all of them where none are named."""
    raw = list(range(below)) if order[key] is None else order[key]
    if not isinstance(raw, list) or not all(type(one) is int and 0 <= one < below for one in raw):
        raise refusal(f"{key} must be a list of numbers from 0 to {below - 1}")
    return raw


def _moment(key: str, text: str, default: float) -> float:
    if not text:
        return default
    try:
        return parse(text)
    except (ValueError, OverflowError):
        raise refusal(f"{key} must be unix seconds or RFC 3339: {text!r}") from None
