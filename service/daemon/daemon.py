"""Gives every controller its turn for each project whose lease this daemon holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from service.controllers.base import Controller
from service.controllers.inventory.inventory import InventoryController
from service.daemon.crew import Act, TakesTurns, WorkerPool
from service.daemon.first_looks import FirstLooks
from service.daemon.leaseholder import LEASE_SECONDS, Leaseholder
from service.daemon.timers import SchedulerTimers, Timers
from service.domain.database_clock import AgreedClock
from service.domain.errors import LeaseLost, StewardError
from service.domain.lease import Lease
from service.store.unit import Units

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How often it is looked who has waited for long enough, and which turns are slow."""
LISTEN_SECONDS = 0.25
"""How often it is looked whether a lease has come free."""
RELEASE_SECONDS = 2.0
"""How long a daemon that ends waits for the database to take its leases back."""
END_SECONDS = 2.0
"""How long turns under way may take to end, once the leases are given back."""


@dataclass(frozen=True, slots=True)
class Drive:
    """What a daemon is driven by: in a process, by threads and by timers."""

    timers: Timers = field(default_factory=SchedulerTimers)
    workers: Callable[[Act], TakesTurns] = WorkerPool
    first_looks: FirstLooks = field(default_factory=FirstLooks)
    holder: str = ""
    """The name under which it holds leases; of the machine, where it is empty."""


class Daemon:
    """Runs each controller at its period, for each project.

    A process calls `run`, which goes on until it is told to stop. A test can take the same steps
    one by one: `begin`, then `listen` and `look` again and again, then `end`.
    """

    def __init__(
        self,
        units: Units,
        projects: Sequence[str],
        controllers: Mapping[int, Sequence[Controller]],
        clock: AgreedClock | None = None,
        *,
        lease_units: Units | None = None,
        drive: Drive | None = None,
    ) -> None:
        drive = drive or Drive()
        self._clock = clock or AgreedClock()
        self._controllers = [one for some in controllers.values() for one in some]
        looking = [one for one in self._controllers if isinstance(one, InventoryController)]
        looked_at: Mapping[str, int] = looking[0].looked_at if looking else {}
        self._first_looks = drive.first_looks if looking else None
        units = lease_units or units
        self._leases = Leaseholder(units, projects, looked_at, self._clock, drive.holder)
        self._renewed_at = self._clock.monotonic()
        self._crew = drive.workers(self.tick)
        self._deferred: dict[tuple[str, str], tuple[Controller, Lease]] = {}
        self._lock = threading.Lock()
        self._timers = drive.timers
        for period, some in controllers.items():
            for controller in some:
                self._timers.every(period, partial(self._offer_all, controller))

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self.begin()
        threading.Thread(target=self._keep, args=[stop], name="leases", daemon=True).start()
        while not stop.wait(LOOK_SECONDS):
            self.look()
        self.end()

    def begin(self) -> None:
        """Take the leases that are free, and do what there is to do."""
        self._renew()
        self._timers.start()

    def _keep(self, stop: threading.Event) -> None:
        """Look after the leases, on a thread that does nothing else, so that nothing keeps it."""
        while not stop.wait(LISTEN_SECONDS):
            try:
                self.listen()
            except Exception:  # the thread lives on: nobody else would renew the leases
                log.exception("lease.broke")

    def listen(self) -> None:
        """Renew the leases where that is due, or where one has come free."""
        is_due = self._clock.monotonic() - self._renewed_at >= LEASE_SECONDS / 3
        if not is_due and not self._leases.is_any_free():
            return
        self._renewed_at = self._clock.monotonic()
        if self._clock.has_jumped:
            self._wake()
        self._renew()

    def look(self) -> None:
        """Offer again what waits for a first look, and see which turns are slow."""
        self._offer_deferred()
        self._crew.look()

    def end(self) -> None:
        """Stop. The leases are given back first, so that another daemon acts at once; calls under
        way are given up if they take longer than seconds."""
        self._crew.stop()
        self._crew.within(RELEASE_SECONDS, self._leases.release)
        self._timers.stop()
        for project, controller in self._crew.wait(END_SECONDS):
            log.info("daemon.given_up", project=project, controller=controller)

    def _renew(self) -> None:
        """Renew the leases. Where one is new, everything is to be done now, in whatever state the
        daemon before left it."""
        taken = self._leases.renew()
        if self._first_looks is not None:
            self._first_looks.keep(self._leases.held())
        for lease in taken:
            for controller in self._controllers:
                self._offer(controller, lease)

    def _wake(self) -> None:
        """Have everything done now: by a clock that was set back nothing would be due for long."""
        log.warning("clock.jumped")
        self._timers.wake()

    def _offer_all(self, controller: Controller) -> None:
        for lease in self._leases.held():
            self._offer(controller, lease)

    def _offer(self, controller: Controller, lease: Lease) -> None:
        """Have a turn taken, or kept for when the first look at its project is over."""
        looks = self._first_looks
        if looks is None or isinstance(controller, InventoryController) or looks.is_over(lease):
            self._crew.offer(controller, lease)
            return
        with self._lock:
            self._deferred[lease.project, controller.name] = controller, lease

    def _offer_deferred(self) -> None:
        """Offer again what waits for a first look; those that still have to are kept again."""
        with self._lock:
            waiting, self._deferred = list(self._deferred.values()), {}
        for controller, lease in waiting:
            self._offer(controller, lease)

    def tick(self, controller: Controller, lease: Lease) -> None:
        """One turn; what goes wrong is told, and tried again at the next one."""
        if lease not in self._leases.held():
            return  # it was another's meanwhile
        try:
            controller.tick(lease)
        except LeaseLost as error:
            log.info("tick.lease_lost", **_named(controller, lease), reason=str(error))
        except StewardError as error:
            log.warning("tick.failed", **_named(controller, lease), reason=str(error))
        except Exception:
            log.exception("tick.broke", **_named(controller, lease))
        looks = self._first_looks
        if looks is not None and isinstance(controller, InventoryController) and looks.done(lease):
            self._offer_deferred()


def _named(controller: Controller, lease: Lease) -> dict[str, str]:
    return {"controller": controller.name, "project": lease.project}
