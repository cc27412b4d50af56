"""The terms of a node are written over the version that was read, on both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.application.nodes.nodes import NodeChange, NodeService
from service.domain.budgets.admission import ROUNDING
from service.domain.clock import HOUR
from service.domain.errors import BudgetExceeded, Rejected, StaleVersion
from service.domain.idle.terms import TermsChange
from service.domain.metering.attribution import Reattribution
from service.domain.nodes.node import IdlePolicy
from tests import factories
from tests.controllers.budgeting import HOURLY, BudgetedLab, lasting
from tests.store.given import GivenPrices

OWN = IdlePolicy(600, 60, "delete", ("no_progress",))


@pytest.fixture
def nodes(units, clock):
    return NodeService(units, GivenPrices(), clock, [factories.PROJECT], least_idle=600)


def test_terms_are_read_as_they_were_written(nodes):
    node = nodes.request(factories.request()).node
    change = NodeChange(Reattribution(owner="grace"), TermsChange(OWN, HOUR))
    after = nodes.update(node.id, change, actor="ada")
    assert nodes.get(node.id) == after
    assert (after.spec.idle, after.spec.ttl_seconds, after.owner) == (OWN, HOUR, "grace")
    told = [(one.actor, one.message) for _, one in nodes.list_events(node.id, 0, 99)][-2:]
    assert told[0][0] == "ada"
    assert "time to live 3600 s, was none" in told[0][1]
    assert nodes.update(node.id, change) == after, "nothing is written where nothing changes"


def test_the_least_idle_time_is_that_of_the_settings(nodes):
    node = nodes.request(factories.request(idle=OWN)).node
    with pytest.raises(Rejected, match="the least is 600 s"):
        nodes.update(node.id, NodeChange(terms=TermsChange(IdlePolicy(599))))
    with pytest.raises(Rejected, match="the least is 600 s"):
        nodes.request(factories.request(idle=IdlePolicy(599)))


def test_a_change_that_a_budget_refuses_leaves_nothing(units, clock):
    budgeted = BudgetedLab(units, clock)
    budget = budgeted.budget(amount=2 * HOURLY + ROUNDING)
    node = budgeted.up(budgeted.ask(ttl_seconds=lasting(HOUR)))
    before = budgeted.held(budget)
    change = NodeChange(Reattribution(owner="grace"), TermsChange(OWN, lasting(3 * HOUR)))
    with pytest.raises(BudgetExceeded):
        budgeted.nodes.update(node.id, change)
    assert budgeted.node(node) == node
    assert budgeted.room(budget).held.total == before
    budgeted.nodes.update(node.id, NodeChange(terms=TermsChange(OWN, lasting(2 * HOUR))))
    assert budgeted.room(budget).held.total == before + HOURLY
    budgeted.nodes.update(node.id, NodeChange(terms=TermsChange(OWN, lasting(HOUR))))
    assert budgeted.room(budget).held.total == before


@pytest.mark.concurrent
def test_of_two_who_saw_the_same_version_one_writes(nodes):
    node = nodes.request(factories.request()).node

    def write(seconds):
        try:
            change = NodeChange(terms=TermsChange(ttl_seconds=seconds))
            return nodes.update(node.id, change, version=node.version)
        except StaleVersion:
            return None

    with ThreadPoolExecutor(2) as pool:
        written = [outcome for outcome in pool.map(write, (600, 700)) if outcome is not None]
    assert [nodes.get(node.id)] == written
