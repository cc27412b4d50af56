"""Google's client as a mock that knows the real signatures, and our adapter over it."""

from __future__ import annotations

from typing import Any
from unittest.mock import create_autospec

import pytest
from google.cloud import tpu_v2

from service.cloud.google.tpus import GoogleTpus
from service.cloud.pace import Pace


@pytest.fixture
def client() -> Any:
    return create_autospec(tpu_v2.TpuClient, instance=True, spec_set=True)


@pytest.fixture
def tpus(client: Any) -> GoogleTpus:
    return GoogleTpus(client, Pace(lambda: 0.0))
