"""Google's client as a mock that knows the real signatures, with our adapter over it; and an
emulator for what mocks cannot show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import create_autospec

import pytest
from google.cloud import tpu_v2

from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.emulator.app import Emulator, run_in_thread
from tests.cloud.google.emulated import Cloud


@pytest.fixture
def client() -> Any:
    return create_autospec(tpu_v2.TpuClient, instance=True, spec_set=True)


@pytest.fixture
def tpus(client: Any) -> GoogleTpus:
    return GoogleTpus(client, Pace(lambda: 0.0))


@pytest.fixture(scope="session")
def served() -> Iterator[Emulator]:
    with run_in_thread() as emulator:
        yield emulator


@pytest.fixture
def cloud(served: Emulator) -> Cloud:
    cloud = Cloud(served)
    cloud.tell("reset")
    return cloud
