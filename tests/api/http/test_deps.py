"""A route gets the service that its parameter names."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from service.api.http import deps

SERVICES = {
    name: get_args(found)
    for name, found in vars(deps).items()
    if name.endswith("Dep") and name != "VersionDep"
}


def test_there_are_dependencies():
    assert len(SERVICES) > 20


@pytest.mark.parametrize("name", SERVICES)
def test_a_dependency_gives_the_service_of_its_type(name, services):
    kind, dependency = SERVICES[name]
    request: Any = SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(services=services)))
    assert type(asyncio.run(dependency.dependency(request))) is kind
