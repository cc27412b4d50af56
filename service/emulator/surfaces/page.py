"""The status page: the resources of the emulated cloud, its pending events and its faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.emulator.nodes.nodes import NodeRecord
from service.emulator.world.queue import QueuedRecord
from service.emulator.world.world import World

MOST_ROWS = 200
PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Row:
    """A node or a queued resource on the page; `age` is in words."""

    id: str
    zone: str
    state: str
    kind: str
    model: str
    age: str
    note: str


def status_page(world: World, grpc_address: str, rest_url: str) -> str:
    """Return the page as HTML. Nodes, queued resources and pending events are cut to `MOST_ROWS`;
    nodes and queued resources have totals."""
    now = world.run_due_events()
    nodes = [world.nodes[name] for name in world.get_sight().names[:MOST_ROWS]]
    queue = world.queue.records.values()
    return PAGES.get_template("status.html").render(
        grpc=grpc_address,
        rest=rest_url.rstrip("/"),
        now=datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        speed=f"{world.config.speed:g}",
        seed=world.seed,
        nodes=[
            _build_row(
                record,
                now,
                [record.accelerator.name],
                record.queued_resource.rpartition("/")[2] or record.message.health_description,
            )
            for record in nodes
        ],
        node_count=len(world.nodes),
        node_states=_count_states(record.state for record in world.nodes.values()),
        queue=[
            _build_row(
                record,
                now,
                [slice_.accelerator.name for slice_ in record.slices],
                record.message.state.failed_data.error.message,
            )
            for record in list(queue)[:MOST_ROWS]
        ],
        queue_states=_count_states(record.state for record in queue),
        pending=[
            (event.what, event.target.rpartition("/")[2], format_duration(event.due - now))
            for event in world.timeline.list_pending()[:MOST_ROWS]
        ],
        faults=world.faults.list_all(),
    )


def _build_row(
    record: NodeRecord | QueuedRecord, now: float, accelerators: Iterable[str], note: str
) -> Row:
    kinds = Counter(accelerators)
    return Row(
        id=record.name.rpartition("/")[2],
        zone=record.place.zone,
        state=record.state,
        kind=", ".join(f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items()),
        model=record.provisioning_model,
        age=format_duration(now - record.created),
        note=note,
    )


def _count_states(states: Iterable[str]) -> str:
    found = sorted(Counter(states).items())
    return ", ".join(f"{count:,} {state}" for state, count in found) or "none"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as `2 h 5 min`; a negative one as `0 s`."""
    left = max(0, round(seconds))
    for unit, size, smaller, step in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60)):
        if left >= size:
            return f"{left // size} {unit} {left % size // step} {smaller}"
    return f"{left // 60} min {left % 60} s" if left >= 60 else f"{left} s"
