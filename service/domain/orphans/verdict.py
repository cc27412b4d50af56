"""Whose an orphan is, and whether it may go. Pure: `service.controllers.orphans.orphans` acts.

Two mistakes are possible: to leave what burns money for nobody, and to delete what somebody needs.
The second cannot be made good, so everything that is not proved is only shown (rules R3 and R6,
rows 25, 32, 33 and 64 of the fault model; invariants S5, S6, B1, B2, I4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from service.domain.clock import rfc3339
from service.domain.nodes.node import LOST, NodeState, Place
from service.domain.nodes.ownership import LABEL_ID, LABEL_INSTALL
from service.domain.nodes.queued_resource import QueueState
from service.domain.orphans.fleet_watch import WINDOW_SECONDS, FleetWatch, is_hidden
from service.domain.orphans.orphan import Orphan, OrphanKind, OrphanVerdict, ShownResource

LOOKS = 2
"""Looks at least a period apart in which an orphan has to be seen before it may go."""

_MOST_DIGITS = 4


@dataclass(frozen=True, slots=True)
class KnownAttempt:
    """One attempt as the books have it. `present` says that it is the one which its record is at
    now; one that is not is over: its record has ended, or has gone on to another. `uids` are those
    by which its node, or each of its slices, was known when it ended: empty where none was seen, or
    where it may have been made twice. `called_gone_at` is when it was called gone without anybody
    here having asked for that."""

    node_id: str
    zone: str
    cloud_id: str
    slices: int
    present: bool
    uids: tuple[str, ...] = ()
    called_gone_at: int | None = None

    def made(self, shown: ShownResource) -> bool:
        """Whether this is what that attempt asked the cloud for, going by its name."""
        place = shown.place
        if place.zone != self.zone:
            return False
        if shown.queued or self.slices == 1:
            return place.cloud_id == self.cloud_id
        base, number = _numbered(place.cloud_id)
        return base == self.cloud_id and number < self.slices

    def knows(self, shown: ShownResource) -> bool:
        """Whether what bears a name of this attempt may be what it made, going by the uid; Google
        gives none to a queued resource."""
        number = _numbered(shown.place.cloud_id)[1] if self.slices > 1 else 0
        known = "" if shown.queued or not self.uids else self.uids[number]
        return known in ("", shown.uid)


@dataclass(frozen=True, slots=True)
class OrphanFinding:
    """Whose something is; `doubt` says why it is only shown, and is empty where the books show it
    as ours and as over."""

    kind: OrphanKind
    doubt: str = ""

    @property
    def certain(self) -> bool:
        """Whether it may go by itself."""
        return not self.doubt

    def says(self, orphan: Orphan) -> bool:
        """Whether that orphan was judged to be this already."""
        same = (self.kind, self.certain) == (orphan.kind, orphan.certain)
        return same and (self.certain or self.doubt == orphan.reason)


def names_of(place: Place) -> tuple[str, ...]:
    """The cloud ids of the attempts that may have made it: its own, and that of its group."""
    base, _ = _numbered(place.cloud_id)
    return (place.cloud_id, base) if base else (place.cloud_id,)


def _numbered(cloud_id: str) -> tuple[str, int]:
    """`run-12` as ("run", 12); ("", 0) where no number of a slice is behind it."""
    base, _, digits = cloud_id.rpartition("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        return "", 0
    return (base, int(digits)) if str(int(digits)) == digits else ("", 0)


def classify(
    shown: ShownResource, attempts: Iterable[KnownAttempt], install: str, *, manned: bool
) -> OrphanFinding | None:
    """Whose it is; None where a live record accounts for it.

    `manned` says of a queued resource that any of its nodes is, or may be, there.
    """
    made = [one for one in attempts if one.made(shown)]
    if any(one.present for one in made):
        return None
    if shown.labels.get(LABEL_INSTALL) != install:
        return OrphanFinding(OrphanKind.STRANGER, _STRANGER + _remedy(shown, stranger=True))
    ours = [one for one in made if one.node_id == shown.labels.get(LABEL_ID)]
    if not any(one.knows(shown) for one in ours):
        return OrphanFinding(OrphanKind.OURS, (_ANOTHER if ours else _QUARANTINED) + _remedy(shown))
    spent = _is_spent(shown.state, manned=manned) if shown.queued else shown.state in LOST
    if spent:
        return OrphanFinding(OrphanKind.ZOMBIE if shown.queued else OrphanKind.LEFTOVER)
    return OrphanFinding(OrphanKind.OURS, _came_back(ours, shown))


def _came_back(ours: Iterable[KnownAttempt], shown: ShownResource) -> str:
    """Why what lives is not taken for garbage; empty unless it was called gone by mistake."""
    when = max((one.called_gone_at for one in ours if one.called_gone_at is not None), default=None)
    if when is None:
        return ""
    return (
        f"it was recorded as gone at {rfc3339(when)} and is listed again, so it may be in"
        f" use: it is not deleted automatically; {_remedy(shown)}"
    )


def _remedy(shown: ShownResource, *, stranger: bool = False) -> str:
    """What a human can do about it. Only what `service.domain.orphans.adoption` takes can be
    adopted."""
    if shown.adoptable:
        adopt = "adopt it" if shown.state == NodeState.READY else "adopt it once it is READY"
        return f"{adopt}, or delete it" + (" by repeating its name" if stranger else "")
    what, they, whose = "it", "it", "its name"
    if shown.ticket:
        what, they, whose = "it, and its queued resource too,", "them", "their names"
    return f"delete {what} " + (
        f"by repeating {whose}" if stranger else f"when nobody needs {they}"
    )


def _is_spent(state: str, *, manned: bool) -> bool:
    """Whether a queued resource brings nothing about any more, yet holds its quota."""
    if state == QueueState.ACTIVE:
        return not manned
    return state in (QueueState.FAILED, QueueState.SUSPENDED)


def seen(
    before: Orphan | None, shown: ShownResource, finding: OrphanFinding, asked: int, period: int
) -> Orphan:
    """What to remember once a look that was asked for at `asked` has shown it; `before` itself
    where nothing is worth writing down."""
    new = _first_judged(
        Orphan(finding.kind, finding.certain, shown, asked, asked, asked), finding.doubt
    )
    if before is None:
        return new
    over = before.gone_at is not None or before.is_adopted
    if over or before.shown.incarnation != shown.incarnation:
        return replace(new, version=before.version)
    if not finding.says(before):
        kind, certain = finding.kind, finding.certain
        changed = replace(before, kind=kind, certain=certain, shown=shown, last_seen=asked)
        return _first_judged(replace(changed, since=asked, looks=1), finding.doubt)
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
    """Whether another look would bring it nearer to its end: what only stays is not counted."""
    return orphan.certain and orphan.looks < LOOKS


def _first_judged(orphan: Orphan, doubt: str) -> Orphan:
    judged = OrphanVerdict.LEAVE if doubt else OrphanVerdict.OBSERVE
    return replace(orphan, verdict=judged, reason=doubt or _TOO_YOUNG)


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


def verdict(orphan: Orphan, watch: FleetWatch | None, now: int) -> tuple[OrphanVerdict, str]:
    """What becomes of it now by itself, and why; the reason holds no figure that only grows."""
    if orphan.kind is OrphanKind.STRANGER or not orphan.certain:
        return OrphanVerdict.LEAVE, orphan.reason
    reason = _not_yet(orphan, now) or _held(orphan, watch, now)
    return (OrphanVerdict.OBSERVE, reason) if reason else (OrphanVerdict.COLLECT, _OVER)


def _not_yet(orphan: Orphan, now: int) -> str:
    """Why it has not been seen for long enough; empty when it has."""
    if orphan.shown.state == NodeState.DELETING:
        return _DELETING
    born = orphan.shown.created_at or 0
    if orphan.looks < LOOKS or now - max(orphan.since, born) <= WINDOW_SECONDS:
        return _TOO_YOUNG
    return ""


def _held(orphan: Orphan, watch: FleetWatch | None, now: int) -> str:
    """Why nothing may be collected now, whatever it is; empty when nothing speaks against it."""
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


def allowance(live: int) -> int:
    """How many may be deleted in one tick by themselves, given so many live nodes (B1)."""
    return max(1, live // 10)


class OrphanMove(StrEnum):
    """The one thing to do about an orphan that was just asked for by name."""

    GONE = "gone"
    """The cloud says that there is no such thing: that is the end of it."""

    FOUND = "found"
    """Nobody wants it gone, and it is there: the list had lacked it."""

    KNOWN = "known"
    """A live record accounts for it now."""

    RELEASE = "release"
    """It is no longer what was to be deleted: the wish is taken back."""

    WAIT = "wait"
    """Its end is under way, or something else has to go first."""

    DELETE = "delete"


def next_move(
    orphan: Orphan,
    found: ShownResource | None,
    finding: OrphanFinding | None,
    allowed: OrphanVerdict,
    *,
    occupied: bool,
) -> OrphanMove:
    """What to do, given what the cloud shows just now, whose that is, and the verdict of now.

    `occupied` says of a queued resource that a node of it is READY: somebody may be at work there,
    and the end of the queued resource would be the end of the node.
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
    """Whether what is there is what was to be deleted: the same incarnation (S6), with our label
    still on it unless its full name was repeated (S5)."""
    confirmed = finding.kind is not OrphanKind.STRANGER or orphan.confirmed
    return found.incarnation == orphan.shown.incarnation and confirmed


def _delete_or_release(
    orphan: Orphan, finding: OrphanFinding, allowed: OrphanVerdict
) -> OrphanMove:
    """Whoever asked for it bears that; what goes by itself has to be just as it was judged."""
    judged = (finding.kind, finding.certain) == (orphan.kind, orphan.certain)
    as_judged = judged and allowed is OrphanVerdict.COLLECT
    return OrphanMove.DELETE if as_judged or not orphan.by_itself else OrphanMove.RELEASE
