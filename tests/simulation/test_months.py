"""Two months in which the same was done are the same to the byte, however closely one looked."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from service.domain.clock import HOUR
from service.domain.period import period_of
from service.store.engine import make_engine
from tests.databases import fresh_database
from tests.simulation.month import Month, Pace_

CLOSELY = Pace_(looks=900, meters=900)
RARELY = Pace_(looks=3_600, meters=12 * HOUR, dies_on=frozenset({3, 4, 11, 25, 29}))


@contextmanager
def lived(folder: Path, pace: Pace_) -> Iterator[Month]:
    """The month, over; what stands in its books can be asked for."""
    with fresh_database("sqlite", folder) as address:
        engine = make_engine(address)

        @event.listens_for(engine, "connect")
        def connect(connection, _):
            connection.execute("PRAGMA synchronous=off")

        month = Month(engine, pace)
        connection_clock(engine, month)
        month.live()
        yield month
        engine.dispose()
