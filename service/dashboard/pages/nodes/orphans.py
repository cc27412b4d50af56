"""The page of orphans: cloud resources without a record. The page only shows; its links lead to
the forms that change something."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from service.application.orphans import OrphanKind, OrphanSum, sum_orphans
from service.application.services import Services
from service.dashboard.actions.nodes import ActionLink
from service.dashboard.actions.orphans import list_orphan_actions
from service.dashboard.kit.banners import list_doubts
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_duration,
    format_money,
    to_moment,
)
from service.dashboard.kit.node_rows import tone_of
from service.dashboard.kit.visible_text import to_sentence
from service.dashboard.pages.nodes.queue import tone_of_queue
from service.domain.nodes.node import NodeState
from service.domain.orphans.orphan import STEWARD, Orphan, OrphanVerdict, orphan_id, owner_hints

SHOWN = 200
"""The most orphans on the page, the most expensive first; the command line lists all."""

_KINDS = {
    OrphanKind.STRANGER: "unmanaged, never touched",
    OrphanKind.OURS: "untracked: our label, no record",
    OrphanKind.ZOMBIE: "stale queued resource",
    OrphanKind.LEFTOVER: "preempted, not deleted yet",
}
_FATES = {
    OrphanVerdict.LEAVE: "Kept",
    OrphanVerdict.OBSERVE: "To be deleted automatically, not yet",
    OrphanVerdict.COLLECT: "Deleted automatically now",
}


@dataclass(frozen=True, slots=True)
class OrphanRow:
    """One orphan in words. `hourly` is empty if the orphan is not billed; `commands` are those that
    a reader can type about it."""

    id: str
    name: str
    path: str
    kind: str
    stranger: bool
    accelerator_type: str
    zone: str
    project: str
    state: str
    tone: str
    hourly: str
    fate: str
    reason: str
    error: str
    hints: str
    first_seen: Moment
    seen_for: str
    last_seen: Moment
    commands: tuple[str, ...]
    actions: tuple[ActionLink, ...]


@dataclass(frozen=True, slots=True)
class OrphanTotals:
    """The number of orphans, their hourly cost, and the number without a known price."""

    number: int
    hourly: str
    unpriced: str


@dataclass(frozen=True, slots=True)
class OrphansPage:
    """Everything on the page. `left_out` counts the orphans that are not shown."""

    notices: tuple[str, ...]
    found: OrphanTotals
    rows: tuple[OrphanRow, ...]
    left_out: int
    as_of: Moment


def build_orphans_page(services: Services) -> OrphansPage:
    """The page as of now."""
    fleet = services.health.read_fleet()
    some = services.orphans.list_all()
    rows = []
    for seen in some[:SHOWN]:
        orphan, shown = seen.orphan, seen.orphan.shown
        queue = "queued resource" if shown.queued else ""
        if seen.hourly is not None:
            hourly = f"{format_money(seen.hourly)}/h"
        elif seen.to_come is not None:
            hourly = f"{format_money(seen.to_come)}/h once READY"
        else:
            hourly = "no price" if seen.billed else ""
        hints = (f"{key}={value}" for key, value in owner_hints(shown.labels).items())
        fate = _FATES[orphan.verdict]
        if orphan.to_be_deleted:
            by = "" if orphan.asked_by == STEWARD else f", requested by {orphan.asked_by}"
            fate = f"To be deleted{by}"
        rows.append(
            OrphanRow(
                id=orphan.id,
                name=shown.place.cloud_id,
                path=shown.path,
                kind=_KINDS[orphan.kind],
                stranger=orphan.kind is OrphanKind.STRANGER,
                accelerator_type=" ".join(part for part in (shown.accelerator_type, queue) if part),
                zone=shown.place.zone,
                project=shown.place.project,
                state=shown.state,
                tone=tone_of_queue(shown.state) if shown.queued else tone_of(shown.state),
                hourly=hourly,
                fate=fate,
                reason=to_sentence(orphan.reason),
                error=to_sentence(orphan.last_error),
                hints=", ".join(hints),
                first_seen=to_moment(orphan.first_seen),
                seen_for=format_duration(fleet.as_of - orphan.first_seen),
                last_seen=to_moment(seen.last_seen),
                commands=tuple(list_commands(orphan)),
                actions=list_orphan_actions(orphan),
            )
        )
    return OrphansPage(
        notices=tuple(list_doubts(fleet)),
        found=describe_totals(sum_orphans(some)),
        rows=tuple(rows),
        left_out=max(0, len(some) - SHOWN),
        as_of=to_moment(fleet.as_of),
    )


def describe_totals(total: OrphanSum) -> OrphanTotals:
    """The totals of orphans, in words."""
    unpriced = format_count(total.unpriced, "more") if total.unpriced else ""
    return OrphanTotals(total.number, format_money(total.hourly), unpriced)


def list_commands(orphan: Orphan) -> list[str]:
    """The commands that a reader can type about an orphan. Its name comes from the cloud, so it is
    quoted for the shell."""
    shown = orphan.shown
    if orphan.to_be_deleted and orphan.asked_by != STEWARD:
        return []
    adoptable = shown.is_adoptable and shown.state == NodeState.READY and not orphan.to_be_deleted
    adopt = [f"tpu-steward orphans adopt {orphan.id}"] if adoptable else []
    named = [shown.path, *([shown.ticket] if shown.ticket else [])]  # a node's ticket outlives it
    needs_confirmation = orphan.kind is OrphanKind.STRANGER
    return [
        *adopt,
        *(
            f"tpu-steward orphans delete {orphan_id(path)}"
            + (f" --confirm {shlex.quote(path)}" if needs_confirmation else "")
            for path in named
        ),
    ]
