"""Commitments of a bill: an amount that is divided is all there, and a long list has an end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import HOUR
from service.domain.reconciliation.commitments import (
    MOST_NODES,
    BilledUsage,
    CommitmentCounter,
    CommitmentKey,
    Fee,
    divide_by_weights,
)

FEE = CommitmentKey(
    "", "2026-11", "v6e", "Commitment v1: TpuV6e running in Columbus for 1 Year", "", ""
)
SOLD = CommitmentKey("", "2026-11", "v6e", "TpuV6e running in Columbus", "us-east5", "us-east5-a")


@given(
    st.integers(-(10**18), 10**18),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=20).filter(any),
)
def test_the_parts_of_an_amount_add_up_to_it_and_each_is_near_its_share(amount, weights):
    parts = divide_by_weights(amount, weights)
    assert sum(parts) == amount
    whole = sum(weights)
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * whole - amount * weight) <= whole


def used(name: str, chips: int, cost: int, discount: int) -> BilledUsage:
    return BilledUsage(SOLD, ("lab", name, ""), "", cost, discount, cost, chips * HOUR)


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 100)), min_size=1, max_size=12))
def test_used_and_unused_add_up_to_the_fee_whatever_is_covered(nodes):
    price = 2_700_000_001
    committed = sum(chips for chips, _ in nodes) * HOUR
    counter = CommitmentCounter([Fee(FEE, 987_654_321_001, 0, committed)])
    counter.add(
        used(f"n{number}", chips, chips * price, -(chips * price * percent // 100))
        for number, (chips, percent) in enumerate(nodes)
    )
    (one,) = counter.list_commitments({})
    assert one.unused is not None
    assert sum(node.amortised or 0 for node in one.nodes) + one.unused == one.fee
    assert one.unused >= 0


def test_the_rest_of_a_long_list_of_nodes_is_one_and_nothing_of_it_is_lost():
    number = MOST_NODES + 7
    counter = CommitmentCounter([Fee(FEE, 1_000_000_007, 0, 2 * number * HOUR)])
    counter.add(used(f"n{index}", 1, 2_700, -2_700) for index in range(number))
    (one,) = counter.list_commitments({})
    assert (len(one.nodes), one.nodes[-1].nodes) == (MOST_NODES + 1, 7)
    assert sum(node.covered for node in one.nodes) == number * HOUR
    assert sum(node.amortised or 0 for node in one.nodes) == one.amortised
