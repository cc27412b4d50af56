"""Finds orphans: cloud resources without a record. Deletes those that are proved to be ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from service.cloud.ports import Inventory, Queue, TpuCloud
from service.controllers.lifecycle.context import Installation
from service.controllers.orphans.deletion import OrphanDeletion
from service.controllers.orphans.diff import OrphanChanges, OrphanLook, collect_names, find_changes
from service.controllers.orphans.queue_models import QueueModels
from service.domain.clock import DAY, Clock
from service.domain.errors import CloudError, StaleVersion, StewardError
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay
from service.domain.money import format_usd
from service.domain.orphans.fleet_watch import Blind, FleetWatch, next_watch
from service.domain.orphans.orphan import DELETE, STEWARD, Orphan, OrphanVerdict, hourly_cost
from service.domain.orphans.verdict import deletion_limit, judge_orphan
from service.store.nodes import Fingerprint
from service.store.orphans import Orphans
from service.store.pricebook import PriceBookCache
from service.store.unit import Units

log = structlog.get_logger()

BATCH = 200
"""Orphans written in one transaction, and the most that are asked for by name in one tick."""

MOST_LOGGED = 100
"""Most new orphans of one look that are logged one by one."""

KEPT_SECONDS = 30 * DAY
"""How long an orphan that is gone can still be looked up."""

_LONGEST_ERROR = 500

Sight = tuple[bytes, bytes, Blind, Fingerprint]
"""Everything that decides about orphans: both digests, the blind zones, and the fingerprint of the
records."""


class OrphanController:
    """Records orphans as a listener of the inventory, and deletes them in its own tick.

    Its memory belongs to one lease: after a takeover the controller watches for a while before it
    deletes anything by itself (invariant I4).
    """

    name = "garbage"

    def __init__(
        self,
        units: Units,
        cloud: TpuCloud,
        prices: PriceBookCache,
        clock: Clock,
        installation: Installation,
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._installation = installation
        self._deletion = OrphanDeletion(units, cloud, prices, clock, installation)
        self._models = QueueModels(cloud, clock)
        self._watches: dict[str, tuple[Lease, FleetWatch]] = {}
        self._agreed: dict[str, tuple[Lease, Sight, int]] = {}

    def on_inventory(
        self,
        inventory: Inventory,
        queue: Queue,
        lease: Lease,
        asked: int,
        stored: Fingerprint | None = None,
    ) -> None:
        """Record the resources that no record accounts for. A second look at unchanged lists and
        records costs one count."""
        look, project = OrphanLook(inventory, queue, asked), lease.project
        if stored is None:
            with self._units.reading() as unit:
                stored = unit.nodes.read_fingerprint(project)
        sight = inventory.digest, queue.digest, look.blind_zones, stored
        agreed = self._agreed.pop(project, None)
        if agreed is not None and agreed[:2] == (lease, sight):
            size, settled = agreed[2], True
        else:
            size, settled = len(inventory.sightings()), self._record_look(look, lease)
        if settled:
            self._agreed[project] = lease, sight, size
        before = self._watch_of(lease)
        after = next_watch(before, look.asked, size, look.blind_zones, self._installation.period)
        self._watches[project] = lease, after
        if not after.is_shrunk or (before is not None and before.is_shrunk):
            return
        # Nothing is collected for now. This is a warning only if it holds an orphan back: people
        # who delete their last nodes have nothing to look into.
        with self._units.reading() as unit:
            held = len(unit.orphans.list_certain(project))
        write = log.warning if held else log.info
        write(
            "orphans.frozen", project=project, nodes=size, nodes_before=after.most_nodes, held=held
        )

    def tick(self, lease: Lease) -> None:
        """Judge the certain orphans, then take the next step for each orphan that is due."""
        watch = self._watch_of(lease)
        with self._units.reading() as unit:
            certain = unit.orphans.list_certain(lease.project)
            left = deletion_limit(unit.nodes.read_fingerprint(lease.project)[0])
        now, chosen = self._clock(), 0
        changed: list[Orphan] = []
        for orphan in certain:
            judged, reason = judge_orphan(orphan, watch, now)
            after = replace(orphan, verdict=judged, reason=reason)
            if judged is OrphanVerdict.COLLECT and not orphan.to_be_deleted and chosen < left:
                chosen += 1
                after = replace(after, wanted=DELETE, asked_by=STEWARD, next_try_at=now)
            if after != orphan:
                changed.append(after)
        self._write_changes(OrphanChanges((), changed, (), settled=False), lease)
        with self._units.reading() as unit:
            due = unit.orphans.list_due(lease.project, self._clock(), BATCH)
        for orphan in due:
            if orphan.is_automatic:
                if left == 0:
                    continue
                left -= 1
            self._act_isolated(orphan, watch, lease)

    def is_shrunk(self, lease: Lease) -> bool:
        """Whether half of the project's nodes or more went missing lately; False before the first
        complete poll under this lease."""
        watch = self._watch_of(lease)
        return watch is not None and watch.is_shrunk

    def _watch_of(self, lease: Lease) -> FleetWatch | None:
        held, watch = self._watches.get(lease.project, (None, None))
        return watch if held == lease else None

    def _record_look(self, look: OrphanLook, lease: Lease) -> bool:
        """Save the changes; returns whether another look at the same would change nothing.

        The records are read after the look: a node is recorded before it is created in the cloud.
        """
        project, installation = lease.project, self._installation
        with self._units.reading() as unit:
            live = unit.orphans.list_live_places(project)
            before = {orphan.shown.path: orphan for orphan in unit.orphans.list_known(project)}
        candidates, are_known = self._models.with_models(
            list(look.list_candidates(live, before)), before
        )
        with self._units.reading() as unit:
            attempts = unit.orphans.list_attempts(project, collect_names(candidates))
        found = find_changes(
            look, candidates, attempts, before, installation.install, installation.period
        )
        written = self._write_changes(found, lease)
        changed = (*found.added, *found.written)
        new = [orphan for orphan in changed if orphan.first_seen == look.asked]
        if new:
            with self._units.reading() as unit:
                book = self._prices.get_book(unit)
            for orphan in new[:MOST_LOGGED]:
                rate = hourly_cost(orphan.shown, book, self._clock())
                log.warning(
                    "orphan.found",
                    orphan=orphan.shown.path,
                    kind=orphan.kind,
                    state=orphan.shown.state,
                    accelerator_type=orphan.shown.accelerator_type,
                    usd_per_hour=None if rate is None else format_usd(rate),
                    reason=orphan.reason,
                )
        if new[MOST_LOGGED:]:
            log.warning("orphans.found", project=new[0].project, more=len(new) - MOST_LOGGED)
        return written and found.settled and are_known

    def _write_changes(self, found: OrphanChanges, lease: Lease) -> bool:
        """Write in batches; returns whether all was written. The next look compares again what
        another writer changed meanwhile."""
        todo: list[tuple[Callable[[Orphans, Orphan], object], Orphan]] = [
            *((Orphans.add, orphan) for orphan in found.added),
            *((Orphans.save, orphan) for orphan in found.written),
            *((Orphans.delete, orphan) for orphan in found.dropped),
        ]
        is_complete = True
        for start in range(0, len(todo), BATCH):
            try:
                with self._units(lease) as unit:
                    unit.orphans.delete_gone(lease.project, self._clock() - KEPT_SECONDS)
                    for write, orphan in todo[start : start + BATCH]:
                        write(unit.orphans, orphan)
            except StaleVersion as error:
                log.info("orphans.not_noted", project=lease.project, reason=str(error))
                is_complete = False
        return is_complete

    def _act_isolated(self, orphan: Orphan, watch: FleetWatch | None, lease: Lease) -> None:
        """Take the next step for an orphan. A failure is recorded and retried forever, with a
        growing delay; it delays no other orphan."""
        try:
            self._deletion.take_step(orphan, watch, lease)
        except StaleVersion as error:
            log.debug("orphan.overtaken", orphan=orphan.shown.path, reason=str(error))
        except CloudError as error:
            wait = error.facts.get("retry_after")
            seconds = wait if isinstance(wait, int) else None
            self._record_failure(orphan, str(error), lease, seconds)
        except StewardError:
            raise  # no database, or no lease: every other orphan would fail too
        except Exception as error:  # one poisoned orphan must not starve the others
            log.exception("orphan.failed", orphan=orphan.shown.path)
            self._record_failure(orphan, f"internal error: {type(error).__name__}", lease, None)

    def _record_failure(self, orphan: Orphan, reason: str, lease: Lease, wait: int | None) -> None:
        later = self._clock() + (retry_delay(orphan.tries) if wait is None else wait)
        log.warning("orphan.not_deleted", orphan=orphan.shown.path, reason=reason)
        after = replace(
            orphan,
            tries=orphan.tries + 1,
            next_try_at=later,
            last_error=reason[:_LONGEST_ERROR],
        )
        self._write_changes(OrphanChanges((), [after], (), settled=False), lease)
