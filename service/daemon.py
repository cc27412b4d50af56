"""The daemon: one timer per controller, acting for a project only while it holds the lease."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from service.controllers.base import Controller
from service.controllers.inventory import InventoryController
from service.domain.agreed_clock import TOLERANCE_SECONDS, AgreedClock
from service.domain.clock import wall_clock
from service.domain.errors import StewardError
from service.domain.lease import Lease
from service.store.unit import Unit, Units

log = structlog.get_logger()

LEASE_SECONDS = 10
"""How long a daemon that died keeps its projects from another; renewed at a third of it."""


FIRST_LOOK_SECONDS = 30
"""How long everybody else waits for the first look at a project that was just taken over: what it
shows of the time before comes first. A cloud that gives no answer must not keep a deletion waiting
for longer."""


class FirstLook:
    """Holds the others back until the inventory has had its turn, once for each lease."""

    def __init__(self, seconds: float = FIRST_LOOK_SECONDS) -> None:
        self._seconds = seconds
        self._taken: dict[tuple[str, int], threading.Event] = {}
        self._lock = threading.Lock()
        self._over = False

    def wait(self, lease: Lease) -> None:
        """Come back once the first look was tried, or has taken too long."""
        event = self._of(lease)
        if not event.wait(self._seconds):
            log.warning("daemon.first_look_is_slow", project=lease.project)
            event.set()

    def done(self, lease: Lease) -> None:
        """It was tried, whatever came of it."""
        self._of(lease).set()

    def end(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._over = True
            for event in self._taken.values():
                event.set()

    def _of(self, lease: Lease) -> threading.Event:
        with self._lock:
            event = self._taken.setdefault((lease.project, lease.epoch), threading.Event())
            if self._over:
                event.set()
            return event


class Leaseholder:
    """Takes and keeps the leases of the projects, and knows which are held now."""

    def __init__(
        self,
        units: Units,
        projects: Sequence[str],
        looked_at: Mapping[str, int],
        clock: AgreedClock | None = None,
        holder: str = "",
    ) -> None:
        self._units = units
        self._projects = projects
        self._looked_at = looked_at
        self._clock = clock or AgreedClock()
        self._ahead = 0.0
        self._holder = holder or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._held: dict[str, tuple[Lease, float]] = {}
        self._lock = threading.Lock()

    def renew(self) -> None:
        """Renew what is held, all in one transaction, and take what is free, one by one. What
        cannot be renewed is held until its time is over."""
        started = self._clock.monotonic()
        try:
            with self._units() as unit:
                leases = {
                    project: unit.leases.renew(
                        project, self._holder, LEASE_SECONDS, self._looked_at.get(project, 0)
                    )
                    for project in self._projects
                }
                self._set_clock(unit)
                free = unit.leases.free(self._projects)
        except StewardError as error:
            log.warning("lease.not_renewed", reason=str(error))
            self._drop_overdue()
            return
        with self._lock:
            for project, lease in leases.items():
                self._note(project, lease, started + LEASE_SECONDS)
        for project in free:
            if self._clock.monotonic() - started > LEASE_SECONDS / 4:
                break  # what is held is to be renewed first
            self._take(project)

    def _take(self, project: str) -> None:
        """Take one lease that nobody holds."""
        deadline = self._clock.monotonic() + LEASE_SECONDS
        looked_at = self._looked_at.get(project, 0)
        try:
            with self._units() as unit:
                lease = unit.leases.take(project, self._holder, LEASE_SECONDS, looked_at)
        except StewardError as error:
            log.warning("lease.not_taken", project=project, reason=str(error))
            return
        with self._lock:
            self._note(project, lease, deadline)

    def _drop_overdue(self) -> None:
        """Forget the leases that were not renewed in time."""
        now = self._clock.monotonic()
        with self._lock:
            for project, (_, deadline) in list(self._held.items()):
                if now >= deadline:
                    self._note(project, None, deadline)

    def held(self) -> list[Lease]:
        """The leases held now. One that was not renewed in time by this process's own clock is not
        held, whatever the database says: a daemon that was asleep must not act on waking."""
        now = self._clock.monotonic()
        with self._lock:
            return [lease for lease, deadline in self._held.values() if now < deadline]

    def release(self) -> None:
        """Let others take over at once."""
        for lease in self.held():
            try:
                with self._units() as unit:
                    unit.leases.release(lease)
            except StewardError as error:
                log.warning("lease.not_released", project=lease.project, reason=str(error))

    def _set_clock(self, unit: Unit) -> None:
        """Go by the database's clock from now on, and say so where this machine's is wrong. An
        answer that was long under way tells nothing."""
        asked = self._clock.monotonic()
        theirs = unit.leases.now()
        if self._clock.monotonic() - asked > TOLERANCE_SECONDS:
            return
        ahead = self._clock.agree(theirs)
        if abs(ahead - self._ahead) > TOLERANCE_SECONDS:
            log.warning("clock.differs", seconds_ahead_of_the_database=round(ahead))
            self._ahead = ahead

    def _note(self, project: str, lease: Lease | None, deadline: float) -> None:
        before = self._held.pop(project, None)
        if lease is not None:
            self._held[project] = lease, deadline
        if (before is None) != (lease is None):
            log.info("lease.held" if lease else "lease.lost", project=project)


class Daemon:
    """Runs controllers at their periods until it is told to stop."""

    def __init__(
        self,
        units: Units,
        projects: Sequence[str],
        controllers: Mapping[int, Sequence[Controller]],
        clock: AgreedClock | None = None,
        *,
        lease_units: Units | None = None,
    ) -> None:
        self._clock = clock or AgreedClock()
        looked_at: Mapping[str, int] = {}
        self._first_look: FirstLook | None = None
        for controller in (c for some in controllers.values() for c in some):
            if isinstance(controller, InventoryController):
                looked_at, self._first_look = controller.looked_at, FirstLook()
        self._leases = Leaseholder(lease_units or units, projects, looked_at, self._clock)
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            # A thread for each, so that a slow cloud never keeps the lease from being renewed.
            executors={"default": ThreadPoolExecutor(sum(map(len, controllers.values())) + 1)},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        self._scheduler.add_job(self._leases.renew, "interval", seconds=LEASE_SECONDS / 3)
        at_once = datetime.fromtimestamp(wall_clock(), UTC)
        for period, some in controllers.items():
            for controller in some:
                self._scheduler.add_job(
                    self.tick, "interval", [controller], seconds=period, next_run_time=at_once
                )

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then finish what is in hand and give the leases back."""
        self._leases.renew()
        self._scheduler.start()
        while not stop.wait(LEASE_SECONDS / 3):
            if self._clock.has_jumped:
                self._wake()
        if self._first_look is not None:
            self._first_look.end()
        self._scheduler.shutdown(wait=True)
        self._leases.release()

    def _wake(self) -> None:
        """Have everything done now: the timers go by this machine's clock, and where that was set
        back, they would wait until it has caught up."""
        log.warning("clock.jumped")
        now = datetime.fromtimestamp(wall_clock(), UTC)
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=now)

    def tick(self, controller: Controller) -> None:
        """One tick for each project that is ours; what goes wrong is told, and tried again."""
        looks = isinstance(controller, InventoryController)
        for lease in self._leases.held():
            if self._first_look is not None and not looks:
                self._first_look.wait(lease)
                if lease not in self._leases.held():
                    continue  # it was another's turn meanwhile
            try:
                controller.tick(lease)
            except StewardError as error:
                log.warning(
                    "tick.failed",
                    controller=controller.name,
                    project=lease.project,
                    reason=str(error),
                )
            except Exception:
                log.exception("tick.broke", controller=controller.name, project=lease.project)
            if self._first_look is not None and looks:
                self._first_look.done(lease)
