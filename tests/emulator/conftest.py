"""Fixtures of the emulator's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from service.emulator.app import Emulator, build_world, run_in_thread
from tests.emulator.factories import Cloud, Web


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture(scope="session")
def served() -> Iterator[Emulator]:
    """One served emulator for all tests: a node is READY after a hundredth of a second."""
    with run_in_thread(build_world(speed=2000)) as emulator:
        yield emulator


@pytest.fixture
def emulator(served: Emulator) -> Iterator[Emulator]:
    """The served emulator as if it were new; the next test finds nothing of this one."""
    Web(served.rest_url).ask("POST", "/_emulator/reset")
    yield served
    Web(served.rest_url).ask("POST", "/_emulator/reset")


@pytest.fixture
def web(emulator: Emulator) -> Web:
    return Web(emulator.rest_url)
