"""Gives every controller its turn for each project whose lease this daemon holds."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from service.controllers.base import Controller
from service.controllers.inventory import InventoryController
from service.daemon.crew import Crew
from service.daemon.first_looks import FirstLooks
from service.daemon.leaseholder import LEASE_SECONDS, Leaseholder
from service.domain.agreed_clock import AgreedClock
from service.domain.clock import wall_clock
from service.domain.errors import LeaseLost, StewardError
from service.domain.lease import Lease
from service.store.unit import Units

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How often it is looked who has waited for long enough, and which turns are slow."""
LISTEN_SECONDS = 0.25
"""How often it is looked whether a lease has come free."""
END_SECONDS = 2.0
"""How long turns under way may take to end, once the leases are given back."""


class Daemon:
    """Runs each controller at its period, for each project, until the daemon is told to stop."""

    def __init__(
        self,
        units: Units,
        projects: Sequence[str],
        controllers: Mapping[int, Sequence[Controller]],
        clock: AgreedClock | None = None,
        *,
        lease_units: Units | None = None,
        first_looks: FirstLooks | None = None,
    ) -> None:
        self._clock = clock or AgreedClock()
        self._controllers = [one for some in controllers.values() for one in some]
        looking = [one for one in self._controllers if isinstance(one, InventoryController)]
        looked_at: Mapping[str, int] = looking[0].looked_at if looking else {}
        self._first_looks = (first_looks or FirstLooks()) if looking else None
        self._leases = Leaseholder(lease_units or units, projects, looked_at, self._clock)
        self._crew = Crew(self.tick)
        self._deferred: dict[tuple[str, str], tuple[Controller, Lease]] = {}
        self._lock = threading.Lock()
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": ThreadPoolExecutor(1)},  # it only offers turns to the crew
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )
        at_once = datetime.fromtimestamp(wall_clock(), UTC)
        for period, some in controllers.items():
            for controller in some:
                self._scheduler.add_job(
                    self._offer_all, "interval", [controller], seconds=period, next_run_time=at_once
                )

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set. Then the leases are given back first, so that another daemon
        acts at once; calls under way are given up if they take longer than seconds."""
        self._renew()
        self._scheduler.start()
        threading.Thread(target=self._keep, args=[stop], name="leases", daemon=True).start()
        while not stop.wait(LOOK_SECONDS):
            self._offer_deferred()
            self._crew.look()
        self._crew.stop()
        self._leases.release()
        self._scheduler.shutdown(wait=False)
        for project, controller in self._crew.wait(END_SECONDS):
            log.info("daemon.given_up", project=project, controller=controller)

    def _keep(self, stop: threading.Event) -> None:
        """Renew the leases, and take those that come free; on a thread that does nothing else, so
        that nothing keeps it."""
        renewed_at = self._clock.monotonic()
        while not stop.wait(LISTEN_SECONDS):
            try:
                is_due = self._clock.monotonic() - renewed_at >= LEASE_SECONDS / 3
                if not is_due and not self._leases.is_any_free():
                    continue
                renewed_at = self._clock.monotonic()
                if self._clock.has_jumped:
                    self._wake()
                self._renew()
            except Exception:  # the thread lives on: nobody else would renew the leases
                log.exception("lease.broke")

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
        """Have everything done now: the timers go by this machine's clock, and where that was set
        back, they would wait until it has caught up."""
        log.warning("clock.jumped")
        now = datetime.fromtimestamp(wall_clock(), UTC)
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=now)

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
