"""Budgets delete nothing before the log was heard, and wait for it no longer than they should."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from service.application.budgets.budgets import BudgetService
from service.controllers.budgets.budgets import BudgetController
from service.controllers.inventory.audit_log import PAUSE, EvidenceController
from service.domain.budgets.budget import OnExceeded
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR, MINUTE
from service.domain.errors import CloudUnavailable, NotAllowed
from service.domain.evidence.audit_log import PATIENCE
from service.domain.money import NANOS
from service.domain.nodes.node import Asked, NodeState
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.controllers.conftest import Lab
from tests.fakes import FakeHistory


def lost(lab: Lab) -> tuple[str, int]:
    """A spot node that was preempted between two looks: its full name, and the instant."""
    lab.up(provisioning_model=ProvisioningModel.SPOT)
    path = lab.cloud.only
    lab.tick(HOUR)
    lab.clock.pass_(8)
    lab.cloud.become(NodeState.PREEMPTED)
    preempted = lab.clock()
    lab.tick(22)
    return path, preempted


def unheard(lab: Lab) -> bool:
    """Whether budgets still wait for the log."""
    with lab.units.reading() as unit:
        return list(unit.leases.list_waiting_for_log()) == [lab.lease.project]


def test_who_takes_over_is_waited_for_until_the_log_has_answered_him(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    """The order of a daemon that was down for hours: a look, the log, and only then a budget."""
    path, preempted = lost(lab)
    log.write(path, preempted)
    assert unheard(lab)
    evidence.tick(lab.lease)
    assert not unheard(lab)
    lab.start_daemon("second")
    assert unheard(lab)
    lab.listener(log).tick(lab.lease)
    assert not unheard(lab)


def test_a_daemon_that_gets_its_lease_back_is_waited_for_once_more(
    lab: Lab, evidence: EvidenceController
) -> None:
    evidence.tick(lab.lease)
    assert not unheard(lab)
    for holder in ("second", "first"):
        lab.start_daemon(holder)
    assert unheard(lab)
    evidence.tick(lab.lease)
    assert not unheard(lab)


def test_hours_that_a_lost_node_did_not_run_cost_no_other_its_life(
    lab: Lab, log: FakeHistory
) -> None:
    """A daemon that was down charges them at first, and the budget seems exceeded."""
    other = lab.up(name="other")
    lost_one = lab.up(name="lost", provisioning_model=ProvisioningModel.SPOT)
    path = lost_one.place.path
    shared = lab.units, PriceBookCache(), lab.clock
    books = BudgetService(*shared, lab.costs)
    wanted = factories.budget(amount=45 * NANOS, on_exceeded=OnExceeded.DELETE, grace_seconds=60)
    budget = books.create(wanted).shown.budget
    lab.tick(HOUR)
    lab.cloud.become(NodeState.PREEMPTED, path)
    log.write(path, lab.clock())
    lab.clock.pass_(3 * HOUR)
    lab.start_daemon("second")
    lab.tick()
    budgets = BudgetController(*shared, books)
    for _ in range(5):
        budgets.tick(lab.lease)
        assert books.get(budget.id).shown.deletes_at is not None
        lab.clock.pass_(MINUTE)
    assert lab.node(other).asked is Asked.PRESENT
    lab.listener(log).tick(lab.lease)
    budgets.tick(lab.lease)
    assert lab.node(other).asked is Asked.PRESENT
    window = budget.window_at(lab.clock())
    assert window is not None
    assert books.sum_spent(budget.scope, window) < budget.amount


def test_where_nothing_is_in_doubt_there_is_nothing_to_wait_for(
    lab: Lab, evidence: EvidenceController
) -> None:
    assert unheard(lab)
    evidence.tick(lab.lease)
    assert not unheard(lab)


def test_a_log_that_may_not_be_read_is_not_waited_for(
    lab: Lab, log: FakeHistory, evidence: EvidenceController
) -> None:
    lost(lab)
    log.error = NotAllowed("no")
    for _ in range(3):
        evidence.tick(lab.lease)
        assert not unheard(lab)
        lab.clock.pass_(15)


@pytest.mark.deep
@pytest.mark.parametrize("error", [CloudUnavailable("away"), ValueError("a bug")])
def test_a_log_that_gives_no_answer_is_waited_for_no_longer_than_an_hour(
    lab: Lab, log: FakeHistory, evidence: EvidenceController, error: Any
) -> None:
    evidence.tick(lab.lease)
    lost(lab)
    log.error = error
    waited = []
    for _ in range(2 * PATIENCE // 15):
        with suppress(ValueError):
            evidence.tick(lab.lease)
        waited.append(unheard(lab))
        lab.clock.pass_(15)
    assert waited == [True] * (PATIENCE // 15) + [False] * (PATIENCE // 15)
    log.error = None
    lab.clock.pass_(PAUSE)
    evidence.tick(lab.lease)
    assert not unheard(lab)
