"""Classifies orphans and decides their deletion. Pure; `service.controllers.orphans.orphans` acts.

Two mistakes are possible: to keep an unused resource that costs money, and to delete one in use.
The second cannot be undone, so a resource without proof is only shown (rules R3 and R6, rows 25,
32, 33 and 64 of the fault model; invariants S5, S6, B1, B2, I4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.clock import to_rfc3339
from service.domain.nodes.node import LOST, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL
from service.domain.nodes.queued_resource import QueueState
from service.domain.orphans.fleet_watch import WINDOW_SECONDS, FleetWatch, is_hidden
from service.domain.orphans.orphan import Orphan, OrphanKind, OrphanVerdict, ShownResource

LOOKS = 2
"""Number of polls, at least a period apart, that must show an orphan before its deletion."""

_MOST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class KnownAttempt:
    """One recorded attempt of a node.

    `present` says that the record is at this attempt; otherwise the record has ended, or is at a
    later attempt. `uids` are the last known uids of its node or of each slice; empty if none was
    seen, or if the node may have been created twice. `called_gone_at` is when it was recorded as
    gone without a request to this service.
    """

    node_id: str
    zone: str
    cloud_id: str
    slices: int
    present: bool
    uids: tuple[str, ...] = ()
    called_gone_at: int | None = None

    def matches_name(self, shown: ShownResource) -> bool:
        """Whether the resource has a name of this attempt."""
        place = shown.place
        if place.zone != self.zone:
            return False
        if shown.queued or self.slices == 1:
            return place.cloud_id == self.cloud_id
        base, number = _split_number(place.cloud_id)
        return base == self.cloud_id and number < self.slices

    def matches_uid(self, shown: ShownResource) -> bool:
        """Whether a resource with a name of this attempt may be from it, by its uid.

        Google gives a queued resource no uid.
        """
        number = _split_number(shown.place.cloud_id)[1] if self.slices > 1 else 0
        known = "" if shown.queued or not self.uids else self.uids[number]
        return known in ("", shown.uid)


@dataclass(frozen=True, slots=True)
class OrphanFinding:
    """The classification of a resource.

    `doubt` says why it is only shown; empty if the records show it as ours and as ended.
    """

    kind: OrphanKind
    doubt: str = ""

    @property
    def is_certain(self) -> bool:
        """Whether it may be deleted automatically."""
        return not self.doubt

    def agrees_with(self, orphan: Orphan) -> bool:
        """Whether the orphan already has this classification."""
        same = (self.kind, self.is_certain) == (orphan.kind, orphan.certain)
        return same and (self.is_certain or self.doubt == orphan.reason)


def names_of(place: Place) -> tuple[str, ...]:
    """The cloud ids whose attempts decide the verdict on a resource: its own, and that of its
    group."""
    base, _ = _split_number(place.cloud_id)
    return (place.cloud_id, base) if base else (place.cloud_id,)


def _split_number(cloud_id: str) -> tuple[str, int]:
    """`run-12` as ("run", 12); ("", 0) if the name does not end in the number of a slice."""
    base, _, digits = cloud_id.rpartition("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        return "", 0
    return (base, int(digits)) if str(int(digits)) == digits else ("", 0)


def classify_resource(
    shown: ShownResource, attempts: Iterable[KnownAttempt], install: str, *, manned: bool
) -> OrphanFinding | None:
    """The verdict on which kind of orphan a resource is; None if it has a live record.

    `manned` says that a node of the queued resource exists, or may exist.
    """
    made = [attempt for attempt in attempts if attempt.matches_name(shown)]
    if any(attempt.present for attempt in made):
        return None
    if shown.labels.get(LABEL_INSTALL) != install:
        return OrphanFinding(
            OrphanKind.STRANGER, _STRANGER + _describe_remedy(shown, stranger=True)
        )
    ours = [attempt for attempt in made if attempt.node_id == shown.labels.get(LABEL_ID)]
    if not any(attempt.matches_uid(shown) for attempt in ours):
        return OrphanFinding(
            OrphanKind.OURS, (_ANOTHER if ours else _QUARANTINED) + _describe_remedy(shown)
        )
    if not shown.queued:
        spent = shown.state in LOST
    elif shown.state == QueueState.ACTIVE:
        spent = not manned
    else:  # in these states, it creates no more nodes and still holds its quota
        spent = shown.state in (QueueState.FAILED, QueueState.SUSPENDED)
    if spent:
        return OrphanFinding(OrphanKind.ZOMBIE if shown.queued else OrphanKind.LEFTOVER)
    # A running resource is not deleted if it was recorded as gone by mistake.
    gone = (attempt.called_gone_at for attempt in ours)
    when, doubt = max((at for at in gone if at is not None), default=None), ""
    if when is not None:
        doubt = (
            f"it was recorded as gone at {to_rfc3339(when)} and is listed again, so it may be in"
            f" use: it is not deleted automatically; {_describe_remedy(shown)}"
        )
    return OrphanFinding(OrphanKind.OURS, doubt)


def _describe_remedy(shown: ShownResource, *, stranger: bool = False) -> str:
    """The possible actions of a human: adoption, if it is possible, and deletion."""
    if shown.is_adoptable:
        adopt = "adopt it" if shown.state == NodeState.READY else "adopt it once it is READY"
        return f"{adopt}, or delete it" + (" by repeating its name" if stranger else "")
    what, they, whose = "it", "it", "its name"
    if shown.ticket:
        what, they, whose = "it, and its queued resource too,", "them", "their names"
    return f"delete {what} " + (
        f"by repeating {whose}" if stranger else f"when nobody needs {they}"
    )


def record_sighting(
    before: Orphan | None, shown: ShownResource, finding: OrphanFinding, asked: int, period: int
) -> Orphan:
    """The record of an orphan, with its verdict, after a poll sent at `asked` has shown it.

    `before` itself is returned if nothing needs to be stored.
    """
    new = _with_first_verdict(
        Orphan(finding.kind, finding.is_certain, shown, asked, asked, asked), finding.doubt
    )
    if before is None:
        return new
    over = before.gone_at is not None or before.is_adopted
    if over or before.shown.incarnation != shown.incarnation:
        return replace(new, version=before.version)
    if not finding.agrees_with(before):
        kind, certain = finding.kind, finding.is_certain
        changed = replace(before, kind=kind, certain=certain, shown=shown, last_seen=asked)
        return _with_first_verdict(replace(changed, since=asked, looks=1), finding.doubt)
    counts = is_young(before) and asked - before.last_seen >= period
    missed = not before.to_be_deleted and before.next_try_at is not None
    if shown == before.shown and not counts and not missed:
        return before
    return replace(
        before,
        shown=shown,
        last_seen=asked,
        looks=before.looks + counts,
        next_try_at=None if missed else before.next_try_at,
    )


def is_young(orphan: Orphan) -> bool:
    """Whether another poll counts towards the verdict to delete an orphan."""
    return orphan.certain and orphan.looks < LOOKS


def _with_first_verdict(orphan: Orphan, doubt: str) -> Orphan:
    first = OrphanVerdict.LEAVE if doubt else OrphanVerdict.OBSERVE
    return replace(orphan, verdict=first, reason=doubt or _TOO_YOUNG)


_TOO_YOUNG = (
    "it was first seen less than 15 minutes ago; it is deleted after two polls and 15 minutes"
)
_STRANGER = "it is unmanaged, so it is never deleted automatically; "
_QUARANTINED = (
    "it has our label, but no record shows that it has ended, as after a restore of"
    " the database: it is not deleted automatically; "
)
_ANOTHER = (
    "it has a name and label of this service, but Google's id is not that of the recorded"
    " resource. Another program made it, so it is not deleted automatically; "
)
_DELETING = "it is being deleted"
_OVER = "the node that it was created for has ended, or is on another attempt"


def judge_orphan(orphan: Orphan, watch: FleetWatch | None, now: int) -> tuple[OrphanVerdict, str]:
    """The verdict on an orphan now: the automatic action, and the reason, without a figure that
    only grows."""
    if orphan.kind is OrphanKind.STRANGER or not orphan.certain:
        return OrphanVerdict.LEAVE, orphan.reason
    if orphan.shown.state == NodeState.DELETING:
        return OrphanVerdict.OBSERVE, _DELETING
    born = orphan.shown.created_at or 0
    if orphan.looks < LOOKS or now - max(orphan.since, born) <= WINDOW_SECONDS:
        return OrphanVerdict.OBSERVE, _TOO_YOUNG
    reason = _find_hold(orphan, watch, now)
    return (OrphanVerdict.OBSERVE, reason) if reason else (OrphanVerdict.COLLECT, _OVER)


def _find_hold(orphan: Orphan, watch: FleetWatch | None, now: int) -> str:
    """Why this orphan may not be deleted now although it is old enough; empty if nothing prevents
    it."""
    if watch is None or now - watch.since <= WINDOW_SECONDS:
        return (
            "this daemon has polled the project for less than 15 minutes; it is deleted after that"
        )
    if watch.is_shrunk:
        return (
            "half of the project's nodes or more went missing within 15 minutes, so nothing"
            " is deleted until the number is stable for 15 minutes"
        )
    if is_hidden(orphan.shown, watch.blind):
        return "its zone did not answer the last poll"
    if not orphan.to_be_deleted and orphan.next_try_at is not None:
        return "the last list lacked it; it is being checked by name"
    return ""


def deletion_limit(live: int) -> int:
    """The number of orphans that may be deleted in one tick by an automatic verdict (B1). It
    depends on the number of live nodes."""
    return max(1, live // 10)


class OrphanMove(StrEnum):
    """The next action on an orphan that was just polled by name."""

    GONE = "gone"
    """The cloud says that it does not exist: its record ends."""

    FOUND = "found"
    """It exists, and no deletion is requested: the list had lacked it."""

    KNOWN = "known"
    """It has a live record now."""

    RELEASE = "release"
    """It is no longer the resource that was to be deleted: the deletion is withdrawn."""

    WAIT = "wait"
    """Its deletion is under way, or another resource must be deleted first."""

    DELETE = "delete"


def next_move(
    orphan: Orphan,
    found: ShownResource | None,
    finding: OrphanFinding | None,
    allowed: OrphanVerdict,
    *,
    occupied: bool,
) -> OrphanMove:
    """The next action on an orphan, by its present state in the cloud, classification and verdict.

    `occupied` says that a node of the queued resource is READY. The node may be in use, and the
    deletion of the queued resource would delete it.
    """
    if found is None:
        return OrphanMove.GONE
    if finding is None:
        return OrphanMove.KNOWN
    if not orphan.to_be_deleted:
        return OrphanMove.FOUND
    if not _is_still_meant(orphan, found, finding):
        return OrphanMove.RELEASE
    busy = found.state == NodeState.DELETING or occupied
    return OrphanMove.WAIT if busy else _delete_or_release(orphan, finding, allowed)


def _is_still_meant(orphan: Orphan, found: ShownResource, finding: OrphanFinding) -> bool:
    """Whether the found resource is the one to be deleted.

    It must be the same incarnation (S6), with our label unless its full name was repeated (S5).
    """
    confirmed = finding.kind is not OrphanKind.STRANGER or orphan.confirmed
    return found.incarnation == orphan.shown.incarnation and confirmed


def _delete_or_release(
    orphan: Orphan, finding: OrphanFinding, allowed: OrphanVerdict
) -> OrphanMove:
    """DELETE for a requested deletion; an automatic one needs an unchanged classification."""
    judged = (finding.kind, finding.is_certain) == (orphan.kind, orphan.certain)
    as_judged = judged and allowed is OrphanVerdict.COLLECT
    return OrphanMove.DELETE if as_judged or not orphan.is_automatic else OrphanMove.RELEASE
