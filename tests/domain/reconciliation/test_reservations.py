"""Reservations on a bill: whatever its rows name, they are held against all that is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import DAY, HOUR
from service.domain.metering.reservation import Reservation
from service.domain.reconciliation.reconcile import compare_hours
from service.domain.reconciliation.reservations import BilledHour, pair_hour, reservation_named
from service.domain.reconciliation.variance import (
    Billed,
    Charged,
    ComparedPair,
    Rules,
    Seen,
    Verdict,
)

MIDNIGHT = 1_793_491_200
HALF = 6_720_000_000
"""Nano-dollars for eight v5e chips for an hour at 0.84 dollars."""

OLD = Rules(newest=MIDNIGHT + 100 * HOUR)
MARCH = Reservation(
    "r-1", "march", "lab", "us-west4-a", "v5e", 16, MIDNIGHT - DAY, MIDNIGHT + 9 * DAY
)
PATH = "projects/lab/locations/us-west4-a/reservations/march"
NUMBER = "//compute.googleapis.com/projects/lab/zones/us-west4-a/reservations/4711"
MACHINE = "//compute.googleapis.com/projects/lab/zones/us-west4-a/instances/4712"


def billed(**changes):
    """Half of what is reserved, and nothing said of what it was for."""
    base = Billed(
        project="lab",
        resource="",
        node_id="",
        sku_id="SKU-R",
        description="Reserved TpuV5e in Las Vegas in Calendar Mode",
        generation="v5e",
        model="reserved",
        hour=MIDNIGHT,
        rows=1,
        cost=HALF,
        credits=0,
        at_list=HALF,
        chip_seconds=28_800,
        zone="us-west4-a",
    )
    return replace(base, **changes)


def whole(**changes):
    return billed(cost=2 * HALF, at_list=2 * HALF, chip_seconds=57_600, **changes)


def charged(node_id, **changes):
    base = Charged("lab", node_id, "v5e", "reserved", MIDNIGHT, 1, HALF, None, 28_800, "r-1")
    return replace(base, **changes)


BY_NODE = billed(node_id="n1", resource="projects/lab/locations/us-west4-a/nodes/run-1")
OURS = (charged("n1"), charged("r-1"))
"""A node used half of it, and nobody the other half."""


def compared(theirs, ours=OURS, reservations=(MARCH,)):
    return compare_hours(theirs, ours, OLD, {}, reservations)


def told(lines):
    return {(line.node_id or line.reservation or line.resource, line.verdict) for line in lines}


@pytest.mark.parametrize(
    "theirs",
    [
        [whole(resource=PATH)],
        [whole(resource="march")],
        [whole(resource=NUMBER)],
        [whole()],
        [whole(zone="")],
        [billed(resource=MACHINE), billed(resource=PATH)],
        [billed(resource=MACHINE), billed(resource=NUMBER)],
        [billed(resource=MACHINE), billed(resource=MACHINE + "3")],
        [replace(BY_NODE, cost=0, chip_seconds=0), whole(resource=PATH)],
        [replace(BY_NODE, cost=HALF - 40), billed(resource=PATH, cost=HALF + 40)],
    ],
)
def test_whatever_the_rows_of_a_reservation_name_they_are_held_against_all_of_it(theirs):
    (line,) = compared(theirs)
    assert (line.verdict, line.reservation, line.node_id) == (Verdict.MATCHED, "march", "")
    assert (line.billed, line.charged, line.charged_chip_seconds) == (2 * HALF, 2 * HALF, 57_600)
    assert line.seen is Seen.RECORDED


@pytest.mark.parametrize("resource", [PATH, NUMBER, MACHINE, ""])
def test_a_node_that_is_billed_by_its_own_name_stays_by_itself(resource):
    lines = compared([BY_NODE, billed(resource=resource)])
    assert told(lines) == {("n1", Verdict.MATCHED), ("march", Verdict.MATCHED)}
    assert [line.charged for line in lines] == [HALF, HALF]


def test_our_own_export_calls_what_nobody_used_by_the_reservation():
    ours = {"generation": "v5e", "model": "reserved", "description": "v5e, reserved and not used"}
    lines = compared([replace(BY_NODE, **ours), billed(resource=PATH, **ours)])
    assert told(lines) == {("n1", Verdict.MATCHED), ("march", Verdict.MATCHED)}


def test_what_is_billed_at_another_price_is_told_with_what_was_written_down():
    (line,) = compared(
        [whole(resource=PATH)], [replace(reservation, amount=HALF // 2) for reservation in OURS]
    )
    assert (line.verdict, line.variance) == (Verdict.AMOUNT_DIFFERS, HALF)
    assert line.reason == (
        "the same seconds at another price; march is recorded from"
        " 2026-10-31T00:00:00Z to 2026-11-10T00:00:00Z"
    )


def test_more_chips_than_were_written_down_are_other_seconds():
    (line,) = compared([whole(resource=PATH)], [charged("r-1")])
    assert (line.verdict, line.difference) == (Verdict.AMOUNT_DIFFERS, "seconds")


def test_where_nothing_of_it_is_billed_node_and_reservation_are_each_told():
    lines = compared([])
    assert told(lines) == {
        ("n1", Verdict.NODE_WITHOUT_BILL),
        ("march", Verdict.NODE_WITHOUT_BILL),
    }
    assert [line.node_id for line in lines] == ["", "n1"]
    assert "march is recorded" in lines[0].reason


def test_where_the_ledger_has_nothing_of_it_yet_it_is_no_leak():
    (line,) = compared([whole(resource=PATH)], [])
    assert (line.verdict, line.reservation) == (Verdict.AMOUNT_DIFFERS, "march")
    assert line.reason.startswith("the reservation is managed here, and the ledger has no charge")


def test_a_node_that_is_billed_on_demand_did_not_run_in_it():
    on_demand = replace(BY_NODE, model="on_demand", cost=9_600_000_000)
    node, bought = sorted(compared([on_demand, whole(resource=PATH)]), key=lambda one: one.billed)
    assert (node.node_id, node.reason) == ("n1", "billed as on_demand, charged as reserved")
    assert (bought.reservation, bought.variance) == ("march", HALF)


@pytest.mark.parametrize(
    "row",
    [
        whole(zone="us-west4-b"),
        whole(project="other"),
        whole(generation="v6e"),
        whole(hour=MIDNIGHT - 25 * HOUR),
        whole(hour=MARCH.end),
        whole(resource=PATH.replace("us-west4-a", "us-west4-b")),
        whole(resource=PATH, model="on_demand", project="other"),
    ],
)
def test_what_no_reservation_on_record_can_be_is_a_leak(row):
    (leak,) = [line for line in compared([row]) if not line.charged]
    assert (leak.verdict, leak.reservation) == (Verdict.BILL_WITHOUT_NODE, "")
    assert ("no recorded reservation matches" in leak.reason) == (row.model == "reserved")


def test_another_name_is_another_reservation_only_where_ours_is_billed_by_its_own():
    april = whole(resource=PATH.replace("march", "april"))
    assert told(compared([april])) == {("march", Verdict.MATCHED)}
    assert told(compared([april, whole(resource=PATH)])) == {
        ("march", Verdict.MATCHED),
        (april.resource, Verdict.BILL_WITHOUT_NODE),
    }


MAY = replace(MARCH, id="r-2", name="may", chips=8)


def test_two_reservations_are_compared_apart_where_the_bill_tells_them_apart():
    theirs = [whole(resource=PATH), billed(resource=PATH.replace("march", "may"))]
    lines = compared(theirs, [*OURS, charged("r-2", reservation_id="r-2")], (MAY, MARCH))
    assert [(line.reservation, line.verdict) for line in lines] == [
        ("march", Verdict.MATCHED),
        ("may", Verdict.MATCHED),
    ]


@pytest.mark.parametrize("names", [("", PATH), ("", ""), (MACHINE, NUMBER)])
def test_two_reservations_are_compared_together_where_it_does_not(names):
    theirs = [whole(resource=names[0], sku_id="1"), billed(resource=names[1], sku_id="2")]
    (line,) = compared(theirs, [*OURS, charged("r-2", reservation_id="r-2")], (MAY, MARCH))
    assert (line.reservation, line.verdict) == ("march, may", Verdict.MATCHED)


def test_what_a_node_took_from_two_reservations_ties_them_together():
    theirs = [whole(resource=PATH), whole(resource=PATH.replace("march", "may"))]
    second = charged("n1", reservation_id="r-2")
    (line,) = compared(theirs, [*OURS, second, replace(second, node_id="r-2")], (MAY, MARCH))
    assert (line.reservation, line.verdict) == ("march, may", Verdict.MATCHED)


def test_a_record_that_was_withdrawn_is_no_reservation_but_by_its_name():
    wrong = replace(MARCH, withdrawn_at=MIDNIGHT, reason="bought twice")
    nothing = charged("r-1", amount=0, chip_seconds=0, rows=2)
    assert told(compared([whole()], [nothing], [wrong])) == {
        ("", Verdict.BILL_WITHOUT_NODE),
        ("march", Verdict.MATCHED),
    }
    taken_back = [billed(resource=PATH), billed(resource=PATH, cost=-HALF, chip_seconds=-28_800)]
    assert told(compared(taken_back, [nothing], [wrong])) == {("march", Verdict.MATCHED)}
    (line,) = compared([whole(resource=PATH)], [nothing], [wrong])
    assert line.reason.endswith("which was withdrawn: bought twice")


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (PATH, "march"),
        (f"//tpu.googleapis.com/{PATH}", "march"),
        (NUMBER, "4711"),
        ("reservations/march", "march"),
        ("projects/lab/locations/us-west4-a/nodes/reservations", ""),
        ("projects/lab/locations/us-west4-a/reservations/march/more", ""),
        ("march", ""),
        ("", ""),
    ],
)
def test_a_full_name_says_whether_it_is_of_a_reservation(resource, name):
    assert reservation_named(resource) == name


ROWS = st.lists(
    st.builds(
        billed,
        resource=st.sampled_from(["", PATH, PATH.replace("march", "may"), NUMBER, MACHINE]),
        zone=st.sampled_from(["", "us-west4-a", "us-east1-c"]),
        model=st.sampled_from(["", "reserved", "on_demand"]),
        generation=st.sampled_from(["", "v5e", "v6e"]),
    ),
    max_size=5,
)
ENTRIES = st.builds(
    lambda node, bought, amount: charged(node, reservation_id=bought, amount=amount),
    st.sampled_from(["n1", "n2", "n3"]),
    st.sampled_from(["", "r-1", "r-2", "r-3"]),
    st.sampled_from([HALF, 1]),
)


@given(rows=ROWS, ours=st.lists(ENTRIES, max_size=6), by_name=st.sets(st.sampled_from(["n1"])))
def test_each_row_and_each_entry_is_in_exactly_one_comparison(rows, ours, by_name):
    june = replace(MARCH, id="r-3", name="june", zone="us-east1-c")
    nodes = [
        ComparedPair(
            [replace(BY_NODE, node_id=node)] if node in by_name else [],
            [row for row in ours if row.node_id == node],
        )
        for node in sorted({row.node_id for row in ours} | by_name)
    ]
    unused = [
        charged(reservation_id, reservation_id=reservation_id)
        for reservation_id in ("r-1", "r-2", "r-3")
    ]
    found = list(pair_hour(BilledHour(MIDNIGHT, rows, nodes, unused), (MARCH, MAY, june)))
    theirs = [*rows, *(row for pair in nodes for row in pair.billed)]
    assert sorted(map(repr, (row for pair in found for row in pair.billed))) == sorted(
        map(repr, theirs)
    )
    assert sorted(
        map(repr, (reservation_id for pair in found for reservation_id in pair.charged))
    ) == sorted(map(repr, [*ours, *unused]))
    assert all(pair.billed or pair.charged for pair in found)
