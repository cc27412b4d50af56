"""What one look at the cloud shows that the books do not account for, and what that changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from service.cloud.ports import Inventory, Queue
from service.domain.nodes.node import Place
from service.domain.orphans.fleet_watch import Blind, is_hidden
from service.domain.orphans.orphan import Orphan, ShownResource, node_shown, place_in, queue_shown
from service.domain.orphans.verdict import KnownAttempt, classify, is_young, names_of, seen


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that bears the name of no live record. `digest` is the inventory's; `manned` says
    of a queued resource that a node of it is, or may be, there."""

    shown: ShownResource
    digest: bytes = b""
    manned: bool = False


@dataclass(frozen=True, slots=True)
class OrphanChanges:
    """What a look changes: rows to add, rows to write anew, and rows to drop, of what a record
    accounts for now. `settled` says that another look at the same would change nothing."""

    added: Sequence[Orphan]
    written: Sequence[Orphan]
    dropped: Sequence[Orphan]
    settled: bool


@dataclass(frozen=True, slots=True)
class OrphanLook:
    """One look at a project: both lists, and when they were asked for."""

    inventory: Inventory
    queue: Queue
    asked: int

    @property
    def blind(self) -> Blind:
        """Where it says nothing."""
        nodes = ((False, zone) for zone in self.inventory.unreachable)
        return frozenset(nodes) | {(True, zone) for zone in self.queue.unreachable}

    def candidates(
        self, live: set[tuple[str, str]], before: Mapping[str, Orphan]
    ) -> Iterator[Candidate]:
        """What bears the name of no live record. What was not changed since is not read again."""
        project, sightings = self.inventory.project, self.inventory.sightings()
        places = [Place(project, zone, cloud_id) for zone, cloud_id in live]
        paths = {place.path for place in places} | {place.queue_path for place in places}
        for path, sighting in sightings.items():
            place = _place(path, project, paths)
            if place is None:
                continue
            known = before.get(path)
            same = known is not None and known.digest == sighting.digest
            shown = known.shown if same and known else node_shown(place, sighting.decode())
            yield Candidate(shown, sighting.digest)
        for path, entry in self.queue.entries().items():
            place = _place(path, project, paths)
            if place is None:
                continue
            members = (Place(project, place.zone, name).path for name in entry.nodes)
            unknown = not self.inventory.knows(place.zone)
            manned = unknown or any(one in sightings for one in members)
            yield Candidate(queue_shown(place, entry), manned=manned)


def _place(path: str, project: str, known: set[str]) -> Place | None:
    """Where something of that project is; None where its record is known, or where the name that
    the cloud gives is no name."""
    if path in known:
        return None
    place = place_in(path)
    return place if place is not None and place.project == project else None


def names(candidates: Iterable[Candidate]) -> set[str]:
    """The cloud ids that the books have to be asked about."""
    return {name for one in candidates for name in names_of(one.shown.place)}


def changes(
    look: OrphanLook,
    candidates: Sequence[Candidate],
    attempts: Iterable[KnownAttempt],
    before: Mapping[str, Orphan],
    install: str,
    period: int,
) -> OrphanChanges:
    """Compare a look with what is remembered. Absence from it alone proves nothing: what is missing
    is only asked for by name."""
    by_name: dict[str, list[KnownAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_name[attempt.cloud_id].append(attempt)
    now: dict[str, Orphan] = {}
    for one in candidates:
        made = [a for name in names_of(one.shown.place) for a in by_name.get(name, ())]
        finding = classify(one.shown, made, install, manned=one.manned)
        known = before.get(one.shown.path)
        if finding is not None and not _is_late(known, look.asked):
            after = seen(known, one.shown, finding, look.asked, period)
            now[one.shown.path] = replace(after, digest=one.digest)
    blind = look.blind
    shown = look.inventory.sightings().keys() | look.queue.entries().keys()
    absent = [one for path, one in before.items() if path not in now and one.gone_at is None]
    missing = [
        replace(one, next_try_at=look.asked)
        for one in absent
        if one.shown.path not in shown
        and one.next_try_at is None
        and not is_hidden(one.shown, blind)
    ]
    added = [one for path, one in now.items() if path not in before]
    written = [one for path, one in now.items() if path in before and one != before[path]]
    dropped = [one for one in absent if one.shown.path in shown and not one.is_adopted]
    young = any(map(is_young, now.values()))
    settled = not (young or added or written or missing or dropped)
    return OrphanChanges(added, [*written, *missing], dropped, settled)


def _is_late(known: Orphan | None, asked: int) -> bool:
    """Whether a list shows what was found to be gone only after the list was asked for."""
    return known is not None and known.gone_at is not None and asked <= known.gone_at
