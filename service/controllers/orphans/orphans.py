"""Finds what is in the cloud and not in our books, and deletes what is proved to be our garbage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from service.cloud.ports import Inventory, Queue, TpuCloud
from service.controllers.lifecycle.context import Installation
from service.controllers.orphans.deletion import OrphanDeletion
from service.controllers.orphans.diff import OrphanChanges, OrphanLook, changes, names
from service.controllers.orphans.queue_models import QueueModels
from service.domain.clock import DAY, Clock
from service.domain.errors import CloudError, StaleVersion, StewardError
from service.domain.lease import Lease
from service.domain.lifecycle.lifecycle import retry_delay
from service.domain.money import usd
from service.domain.orphans.fleet_watch import Blind, FleetWatch, watched
from service.domain.orphans.orphan import DELETE, STEWARD, Orphan, OrphanVerdict, hourly_cost
from service.domain.orphans.verdict import allowance, verdict
from service.store.nodes import Fingerprint
from service.store.orphans import Orphans
from service.store.pricebook import PriceShelf
from service.store.unit import Units

log = structlog.get_logger()

BATCH = 200
"""Orphans written in one transaction, and the most that are asked for by name in one tick."""

TOLD = 100
"""Orphans that are told of one by one when they are first seen in the same look."""

KEPT_SECONDS = 30 * DAY
"""How long one that is gone can still be looked up."""

_LONGEST_ERROR = 500

Sight = tuple[bytes, bytes, Blind, Fingerprint]
"""All that a look and the books can change about orphans: both digests, the blind zones, and the
fingerprint of the records."""


class GarbageController:
    """An onlooker of the inventory, which remembers what it saw; and a tick of its own, which acts.

    What it has in memory belongs to one lease: who takes over watches for a while before it deletes
    anything by itself (invariant I4).
    """

    name = "garbage"

    def __init__(
        self, units: Units, cloud: TpuCloud, prices: PriceShelf, clock: Clock, manners: Installation
    ) -> None:
        self._units = units
        self._prices = prices
        self._clock = clock
        self._manners = manners
        self._collecting = OrphanDeletion(units, cloud, prices, clock, manners)
        self._models = QueueModels(cloud, clock)
        self._watches: dict[str, tuple[Lease, FleetWatch]] = {}
        self._agreed: dict[str, tuple[Lease, Sight, int]] = {}

    def saw(
        self,
        inventory: Inventory,
        queue: Queue,
        lease: Lease,
        asked: int,
        stored: Fingerprint | None = None,
    ) -> None:
        """Remember what a look shows that no record accounts for. Two looks that show the same to
        the same books cost one count."""
        look, project = OrphanLook(inventory, queue, asked), lease.project
        if stored is None:
            with self._units.reading() as unit:
                stored = unit.nodes.fingerprint(project)
        sight = inventory.digest, queue.digest, look.blind, stored
        agreed = self._agreed.pop(project, None)
        if agreed is not None and agreed[:2] == (lease, sight):
            size, settled = agreed[2], True
        else:
            size, settled = len(inventory.sightings()), self._remember(look, lease)
        if settled:
            self._agreed[project] = lease, sight, size
        self._watch(look, size, lease)

    def tick(self, lease: Lease) -> None:
        """Judge those that may go by themselves, and take the next step for each that is due."""
        watch = self._watch_of(lease)
        with self._units.reading() as unit:
            certain = unit.orphans.certain(lease.project)
            left = allowance(unit.nodes.fingerprint(lease.project)[0])
        self._judge(certain, watch, left, lease)
        with self._units.reading() as unit:
            due = unit.orphans.due(lease.project, self._clock(), BATCH)
        for orphan in due:
            if orphan.by_itself:
                if left == 0:
                    continue
                left -= 1
            self._isolated(orphan, watch, lease)

    def _watch_of(self, lease: Lease) -> FleetWatch | None:
        held, watch = self._watches.get(lease.project, (None, None))
        return watch if held == lease else None

    def _watch(self, look: OrphanLook, size: int, lease: Lease) -> None:
        before, period = self._watch_of(lease), self._manners.period
        after = watched(before, look.asked, size, look.blind, period)
        self._watches[lease.project] = lease, after
        if after.is_shrunk and not (before is not None and before.is_shrunk):
            self._tell_frozen(lease.project, size, after.most)

    def _tell_frozen(self, project: str, nodes: int, before: int) -> None:
        """Log that nothing is collected for now. A warning only where that holds an orphan back:
        people who delete their last nodes have nothing to look into."""
        with self._units.reading() as unit:
            held = len(unit.orphans.certain(project))
        tell = log.warning if held else log.info
        tell("orphans.frozen", project=project, nodes=nodes, nodes_before=before, held=held)

    def _remember(self, look: OrphanLook, lease: Lease) -> bool:
        """Write down what changed; answers whether another look at the same would change nothing.

        The books are read after the look: what we ask the cloud for is in them before that.
        """
        project, manners = lease.project, self._manners
        with self._units.reading() as unit:
            live = unit.orphans.live(project)
            before = {one.shown.path: one for one in unit.orphans.known(project)}
        candidates, are_known = self._models.with_models(
            list(look.candidates(live, before)), before
        )
        with self._units.reading() as unit:
            attempts = unit.orphans.attempts(project, names(candidates))
        found = changes(look, candidates, attempts, before, manners.install, manners.period)
        written = self._write(found, lease)
        new = (*found.added, *found.written)
        self._alarm([one for one in new if one.first_seen == look.asked])
        return written and found.settled and are_known

    def _write(self, found: OrphanChanges, lease: Lease) -> bool:
        """In batches; answers whether all of it was written. What somebody else wrote meanwhile is
        compared anew at the next look."""
        todo: list[tuple[Callable[[Orphans, Orphan], object], Orphan]] = [
            *((Orphans.add, one) for one in found.added),
            *((Orphans.save, one) for one in found.written),
            *((Orphans.drop, one) for one in found.dropped),
        ]
        whole = True
        for start in range(0, len(todo), BATCH):
            try:
                with self._units(lease) as unit:
                    unit.orphans.forget(lease.project, self._clock() - KEPT_SECONDS)
                    for write, one in todo[start : start + BATCH]:
                        write(unit.orphans, one)
            except StaleVersion as error:
                log.info("orphans.not_noted", project=lease.project, reason=str(error))
                whole = False
        return whole

    def _alarm(self, new: Sequence[Orphan]) -> None:
        """Say of each that is seen for the first time what it is and what it costs."""
        if not new:
            return
        with self._units.reading() as unit:
            book = self._prices.book(unit)
        for one in new[:TOLD]:
            rate = hourly_cost(one.shown, book, self._clock())
            log.warning(
                "orphan.found",
                orphan=one.shown.path,
                kind=one.kind,
                state=one.shown.state,
                accelerator_type=one.shown.accelerator_type,
                usd_per_hour=None if rate is None else usd(rate),
                reason=one.reason,
            )
        if new[TOLD:]:
            log.warning("orphans.found", project=new[0].project, more=len(new) - TOLD)

    def _judge(
        self, certain: Sequence[Orphan], watch: FleetWatch | None, most: int, lease: Lease
    ) -> None:
        """Write down what is thought of each now; at most so many are chosen to go."""
        now, chosen = self._clock(), 0
        changed: list[Orphan] = []
        for one in certain:
            judged, reason = verdict(one, watch, now)
            after = replace(one, verdict=judged, reason=reason)
            if judged is OrphanVerdict.COLLECT and not one.to_be_deleted and chosen < most:
                chosen += 1
                after = replace(after, wanted=DELETE, asked_by=STEWARD, next_try_at=now)
            if after != one:
                changed.append(after)
        self._write(OrphanChanges((), changed, (), settled=False), lease)

    def _isolated(self, orphan: Orphan, watch: FleetWatch | None, lease: Lease) -> None:
        """A failure is written down and tried again later, ever later but for ever; the others go
        on."""
        try:
            self._collecting.act(orphan, watch, lease)
        except StaleVersion as error:
            log.debug("orphan.overtaken", orphan=orphan.shown.path, reason=str(error))
        except CloudError as error:
            wait = error.facts.get("retry_after")
            self._note(orphan, str(error), lease, wait if isinstance(wait, int) else None)
        except StewardError:
            raise  # no database, or no lease: nothing else would fare better
        except Exception as error:  # one that is poisoned must not keep the others from their turn
            log.exception("orphan.failed", orphan=orphan.shown.path)
            self._note(orphan, f"internal error: {type(error).__name__}", lease, None)

    def _note(self, orphan: Orphan, reason: str, lease: Lease, wait: int | None) -> None:
        later = self._clock() + (retry_delay(orphan.tries) if wait is None else wait)
        log.warning("orphan.not_deleted", orphan=orphan.shown.path, reason=reason)
        after = replace(
            orphan,
            tries=orphan.tries + 1,
            next_try_at=later,
            last_error=reason[:_LONGEST_ERROR],
        )
        self._write(OrphanChanges((), [after], (), settled=False), lease)
