"""Callers who ask again, with the same key, where the database was out or an answer was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from sqlalchemy import Engine

from service.application.nodes.nodes import NodeService
from service.domain.clock import Clock
from service.domain.errors import StoreUnavailable
from service.domain.lease import Lease
from service.store.pricebook import PriceBookCache
from service.store.unit import Unit, Units
from tests.simulation.clock import Agenda
from tests.simulation.database_outages import DatabaseOutages


class ShakyUnits(Units):
    """Units of work on a database that has its bad days."""

    def __init__(self, engine: Engine, outages: DatabaseOutages) -> None:
        super().__init__(engine)
        self._outages = outages

    @contextmanager
    def __call__(self, lease: Lease | None = None) -> Iterator[Unit]:
        self._outages.reach()
        with super().__call__(lease) as unit:
            yield unit
            self._outages.commit()
        self._outages.committed()

    @contextmanager
    def reading(self) -> Iterator[Unit]:
        self._outages.reach()
        with super().reading() as unit:
            yield unit


class RetryingClients:
    """Asks the service whatever it answers, until it has heard an answer."""

    def __init__(
        self,
        agenda: Agenda,
        engine: Engine,
        outages: DatabaseOutages,
        luck: Random,
        clock: Clock,
        projects: Sequence[str],
    ) -> None:
        units = ShakyUnits(engine, outages)
        self._service = NodeService(units, PriceBookCache(), clock, projects)
        self._agenda = agenda
        self._luck = luck

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        ask = getattr(self._service, verb)

        def asking(*what: Any, **more: Any) -> Any:
            while True:
                try:
                    return ask(*what, **more)
                except StoreUnavailable:
                    self._agenda.pass_(self._luck.uniform(1, 20))

        return asking
