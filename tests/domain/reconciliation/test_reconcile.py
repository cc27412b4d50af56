"""Ledger, inventory and bill: what each disagreement is called, and what it never depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.clock import HOUR
from service.domain.reconciliation.bill import ComparisonGroup, build_headline, in_chunks
from service.domain.reconciliation.reconcile import compare_hours
from service.domain.reconciliation.variance import (
    PENDING_SECONDS,
    Billed,
    Charged,
    Difference,
    InventorySight,
    Rules,
    Seen,
    Verdict,
)

MIDNIGHT = 1_793_491_200
DOLLAR = 1_000_000_000
OLD = Rules(newest=MIDNIGHT + 100 * HOUR)
CENT = replace(OLD, tolerance=DOLLAR // 100)
RAN = InventorySight(Seen.OBSERVED, "3 polls saw it READY")


def billed(**changes):
    base = Billed(
        project="lab",
        resource="//tpu/projects/lab/locations/us-west4-a/nodes/run-1",
        node_id="n1",
        sku_id="SKU-1",
        description="TpuV5e running in Las Vegas",
        generation="v5e",
        model="on_demand",
        hour=MIDNIGHT,
        rows=1,
        cost=9_600_000_000,
        credits=0,
        at_list=9_600_000_000,
        chip_seconds=28_800,
    )
    return replace(base, **changes)


def charged(**changes):
    base = Charged(
        "lab", "n1", "v5e", "on_demand", MIDNIGHT, 1, 9_600_000_000, 9_600_000_000, 28_800
    )
    return replace(base, **changes)


def one(theirs=(), ours=(), rules=OLD, sights=None):
    (line,) = compare_hours(theirs, ours, rules, {"n1": RAN} if sights is None else sights)
    return line


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict", "difference"),
    [
        ({}, {}, Verdict.MATCHED, Difference.NONE),
        ({"cost": 9_600_000_002}, {}, Verdict.MATCHED, Difference.NONE),
        ({"cost": 9_600_000_003}, {}, Verdict.TOLERATED, Difference.PRICE),
        ({"cost": 9_610_000_000}, {}, Verdict.TOLERATED, Difference.PRICE),
        ({"cost": 9_610_000_001}, {}, Verdict.AMOUNT_DIFFERS, Difference.PRICE),
        ({"cost": 4_800_000_000}, {}, Verdict.AMOUNT_DIFFERS, Difference.PRICE),
        (
            {"cost": 4_800_000_000, "chip_seconds": 14_400},
            {},
            Verdict.AMOUNT_DIFFERS,
            Difference.SECONDS,
        ),
        (
            {"cost": 4_800_000_000, "chip_seconds": 10_000},
            {},
            Verdict.AMOUNT_DIFFERS,
            Difference.BOTH,
        ),
        (
            {"cost": 4_800_000_000, "chip_seconds": None},
            {},
            Verdict.AMOUNT_DIFFERS,
            Difference.UNKNOWN,
        ),
        ({"at_list": 1}, {}, Verdict.AMOUNT_DIFFERS, Difference.LIST_PRICE),
        ({"at_list": None}, {}, Verdict.MATCHED, Difference.NONE),
        ({"at_list": 1}, {"at_list": None}, Verdict.MATCHED, Difference.NONE),
        (
            {"model": "spot", "at_list": 9_600_000_000},
            {"model": "preemptible", "at_list": 20 * DOLLAR},
            Verdict.MATCHED,
            Difference.NONE,
        ),
        ({"generation": "", "model": ""}, {}, Verdict.AMOUNT_DIFFERS, Difference.UNKNOWN_SKU),
        ({"generation": "v6e"}, {}, Verdict.AMOUNT_DIFFERS, Difference.SKU),
        ({"model": "spot"}, {}, Verdict.AMOUNT_DIFFERS, Difference.SKU),
        ({"cost": 0, "no_rate": "EUR"}, {}, Verdict.AMOUNT_DIFFERS, Difference.NO_RATE),
        ({}, {"model": "reserved"}, Verdict.MATCHED, Difference.NONE),
    ],
)
def test_two_amounts_agree_or_differ_in_price_or_in_seconds(theirs, ours, verdict, difference):
    line = one([billed(**theirs)], [charged(**ours)], CENT)
    assert (line.verdict, line.difference) == (verdict, difference)
    assert bool(line.reason) == (verdict is not Verdict.MATCHED)


def test_what_the_seconds_account_for_and_what_the_price_does():
    line = one([billed(cost=6 * DOLLAR, chip_seconds=14_400)], [charged()])
    assert line.variance == -3_600_000_000
    assert line.by_seconds == -4_800_000_000
    assert line.variance - line.by_seconds == 1_200_000_000


def test_a_discount_that_is_not_in_our_books_is_called_so():
    line = one([billed(cost=8 * DOLLAR)], [charged()])
    assert "1.600000000 is a discount that is not recorded" in line.reason
    assert "discount" not in one([billed(cost=12 * DOLLAR)], [charged()]).reason


def test_another_sku_than_ours_is_named():
    line = one([billed(cost=DOLLAR)], [charged(model="spot")])
    assert line.reason == "billed as on_demand, charged as spot"


def test_a_bill_without_a_node_is_a_leak_however_young_it_is():
    leak = billed(node_id="", resource="theirs")
    young = Rules(newest=MIDNIGHT + HOUR, tolerance=1_000 * DOLLAR)
    line = one([leak], [], young)
    assert (line.verdict, line.seen) == (Verdict.BILL_WITHOUT_NODE, Seen.NEVER)
    assert "no poll ever listed it" in line.reason
    orphan = one([leak], [], young, {"theirs": InventorySight(Seen.ORPHAN, "the inventory saw it")})
    assert (orphan.verdict, orphan.seen) == (Verdict.BILL_WITHOUT_NODE, Seen.ORPHAN)
    assert "the inventory saw it" in orphan.reason


def test_what_nobody_knows_is_a_leak_also_where_it_is_free():
    free = billed(node_id="", resource="theirs", cost=0)
    for row in (free, replace(free, at_list=0), replace(free, chip_seconds=None)):
        line = one([row], [], CENT)
        assert (line.verdict, line.billed) == (Verdict.BILL_WITHOUT_NODE, 0)
        assert "no poll ever listed it" in line.reason


@pytest.mark.parametrize("unknown", [0, None])
def test_a_row_without_an_amount_and_without_any_use_is_nothing(unknown):
    row = billed(node_id="", resource="theirs", cost=0, at_list=unknown, chip_seconds=unknown)
    assert one([row]).verdict is Verdict.MATCHED


def test_a_node_without_a_bill_is_told_with_what_shows_that_it_ran():
    line = one([], [charged()])
    assert (line.verdict, line.seen) == (Verdict.NODE_WITHOUT_BILL, Seen.OBSERVED)
    assert (line.variance, line.by_seconds) == (-9_600_000_000, -9_600_000_000)
    assert line.reason == "charged by us and not on the bill; 3 polls saw it READY"


def test_an_hour_of_our_node_that_the_ledger_lacks_is_no_leak():
    line = one([billed()], [])
    assert (line.verdict, line.difference) == (Verdict.AMOUNT_DIFFERS, Difference.SECONDS)
    assert "the ledger has no charge in this hour" in line.reason


@pytest.mark.parametrize(
    ("newest", "verdict"),
    [
        (MIDNIGHT + HOUR + PENDING_SECONDS, Verdict.NODE_WITHOUT_BILL),
        (MIDNIGHT + HOUR + PENDING_SECONDS - 1, Verdict.PENDING),
    ],
)
def test_what_is_younger_than_48_hours_is_pending_unless_it_matches(newest, verdict):
    assert one([], [charged()], Rules(newest)).verdict is verdict
    assert one([billed()], [charged()], Rules(newest)).verdict is Verdict.MATCHED


def test_what_was_billed_and_taken_back_is_no_leak():
    assert one([billed(node_id="", cost=0, chip_seconds=0)], []).verdict is Verdict.MATCHED


def test_resources_of_one_node_are_compared_together():
    slices = [billed(resource=f"run-{n}", cost=4_800_000_000, chip_seconds=14_400) for n in (0, 1)]
    halves = [replace(each, at_list=each.cost) for each in slices]
    assert one(halves, [charged()]).verdict is Verdict.MATCHED


def test_two_tiers_in_one_hour_are_two_comparisons():
    spot = {"model": "spot", "sku_id": "SKU-2", "cost": DOLLAR, "chip_seconds": 3_600}
    lines = compare_hours(
        [billed(**spot), billed()],
        [charged(), charged(model="spot", amount=2 * DOLLAR, chip_seconds=7_200)],
        OLD,
        {},
    )
    assert [(line.model, line.verdict) for line in lines] == [
        ("on_demand", Verdict.MATCHED),
        ("spot", Verdict.AMOUNT_DIFFERS),
    ]


AMOUNTS = st.integers(0, 50 * DOLLAR)
THEIRS = st.builds(
    billed,
    node_id=st.sampled_from(["", "n1", "n2"]),
    resource=st.sampled_from(["a", "b"]),
    model=st.sampled_from(["", "on_demand", "spot"]),
    hour=st.sampled_from([MIDNIGHT, MIDNIGHT + HOUR]),
    cost=AMOUNTS,
    chip_seconds=st.none() | st.integers(0, 28_800),
)
OURS = st.builds(
    charged,
    node_id=st.sampled_from(["n1", "n2"]),
    model=st.sampled_from(["on_demand", "spot"]),
    hour=st.sampled_from([MIDNIGHT, MIDNIGHT + HOUR]),
    amount=AMOUNTS,
    chip_seconds=st.integers(0, 28_800),
)


def place(line):
    return line.hour, line.node_id, line.resource, line.sku_id, line.model


@given(
    theirs=st.lists(
        THEIRS,
        max_size=6,
        unique_by=lambda each: (each.hour, each.node_id, each.resource, each.model),
    ),
    ours=st.lists(OURS, max_size=6, unique_by=lambda each: (each.hour, each.node_id, each.model)),
    luck=st.randoms(use_true_random=False),
)
def test_nothing_is_lost_and_the_order_of_rows_changes_nothing(theirs, ours, luck):
    lines = compare_hours(theirs, ours, CENT, {})
    assert sum(line.billed for line in lines) == sum(each.cost for each in theirs)
    assert sum(line.charged for line in lines) == sum(each.amount for each in ours)
    assert all(line.variance == line.billed - line.charged for line in lines)
    mixed, others = list(theirs), list(ours)
    luck.shuffle(mixed)
    luck.shuffle(others)
    assert sorted(map(repr, compare_hours(mixed, others, CENT, {}))) == sorted(map(repr, lines))


@given(st.lists(OURS, max_size=6, unique_by=lambda each: (each.hour, each.node_id, each.model)))
def test_a_bill_that_says_what_the_ledger_says_matches_in_every_hour(ours):
    theirs = [
        billed(
            node_id=each.node_id,
            model=each.model,
            hour=each.hour,
            cost=each.amount,
            chip_seconds=each.chip_seconds,
            at_list=None,
        )
        for each in ours
    ]
    assert {line.verdict for line in compare_hours(theirs, ours, OLD, {})} <= {Verdict.MATCHED}


def group(verdict, **changes):
    base = ComparisonGroup(verdict, "lab", "SKU-1", "v5e", "on_demand", 1, 0, 0, 0, 0, 0)
    return replace(base, **changes)


def test_the_headline_tells_both_directions_and_leaves_out_what_is_pending():
    found = build_headline(
        [
            group(Verdict.MATCHED, billed=1_000 * DOLLAR, charged=1_000 * DOLLAR, credits=-DOLLAR),
            group(Verdict.BILL_WITHOUT_NODE, billed=30 * DOLLAR, more=30 * DOLLAR),
            group(Verdict.NODE_WITHOUT_BILL, sku_id="", charged=10 * DOLLAR, less=-10 * DOLLAR),
            group(Verdict.PENDING, project="new", charged=500 * DOLLAR, less=-500 * DOLLAR),
        ]
    )
    total = found.total
    assert (total.variance, total.more, total.less) == (20 * DOLLAR, 30 * DOLLAR, -10 * DOLLAR)
    assert (total.percent, total.net) == ("2.0000", 1_029 * DOLLAR)
    assert found.verdicts[Verdict.PENDING].charged == 500 * DOLLAR
    assert list(found.projects) == ["lab"]
    assert [key[0] for key in found.skus] == ["", "SKU-1"]
    assert sum(sku.variance for sku in found.skus.values()) == total.variance


@pytest.mark.parametrize(
    ("variance", "matched", "percent"),
    [
        (0, 0, None),
        (1, 0, None),
        (0, 7, "0.0000"),
        (1, 3, "33.3333"),
        (-1, 3, "-33.3333"),
        (-1, 10**9, "0.0000"),
    ],
)
def test_the_variance_is_told_in_percent_of_what_matched(variance, matched, percent):
    found = build_headline(
        [
            group(Verdict.MATCHED, billed=matched),
            group(Verdict.AMOUNT_DIFFERS, more=max(0, variance), less=min(0, variance)),
        ]
    )
    assert found.total.percent == percent


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 50)), unique_by=lambda each: each[0]),
    st.integers(1, 100),
)
def test_hours_are_taken_in_bounded_chunks_that_lose_none(hours, limit):
    counts = [(number * HOUR, rows) for number, rows in sorted(hours)]
    chunks = list(in_chunks(counts, limit))
    for start, end in chunks:
        inside = [rows for hour, rows in counts if start <= hour < end]
        assert inside
        assert len(inside) == 1 or sum(inside) <= limit
        assert end - start <= 24 * HOUR
    taken = [hour for start, end in chunks for hour, _ in counts if start <= hour < end]
    assert taken == [hour for hour, _ in counts]


CUD = "COMMITTED_USAGE_DISCOUNT"


@pytest.mark.parametrize(
    ("cost", "off", "explained", "reason"),
    [
        (
            9_600_000_000,
            1_600_000_000,
            True,
            f"the ledger has the cost before credits; {CUD} -$1.60 leave $8.00 to pay",
        ),
        (
            12_000_000_000,
            2_400_000_000,
            True,
            (
                "the same seconds at another price; "
                f"credits explain it: after {CUD} -$2.40 the bill is what the ledger charges"
            ),
        ),
        (
            12_000_000_000,
            1_000_000_000,
            False,
            (
                "the same seconds at another price; "
                f"credits do not explain it: {CUD} -$1.00 leave $11.00 to pay, $1.40 off"
            ),
        ),
        (12_000_000_000, 0, False, "the same seconds at another price"),
    ],
)
def test_credits_are_told_by_kind_with_what_they_explain(cost, off, explained, reason):
    kinds = {CUD: -off} if off else {}
    line = one([billed(cost=cost, credits=-off, credit_kinds=kinds)], [charged()])
    assert (line.is_explained, line.reason) == (explained, reason)
    assert (line.net, line.credit_kinds) == (cost - off, kinds)


def test_no_credit_explains_what_is_billed_as_something_else():
    kinds = {"credits": -1, "credit_kinds": {CUD: -1}}
    unknown = one([billed(generation="", model="", **kinds)], [charged()])
    assert not unknown.is_explained
    assert unknown.reason.startswith("unknown SKU SKU-1 ('TpuV5e running in Las Vegas'); the same")


def test_what_has_no_rate_is_compared_with_nothing_and_is_said_to_be_so():
    line = one([billed(cost=0, at_list=None, no_rate="EUR")], [charged()])
    assert (line.verdict, line.difference) == (Verdict.AMOUNT_DIFFERS, Difference.NO_RATE)
    assert line.reason == "billed in EUR without a conversion rate, so set apart and not compared"
    leak = one([billed(cost=0, at_list=None, chip_seconds=None, node_id="", no_rate="EUR")])
    assert leak.verdict is Verdict.BILL_WITHOUT_NODE


def test_an_hour_billed_as_another_tpu_at_our_amount_says_as_which():
    line = one([billed(generation="v6e")], [charged()])
    assert line.reason == "the same amount, billed as v6e on_demand, charged as v5e on_demand"
