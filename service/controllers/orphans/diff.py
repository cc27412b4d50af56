"""Resources of one look at the cloud that no record accounts for, and the changes they cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from service.cloud.ports import Inventory, Queue
from service.domain.nodes.node import Place
from service.domain.orphans.fleet_watch import Blind, is_hidden
from service.domain.orphans.orphan import Orphan, ShownResource, node_shown, place_in, queue_shown
from service.domain.orphans.verdict import (
    KnownAttempt,
    classify_resource,
    is_young,
    names_of,
    record_sighting,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A resource without a live record of its name. `digest` is the inventory's; `manned` is set
    for a queued resource if a node of it exists or may exist."""

    shown: ShownResource
    digest: bytes = b""
    manned: bool = False


@dataclass(frozen=True, slots=True)
class OrphanChanges:
    """Changes after a look: rows to add, rows to rewrite, and rows to drop because a record
    accounts for them now. `settled` is set if another look at the same lists changes nothing."""

    added: Sequence[Orphan]
    written: Sequence[Orphan]
    dropped: Sequence[Orphan]
    settled: bool


@dataclass(frozen=True, slots=True)
class OrphanLook:
    """One look at a project: both lists, and the time at which they were requested."""

    inventory: Inventory
    queue: Queue
    asked: int

    @property
    def blind_zones(self) -> Blind:
        """Zones about which the look says nothing."""
        nodes = ((False, zone) for zone in self.inventory.unreachable)
        return frozenset(nodes) | {(True, zone) for zone in self.queue.unreachable}

    def list_candidates(
        self, live: set[tuple[str, str]], before: Mapping[str, Orphan]
    ) -> Iterator[Candidate]:
        """Yield the resources without a live record of their name. Unchanged resources are not
        decoded again."""
        project, sightings = self.inventory.project, self.inventory.sightings()
        places = [Place(project, zone, cloud_id) for zone, cloud_id in live]
        paths = {place.path for place in places} | {place.queue_path for place in places}
        for path, sighting in sightings.items():
            place = _find_place(path, project, paths)
            if place is None:
                continue
            known = before.get(path)
            same = known is not None and known.digest == sighting.digest
            shown = known.shown if same and known else node_shown(place, sighting.decode())
            yield Candidate(shown, sighting.digest)
        for path, entry in self.queue.entries().items():
            place = _find_place(path, project, paths)
            if place is None:
                continue
            members = (Place(project, place.zone, name).path for name in entry.nodes)
            unknown = not self.inventory.is_reachable(place.zone)
            manned = unknown or any(member in sightings for member in members)
            yield Candidate(queue_shown(place, entry), manned=manned)


def _find_place(path: str, project: str, known: set[str]) -> Place | None:
    """The place of a resource of the project. None if a record has its name, or if the cloud's name
    is malformed."""
    if path in known:
        return None
    place = place_in(path)
    return place if place is not None and place.project == project else None


def collect_names(candidates: Iterable[Candidate]) -> set[str]:
    """The cloud ids to look up in the records."""
    return {name for candidate in candidates for name in names_of(candidate.shown.place)}


def find_changes(
    look: OrphanLook,
    candidates: Sequence[Candidate],
    attempts: Iterable[KnownAttempt],
    before: Mapping[str, Orphan],
    install: str,
    period: int,
) -> OrphanChanges:
    """Compare a look with the stored orphans. Absence from a list alone proves nothing: a missing
    orphan is only asked for by name."""
    by_name: dict[str, list[KnownAttempt]] = defaultdict(list)
    for attempt in attempts:
        by_name[attempt.cloud_id].append(attempt)
    now: dict[str, Orphan] = {}
    for candidate in candidates:
        resource = candidate.shown
        made = [attempt for name in names_of(resource.place) for attempt in by_name.get(name, ())]
        finding = classify_resource(resource, made, install, manned=candidate.manned)
        known = before.get(resource.path)
        # A list still shows a resource that was found to be gone after the list was requested.
        gone_at = None if known is None else known.gone_at
        is_outdated = gone_at is not None and look.asked <= gone_at
        if finding is not None and not is_outdated:
            after = record_sighting(known, resource, finding, look.asked, period)
            now[resource.path] = replace(after, digest=candidate.digest)
    blind = look.blind_zones
    shown = look.inventory.sightings().keys() | look.queue.entries().keys()
    absent = [
        orphan for path, orphan in before.items() if path not in now and orphan.gone_at is None
    ]
    missing = [
        replace(orphan, next_try_at=look.asked)
        for orphan in absent
        if orphan.shown.path not in shown
        and orphan.next_try_at is None
        and not is_hidden(orphan.shown, blind)
    ]
    added = [orphan for path, orphan in now.items() if path not in before]
    written = [orphan for path, orphan in now.items() if path in before and orphan != before[path]]
    dropped = [orphan for orphan in absent if orphan.shown.path in shown and not orphan.is_adopted]
    young = any(map(is_young, now.values()))
    settled = not (young or added or written or missing or dropped)
    return OrphanChanges(added, [*written, *missing], dropped, settled)
