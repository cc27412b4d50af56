"""Runs every controller for each project whose lease this daemon holds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from service.controllers.base import Controller
from service.controllers.inventory.inventory import InventoryController
from service.daemon.first_looks import FirstLooks
from service.daemon.leaseholder import LEASE_SECONDS, Leaseholder
from service.daemon.timers import SchedulerTimers, Timers
from service.daemon.turn_pool import Act, TakesTurns, TurnPool
from service.domain.database_clock import AgreedClock
from service.domain.errors import LeaseLost, StewardError
from service.domain.lease import Lease
from service.store.unit import Units

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""Seconds between two checks for deferred and slow turns."""
LISTEN_SECONDS = 0.25
"""Seconds between two checks for free leases."""
RELEASE_SECONDS = 2.0
"""Seconds that a daemon waits at its end for the database to release its leases."""
END_SECONDS = 2.0
"""Seconds that running turns have to end after the leases are released."""


@dataclass(frozen=True, slots=True)
class Drive:
    """The threads and timers that drive a daemon; tests replace them."""

    timers: Timers = field(default_factory=SchedulerTimers)
    turns: Callable[[Act], TakesTurns] = TurnPool
    first_looks: FirstLooks = field(default_factory=FirstLooks)
    holder: str = ""
    """The name of the lease holder; if empty, the host name with a random suffix."""


class Daemon:
    """Runs each controller at its period, for each project.

    A process calls `run`, which works until it is told to stop. A test can take the same steps one
    by one: `start`, then `renew_if_due` and `look` repeatedly, then `stop`.
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
        self._controllers = [controller for group in controllers.values() for controller in group]
        inventories = [each for each in self._controllers if isinstance(each, InventoryController)]
        looked_at: Mapping[str, int] = inventories[0].looked_at if inventories else {}
        self._first_looks = drive.first_looks if inventories else None
        units = lease_units or units
        self._leases = Leaseholder(units, projects, looked_at, self._clock, drive.holder)
        self._renewed_at = self._clock.monotonic()
        self._turns = drive.turns(self.tick)
        self._deferred: dict[tuple[str, str], tuple[Controller, Lease]] = {}
        self._lock = threading.Lock()
        self._timers = drive.timers
        for period, group in controllers.items():
            for controller in group:
                self._timers.call_every(period, partial(self._offer_turns, controller))

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        self.start()
        threading.Thread(target=self._keep_leases, args=[stop], name="leases", daemon=True).start()
        while not stop.wait(LOOK_SECONDS):
            self.offer_waiting()
        self.stop()

    def start(self) -> None:
        """Take the free leases, and start the timers."""
        self._renew_leases()
        self._timers.start()

    def _keep_leases(self, stop: threading.Event) -> None:
        """Renew the leases, on a thread that does nothing else, so that nothing delays it."""
        while not stop.wait(LISTEN_SECONDS):
            try:
                self.renew_if_due()
            except Exception:  # the thread goes on: no other thread renews the leases
                log.exception("lease.broke")

    def renew_if_due(self) -> None:
        """Renew the leases if that is due, or if a lease has become free."""
        is_due = self._clock.monotonic() - self._renewed_at >= LEASE_SECONDS / 3
        if not is_due and not self._leases.is_any_free():
            return
        self._renewed_at = self._clock.monotonic()
        if self._clock.has_jumped:
            # Do everything now: by a clock that was set back nothing would be due for long.
            log.warning("clock.jumped")
            self._timers.call_all()
        self._renew_leases()

    def offer_waiting(self) -> None:
        """Offer the deferred turns again, and replace slow threads."""
        self._offer_deferred()
        self._turns.replace_slow()

    def stop(self) -> None:
        """Stop. The leases are released first, so that another daemon acts at once. Running turns
        are abandoned after `END_SECONDS`."""
        self._turns.stop()
        self._turns.run_within(RELEASE_SECONDS, self._leases.release_all)
        self._timers.stop()
        for project, controller in self._turns.wait_for_running(END_SECONDS):
            log.info("daemon.given_up", project=project, controller=controller)

    def _renew_leases(self) -> None:
        """Renew the leases. Under a new lease every controller gets a turn at once, whatever the
        previous daemon left undone."""
        taken = self._leases.renew()
        if self._first_looks is not None:
            self._first_looks.keep_only(self._leases.list_held())
        for lease in taken:
            for controller in self._controllers:
                self._offer_turn(controller, lease)

    def _offer_turns(self, controller: Controller) -> None:
        for lease in self._leases.list_held():
            self._offer_turn(controller, lease)

    def _offer_turn(self, controller: Controller, lease: Lease) -> None:
        """Offer a turn, or defer it until the first look at its project is over."""
        looks = self._first_looks
        if looks is None or isinstance(controller, InventoryController) or looks.is_over(lease):
            self._turns.offer_turn(controller, lease)
            return
        with self._lock:
            self._deferred[lease.project, controller.name] = controller, lease

    def _offer_deferred(self) -> None:
        """Offer the deferred turns again; a turn that still has to wait is deferred again."""
        with self._lock:
            waiting, self._deferred = list(self._deferred.values()), {}
        for controller, lease in waiting:
            self._offer_turn(controller, lease)

    def tick(self, controller: Controller, lease: Lease) -> None:
        """Run one turn; an error is logged, and the next turn tries again."""
        if lease not in self._leases.list_held():
            return  # another daemon has held the lease meanwhile
        try:
            controller.tick(lease)
        except LeaseLost as error:
            log.info("tick.lease_lost", **_log_fields(controller, lease), reason=str(error))
        except StewardError as error:
            log.warning("tick.failed", **_log_fields(controller, lease), reason=str(error))
        except Exception:
            log.exception("tick.broke", **_log_fields(controller, lease))
        looks = self._first_looks
        if (
            looks is not None
            and isinstance(controller, InventoryController)
            and looks.mark_done(lease)
        ):
            self._offer_deferred()


def _log_fields(controller: Controller, lease: Lease) -> dict[str, str]:
    return {"controller": controller.name, "project": lease.project}
