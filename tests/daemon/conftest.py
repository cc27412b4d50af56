"""The daemon's tests use the laboratory of the controllers, and no command goes unchecked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from service.store.unit import Units
from tests.controllers.conftest import Lab
from tests.fakes import LEASE_CHECKS, FakeCloud
from tests.hands import HandClock


@pytest.fixture(autouse=True)
def lease_checks() -> Iterator[None]:
    """Every command of every controller is given after a look at the lease."""
    with LEASE_CHECKS.watch():
        yield


@pytest.fixture
def lab(units: Units, engine: Engine, clock: HandClock) -> Lab:
    """A laboratory on an empty database."""
    return Lab(units, engine, clock, FakeCloud(clock))
