"""What is billed at all: rules that are data, each with its source."""

from __future__ import annotations

import pytest

from service.domain.clock import parse_rfc3339
from service.domain.nodes.node import NodeState
from service.domain.pricing.billing_rules import (
    billable_states,
    billing_rules,
    calendar_days,
    free_if_preempted_within,
    in_force,
    vm_is_charged_with_its_tpu,
)
from tests.hands import NOON


def test_every_rule_says_since_when_it_holds_and_where_it_is_written():
    assert {rule.rule for rule in billing_rules()} == {
        "billable_states",
        "free_if_preempted_within_seconds",
        "calendar_reservation_days",
        "legacy_vm_line",
    }
    assert all(rule.source and 0 < rule.effective_from < NOON for rule in billing_rules())


def test_only_the_seconds_of_a_ready_node_cost_money():
    assert billable_states() == {NodeState.READY}


@pytest.mark.parametrize("instant", [NOON, parse_rfc3339("2018-06-18T00:00:00Z"), 0])
def test_a_rule_holds_from_its_date_on_and_the_oldest_before(instant):
    assert free_if_preempted_within(instant) == 60
    assert in_force("billable_states", instant) == "READY"


def test_a_reservation_by_the_calendar_is_for_one_to_ninety_days():
    assert calendar_days(NOON) == (1, 90)


def test_the_machine_that_drives_a_legacy_node_is_charged_with_it():
    assert vm_is_charged_with_its_tpu(NOON)
