"""Commands are given under the lease alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from service.controllers.base import cloud_under_lease
from service.domain.errors import LeaseLost
from service.domain.nodes.node import CloudNode, Node, Place
from tests.controllers.conftest import Lab
from tests.fakes import COMMANDS, NoLeaseCheck, OutsideTransactions


def _stop(lab: Lab) -> Node:
    node = lab.up()
    lab.nodes.stop(node.id)
    return node


def _start(lab: Lab) -> Node:
    node = _stop(lab)
    lab.tick()
    lab.cloud.settle()
    lab.tick()
    lab.nodes.start(node.id)
    return node


def _delete(lab: Lab) -> Node:
    node = lab.up()
    lab.nodes.delete(node.id)
    return node


@pytest.mark.parametrize("ask", [_stop, _start, _delete])
def test_who_loses_the_lease_while_it_looks_commands_nothing(
    lab: Lab, ask: Callable[[Lab], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(lab)
    before, get = lab.lease, lab.cloud.get

    def slow(place: Place) -> CloudNode:
        with lab.units() as unit:
            unit.leases.release(before)
            assert unit.leases.take(before.project, "second", 3_600)
        return get(place)

    lab.cloud.calls.clear()
    lab.clock.pass_(60)
    monkeypatch.setattr(lab.cloud, "get", slow)
    with pytest.raises(LeaseLost):
        lab.lifecycle.tick(before)
    assert not COMMANDS & {verb for verb, _ in lab.cloud.calls}


def test_the_lease_is_looked_at_for_each_command(lab: Lab) -> None:
    assert cloud_under_lease(lab.cloud, lab.units, lab.lease) is lab.cloud
    old = lab.lease
    lab.start_daemon("second")
    with pytest.raises(LeaseLost):
        cloud_under_lease(lab.cloud, lab.units, old)


def test_a_command_without_a_look_at_the_lease_fails_every_test(lab: Lab) -> None:
    """The cloud of these tests sees it, so that no command has to be tried by itself."""
    cloud: Any = OutsideTransactions(lab.cloud, lab.engine)
    place = lab.up().place
    with pytest.raises(NoLeaseCheck):
        cloud.delete(place)
    cloud_under_lease(cloud, lab.units, lab.lease).delete(place)
    with pytest.raises(NoLeaseCheck):
        cloud.delete(place)
