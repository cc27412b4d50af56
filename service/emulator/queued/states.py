"""State changes of a queued resource, and the event that ends each state."""

from __future__ import annotations

from functools import partial

from service.emulator.errors import ApiError
from service.emulator.queued import members
from service.emulator.timeline import Act
from service.emulator.world.queue import QueuedRecord, QueuedTransition
from service.emulator.world.world import World


def enter_state(
    world: World,
    record: QueuedRecord,
    state: str,
    at: float,
    *,
    initiator: str = "SERVICE",
    error: ApiError | None = None,
) -> None:
    """Move to a state, and cancel the events of the state before."""
    for event in (record.pending, record.curfew):
        if event is not None:
            event.cancelled = True
    record.pending = record.curfew = None
    world.queue.waiting.pop(record.name, None)
    before = "" if state == "CREATING" else record.state
    if before:
        world.queue.stale_reads.note_change(at, record.name)
    record.show_state(state, initiator, error)
    world.queue.notify_observers(QueuedTransition(at, record.name, before, state, initiator))


def schedule_after(world: World, record: QueuedRecord, what: str, at: float, end: Act) -> None:
    """Call `end` after the configured duration of `what`."""
    _schedule_end(world, record, what, at + world.config.seconds_for(what), end)


def schedule_at(world: World, record: QueuedRecord, what: str, due: float, end: Act) -> None:
    """Call `end` at `due`, and not before, even when all pending events run at once."""
    _schedule_end(world, record, what, due, end, fate=True)


def schedule_after_deletions(
    world: World, record: QueuedRecord, what: str, at: float, then: Act
) -> None:
    """Call `then` after the configured duration of `what` and after the last deletion of a node."""
    record.then = then
    schedule_after(world, record, what, at, partial(end_after_deletions, world, record))


def end_after_deletions(world: World, record: QueuedRecord, at: float) -> None:
    then = record.then
    if then is None or record.pending is not None or members.has_deleting_node(world, record):
        return
    record.then = None
    then(at)


def _schedule_end(
    world: World, record: QueuedRecord, what: str, due: float, end: Act, *, fate: bool = False
) -> None:
    """Replace the pending event by a call of `end` at `due`."""

    def end_state(at: float) -> None:
        record.pending = None
        end(at)

    if record.pending is not None:
        record.pending.cancelled = True
    record.pending = world.timeline.schedule_event(due, record.name, what, end_state, fate=fate)
