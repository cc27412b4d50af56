"""Takes and keeps the leases of the projects: a daemon acts only for those whose lease it holds."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Mapping, Sequence

import structlog

from service.application.timekeeping import Timekeeper
from service.domain.database_clock import AgreedClock
from service.domain.errors import StewardError
from service.domain.lease import Lease
from service.store.unit import Units

log = structlog.get_logger()

LEASE_SECONDS = 10
"""How long a daemon that died keeps its projects from another; renewed at a third of it."""


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
        self._timekeeper = Timekeeper(units, self._clock)
        self._holder = holder or f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._held: dict[str, tuple[Lease, float]] = {}
        self._lock = threading.Lock()
        self._renewing = threading.Lock()
        self._is_over = False

    def renew(self) -> list[Lease]:
        """Renew what is held, all in one transaction, and take what is free, one by one. What
        cannot be renewed is held until its time is over. Answers what is held now and was not."""
        with self._renewing:
            before = set(self.held())
            if not self._is_over:
                self._renew()
            return [lease for lease in self.held() if lease not in before]

    def _renew(self) -> None:
        started = self._clock.monotonic()
        try:
            with self._units() as unit:
                leases = {
                    project: unit.leases.renew(
                        project, self._holder, LEASE_SECONDS, self._looked_at.get(project, 0)
                    )
                    for project in self._projects
                }
                self._timekeeper.set(unit)
                free = unit.leases.free([of for of, lease in leases.items() if lease is None])
        except StewardError as error:
            log.warning("lease.not_renewed", reason=str(error))
            self._drop_overdue()
            return
        with self._lock:
            for project, lease in leases.items():
                self._note(project, lease, started + LEASE_SECONDS)
        for project in free:
            if self._is_over or self._clock.monotonic() - started > LEASE_SECONDS / 4:
                break  # what is held is to be renewed first
            self._take(project)

    def is_any_free(self) -> bool:
        """Whether nobody looks after a project that another daemon looked after. It is only read,
        so it can be asked often: the sooner it is seen that a daemon died, the sooner what it did
        goes on."""
        held = {lease.project for lease in self.held()}
        others = [project for project in self._projects if project not in held]
        if not others or self._is_over:
            return False
        try:
            with self._units.reading() as unit:
                return bool(unit.leases.free(others))
        except StewardError:
            return False  # the next renewal says what is wrong

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
        """Let others take over at once, and take no lease any more. What the database does not
        take back runs out by itself."""
        with self._lock:
            leases = [lease for lease, _ in self._held.values()]
            self._is_over = True
            self._held.clear()
        with self._renewing:  # a renewal under way would take them again
            try:
                with self._units() as unit:
                    for lease in leases:
                        unit.leases.release(lease)
            except StewardError as error:
                log.warning("lease.not_released", reason=str(error))

    def _note(self, project: str, lease: Lease | None, deadline: float) -> None:
        before = self._held.pop(project, None)
        if lease is not None and not self._is_over:
            self._held[project] = lease, deadline
        if (before is None) != (lease is None):
            log.info("lease.held" if lease else "lease.lost", project=project)
