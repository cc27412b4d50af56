"""Takes and renews the leases of projects: a daemon acts only for projects whose lease it holds."""

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
"""Seconds for which a dead daemon still holds its projects; leases are renewed at a third of it."""


class Leaseholder:
    """Takes and renews the leases of projects, and knows which are held now."""

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
        """Renew the held leases in one transaction, and take free leases one by one. A lease that
        cannot be renewed is held until it expires. Returns the newly held leases."""
        with self._renewing:
            before = set(self.list_held())
            if not self._is_over:
                self._renew_leases()
            return [lease for lease in self.list_held() if lease not in before]

    def _renew_leases(self) -> None:
        started = self._clock.monotonic()
        try:
            with self._units() as unit:
                leases = {
                    project: unit.leases.renew(
                        project, self._holder, LEASE_SECONDS, self._looked_at.get(project, 0)
                    )
                    for project in self._projects
                }
                self._timekeeper.set_clock_in(unit)
                not_held = [project for project, lease in leases.items() if lease is None]
                free = unit.leases.list_free(not_held)
        except StewardError as error:
            log.warning("lease.not_renewed", reason=str(error))
            now = self._clock.monotonic()
            with self._lock:
                overdue = [(project, end) for project, (_, end) in self._held.items() if now >= end]
                for project, end in overdue:
                    self._set_lease(project, None, end)
            return
        with self._lock:
            for project, lease in leases.items():
                self._set_lease(project, lease, started + LEASE_SECONDS)
        for project in free:
            if self._is_over or self._clock.monotonic() - started > LEASE_SECONDS / 4:
                break  # the held leases have to be renewed first
            deadline = self._clock.monotonic() + LEASE_SECONDS
            looked_at = self._looked_at.get(project, 0)
            try:
                with self._units() as unit:
                    lease = unit.leases.take(project, self._holder, LEASE_SECONDS, looked_at)
            except StewardError as error:
                log.warning("lease.not_taken", project=project, reason=str(error))
                continue
            with self._lock:
                self._set_lease(project, lease, deadline)

    def is_any_free(self) -> bool:
        """Whether the lease of another daemon's project is free. The check only reads, so it can
        run often: a takeover follows soon after a daemon has died."""
        held = {lease.project for lease in self.list_held()}
        others = [project for project in self._projects if project not in held]
        if not others or self._is_over:
            return False
        try:
            with self._units.reading() as unit:
                return bool(unit.leases.list_free(others))
        except StewardError:
            return False  # the next renewal says what is wrong

    def list_held(self) -> list[Lease]:
        """The leases held now. A lease that was not renewed in time by this process's own clock is
        not held, whatever the database says: a suspended daemon must not act when it resumes."""
        now = self._clock.monotonic()
        with self._lock:
            return [lease for lease, deadline in self._held.values() if now < deadline]

    def release_all(self) -> None:
        """Release the leases so that other daemons take over at once, and take no more leases. A
        lease that the database does not release expires by itself."""
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

    def _set_lease(self, project: str, lease: Lease | None, deadline: float) -> None:
        before = self._held.pop(project, None)
        if lease is not None and not self._is_over:
            self._held[project] = lease, deadline
        if (before is None) != (lease is None):
            log.info("lease.held" if lease else "lease.lost", project=project)
