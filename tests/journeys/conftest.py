"""A house for all the journeys in which no part of it dies: it is started once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.journeys.house import House


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """What is learned of a place here, every journey knows; so each has zones of its own."""
    made = House(tmp_path_factory.mktemp("home"), speed=20)
    made.configure(strict_runtimes=True)
    yield made
    made.stop()
