"""How the daemon is put together: what the cleanup learns from other controllers."""

from __future__ import annotations

from typing import Any

import pytest

from service import wiring
from service.controllers.orphans.orphans import OrphanController
from service.settings import Settings
from service.store.pricebook import PriceBookCache
from tests import garbage
from tests.factories import PROJECT
from tests.fakes import FakeCloud


def test_the_cleanup_knows_from_the_orphan_collector_that_a_project_has_shrunk(
    units, engine, clock, monkeypatch: pytest.MonkeyPatch
):
    told = []
    monkeypatch.setattr(wiring, "build_idle_controller", lambda *parts: told.append(parts[-1]))
    no_file: Any = {"_env_file": None}
    settings = Settings(projects=(PROJECT,), emulator="127.0.0.1:9", **no_file)
    base = wiring.Foundation(settings, engine, units, PriceBookCache(), clock)
    cloud: Any = FakeCloud(clock)
    ports = wiring.CloudPorts(cloud, cloud, cloud, monitoring=cloud, registry=cloud)
    periods = wiring.build_controllers(base, ports)
    (collector,) = [
        controller
        for some in periods.values()
        for controller in some
        if isinstance(controller, OrphanController)
    ]
    with units() as unit:
        lease = unit.leases.take(PROJECT, "one", 36_000)
    assert lease is not None
    (is_shrunk,) = told
    for nodes, expected in ((8, False), (4, True)):
        found = [garbage.cloud_node(f"n-{number}") for number in range(nodes)]
        clock.pass_(15)
        collector.on_inventory(garbage.inventory(*found), garbage.queue(), lease, clock())
        assert is_shrunk(lease) is expected
