"""Log entries in the hand: written, and found again."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError
from tests.emulator.factories import Cloud

LOG = "projects/lab/logs/mine"
GLOBAL = {"type": "global", "labels": {"project_id": "lab"}}


def found(cloud: Cloud, text: str = "", **fields) -> list[Any]:
    asked = {"resource_names": ["projects/lab"], "filter": text, "page_size": 1000, **fields}
    return list(cloud.ask("ListLogEntries", **asked).entries)


def write(cloud: Cloud, *entries, **fields):
    asked = {"log_name": LOG, "resource": GLOBAL, "entries": entries, **fields}
    return cloud.ask("WriteLogEntries", **asked)


def refusal(call, *args, **fields) -> ApiError:
    with pytest.raises(ApiError) as caught:
        call(*args, **fields)
    return caught.value
