"""The list: pages without a gap, filters, and costs to the second."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.errors import NotFound, Rejected
from service.domain.ids import new_id
from service.domain.metering.attribution import Attribution
from service.domain.metering.line_items import make_meters
from service.domain.metering.meter import Evidence
from service.domain.metering.reservation import Reservation, usage_of
from service.domain.metering.running import PriceParts
from service.domain.metering.usage import (
    FirstMinuteWaiver,
    pool_for,
    start_usage,
    with_end,
    with_first_minute_rule,
    with_waiver,
)
from service.domain.money import format_usd
from service.domain.nodes.node import Endpoint, IdlePolicy, NodeState
from service.domain.nodes.placement import Placement
from service.domain.nodes.slices import slice_as_node
from service.domain.pricing.discounts import Discount
from service.domain.pricing.driver_vm import UserVm
from service.domain.pricing.price_book import PriceBook, Sku
from service.store.node_list import NodeFilter, decode_parts, encode_parts
from tests import factories
from tests.hands import NOON
from tests.store.given import ALL, GivenPrices, metered, ran, stored

BOOK = factories.book()


def names(units, only=ALL, size=100, token=""):
    with units.reading() as unit:
        page = unit.node_list.read_page(only, size, token, GivenPrices(), NOON)
    return [node["name"] for node in page.to_dicts()], page.next_page_token


def shown(units, node, book=BOOK, now=NOON):
    with units.reading() as unit:
        return json.loads(unit.node_list.read_one(node.id, GivenPrices(book), now))


def later_id(number):
    """Ids of one millisecond are in no order, so those that must be are far in the future."""
    return f"f{number:07x}{new_id()[8:]}"


# ---- pages


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 100])
def test_pages_hold_every_node_once_newest_first_while_others_are_added(units, size):
    there = sorted(stored(units).id for _ in range(7))
    found, token, pages = [], "", 0
    while True:
        with units.reading() as unit:
            page = unit.node_list.read_page(ALL, size, token, GivenPrices(), NOON)
        assert len(page.to_dicts()) <= size
        found += [node["id"] for node in page.to_dicts()]
        token = page.next_page_token
        pages += 1
        if not token:
            break
        stored(units, id=later_id(pages))
    assert found == there[::-1]
    assert pages == -(-7 // size)


def test_pages_of_a_filter_are_as_whole(units):
    for number in range(9):
        team = "vision" if number % 2 else "nlp"
        stored(units, id=later_id(number), name=f"n-{number}", team=team)
    only = NodeFilter(team=["vision"])
    first, token = names(units, only, size=3)
    second, end = names(units, only, size=3, token=token)
    assert (first, second, end) == (["n-7", "n-5", "n-3"], ["n-1"], "")


def test_nothing_is_one_empty_page(units):
    assert names(units) == ([], "")


@pytest.mark.parametrize("token", ["x", "1", "' OR 1=1 --", "0" * 36, "A" * 36])
def test_a_token_that_was_not_given_out_is_refused(units, token):
    with pytest.raises(Rejected) as refused:
        names(units, token=token)
    assert refused.value.facts["field"] == "page_token"


# ---- filters


@pytest.fixture
def fleet(units):
    """Four nodes that differ in everything that can be asked for, one after the other."""
    stored(
        units,
        id=later_id(1),
        name="a",
        team="vision",
        owner="ada",
        labels={"run": "1", "kind": "big"},
    )
    stored(
        units,
        id=later_id(2),
        name="b",
        team="nlp",
        owner="grace",
        state=NodeState.READY,
        labels={"run": "1"},
    )
    stored(
        units, id=later_id(3), name="c", zone="us-east1-c", generation="v6e", labels={"run": "2"}
    )
    over = stored(units, id=later_id(4), name="d", project="other", state=NodeState.DELETED)
    with units() as unit:
        unit.nodes.save(replace(over, ended_at=NOON, next_try_at=None))
    return units


@pytest.mark.parametrize(
    ("only", "found"),
    [
        (NodeFilter(), "dcba"),
        (NodeFilter(project=["other"]), "d"),
        (NodeFilter(state=["READY"]), "b"),
        (NodeFilter(state=["READY", "DELETED"]), "db"),
        (NodeFilter(team=["nlp"]), "b"),
        (NodeFilter(owner=["ada"]), "dca"),
        (NodeFilter(zone=["us-east1-c"]), "c"),
        (NodeFilter(generation=["v6e", "v4"]), "c"),
        (NodeFilter(name=["a", "d", "nobody"]), "da"),
        (NodeFilter(live=True), "cba"),
        (NodeFilter(labels={"run": "1"}), "ba"),
        (NodeFilter(labels={"run": "1", "kind": "big"}), "a"),
        (NodeFilter(labels={"run": "big"}), ""),
        (NodeFilter(labels={"nothing": "1"}), ""),
        (NodeFilter(team=["vision"], live=True, labels={"run": "2"}), "c"),
        (NodeFilter(state=["no such state"]), ""),
        (NodeFilter(name=["' OR '1'='1"]), ""),
    ],
)
def test_a_filter_lets_through_what_matches_each_of_its_fields(fleet, only, found):
    assert names(fleet, only)[0] == list(found)


# ---- what is shown


def test_one_node_is_shown_as_it_is_in_the_list(units):
    node = stored(units, name="train")
    with units.reading() as unit:
        (document,) = unit.node_list.read_page(ALL, 10, "", GivenPrices(), NOON).to_dicts()
        assert json.loads(unit.node_list.read_one(node.id, GivenPrices(), NOON)) == document
    assert document["hourly_cost"] == "9.600000000"


def test_a_node_is_shown_with_its_story_so_far(units):
    node = stored(
        units,
        name="train",
        labels={"run": "1"},
        ttl_seconds=3_600,
        idle=IdlePolicy(60, 30, "delete"),
    )
    tried = Placement(node.id, 1, "us-west4-a", "on_demand", "train-1", NOON)
    tried = replace(tried, accelerator_type="v5litepod-8")
    with units() as unit:
        unit.placements.add(tried)
        unit.nodes.save(
            replace(
                node,
                state="STATE_99",
                ready_at=NOON + 60,
                endpoints=(Endpoint("10.0.0.2", 8_470), Endpoint("10.0.0.3", 8_470, "34.1.2.3")),
            )
        )
    document = shown(units, node)
    assert (document["id"], document["state"], document["version"]) == (node.id, "STATE_99", 1)
    assert (document["ready_at"], document["ended_at"]) == ("2026-11-05T12:01:00Z", None)
    assert document["deletes_at"] == "2026-11-05T13:01:00Z"
    assert document["labels"] == {"run": "1"}
    assert document["idle"] == {
        "after_seconds": 60,
        "grace_seconds": 30,
        "action": "delete",
        "also": [],
    }
    assert [(e["worker"], e["external_ip"]) for e in document["endpoints"]] == [
        (0, ""),
        (1, "34.1.2.3"),
    ]
    assert document["placements"] == [
        {
            "attempt": 1,
            "zone": "us-west4-a",
            "accelerator_type": "v5litepod-8",
            "provisioning_model": "on_demand",
            "cloud_id": "train-1",
            "started_at": "2026-11-05T12:00:00Z",
            "ended_at": None,
            "outcome": "open",
            "reason": "",
        }
    ]


def test_what_is_not_there_is_not_found(units):
    with units.reading() as unit, pytest.raises(NotFound):
        unit.node_list.read_one("nobody", GivenPrices(), NOON)


def test_an_unknown_price_is_null_and_never_zero(units):
    node = stored(units)
    assert shown(units, node, PriceBook(()))["hourly_cost"] is None


def test_what_has_ended_costs_nothing_an_hour_any_more(units):
    node = stored(units)
    with units() as unit:
        unit.nodes.save(replace(node, ended_at=NOON, state=NodeState.DELETED))
    assert shown(units, node)["hourly_cost"] == "0.000000000"
    assert shown(units, node, PriceBook(()))["hourly_cost"] == "0.000000000"


def test_the_cost_grows_by_the_second(units):
    node = stored(units)
    metered(units, ran(units, node), BOOK, NOON)
    costs = [shown(units, node, now=NOON + seconds)["cost"] for seconds in (-5, 0, 1, HOUR)]
    assert costs == ["0.000000000", "0.000000000", "0.002666667", "9.600000000"]


INSTANTS = st.integers(NOON - HOUR, NOON + 9 * HOUR)
SERIES = {
    ProvisioningModel.ON_DEMAND: "on_demand",
    ProvisioningModel.SPOT: "spot",
    ProvisioningModel.PREEMPTIBLE: "spot",
    ProvisioningModel.RESERVED: "reserved",
}
CHANGES = st.lists(
    st.tuples(
        st.integers(NOON - HOUR, NOON + 9 * HOUR),
        st.integers(1, 10**10),
        st.sampled_from(["us-west4", "us"]),
    ),
    max_size=4,
    unique_by=lambda change: (change[0], change[2]),
)


@pytest.mark.deep
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    changes=CHANGES,
    earlier=st.integers(0, 5_000),
    start=st.integers(0, 5_000),
    ticks=st.lists(st.integers(0, 5 * HOUR), max_size=2),
    waited=st.integers(0, 4 * HOUR),
    model=st.sampled_from(list(ProvisioningModel)[:4]),
    half=st.tuples(INSTANTS, INSTANTS),
    reserved=st.tuples(INSTANTS, INSTANTS),
    vm=st.sampled_from([None, UserVm("n1-standard-8")]),
)
def test_the_cost_that_is_shown_is_what_the_meter_says_at_any_instant(
    units, changes, earlier, start, ticks, waited, model, half, reserved, vm
):
    """Whatever was posted by then, and wherever a price changed, a discount or a reservation began
    or ended in between."""
    book = PriceBook(
        [
            *(
                factories.price(nanos, at, id=f"{region}/{at}", region=region, model=SERIES[model])
                for at, nanos, region in changes
            ),
            factories.price(7, NOON, id="vm", generation="n1-standard-8", unit="vm_hour"),
            factories.price(3_600, id="calendar", model="calendar"),
        ],
        [Discount("half", "", "", 500_000, min(half), max(half), "a test")],
        [bought(units, *sorted(reserved)).purchase] if max(reserved) > min(reserved) else [],
    )
    node = stored(units, provisioning_model=model, vm=vm)
    sku = replace(factories.usage().sku, model=model, pool=pool_for(node.spec, node.zone))
    driver = {"vm": "n1-standard-8", "vm_model": "on_demand"} if vm else {}
    began = NOON + 5_000 + start
    over = ran(
        units,
        node,
        **driver,
        sku=sku,
        end=NOON + earlier,
        end_lo=NOON + earlier,
        end_evidence=Evidence.OBSERVED,
        dirty=True,
    )
    running = ran(units, node, **driver, sku=sku, start=began)
    metered(units, over, book, NOON + 5_000)
    now = began
    for tick in sorted([0, *ticks]):
        now = began + tick
        running = metered(units, running, book, now)
    now += waited
    found = list(make_meters([over, running], book, now))
    document = shown(units, node, book, now)
    assert document["cost"] == format_usd(sum(meter.total_charge() for meter in found))
    assert document["unpriced_seconds"] == sum(meter.unpriced_seconds() for meter in found)


ENDS = st.lists(
    st.tuples(
        st.integers(1, 3 * HOUR),  # seconds of usage
        st.integers(0, 2 * HOUR),  # seconds until the end is known better
        st.sampled_from(["plain", "first minute", "perhaps first minute", "failed stop"]),
        st.integers(0, 5_000),  # seconds of rest
    ),
    max_size=3,
)


@pytest.mark.deep
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    changes=CHANGES,
    ends=ENDS,
    slices=st.sampled_from([1, 2]),
    waits=st.lists(st.integers(0, 5 * HOUR), min_size=1, max_size=3),
)
def test_the_list_agrees_with_the_meter_through_waivers_failed_stops_and_slices(
    units, changes, ends, slices, waits
):
    """Ended usage is posted, then waived or ended at another second, and posted again; the node
    runs on."""
    book = PriceBook(
        factories.price(nanos, at, id=f"{region}/{at}", region=region)
        for at, nanos, region in changes
    )
    node = stored(units, slices=slices, chips=8 * slices, hosts=slices)
    parts = [slice_as_node(node, n) for n in range(slices)] if slices > 1 else [node]
    whole = [
        replace(start_usage(part, NOON, NOON, Evidence.OPERATION), slice=number)
        for number, part in enumerate(parts, start=-1 if slices == 1 else 0)
    ]
    found, now = [], NOON
    for lasted, wait, kind, rest in ends:
        for first in whole:
            usage = saved(units, restarted(first, now))
            over = now + lasted
            usage = metered(units, with_end(usage, now, over, Evidence.OBSERVED), book, over)
            if kind == "first minute":
                usage = with_waiver(usage, FirstMinuteWaiver.CERTAIN)
            elif kind == "perhaps first minute":
                usage = with_first_minute_rule(usage, now)
            elif kind == "failed stop":  # it ran until its host broke down
                usage = with_end(usage, now, over + rest, Evidence.OPERATION)
            again = saved(units, replace(usage, dirty=True))
            found.append(metered(units, again, book, over + wait + rest))
        now += lasted + wait + rest
    running = [saved(units, restarted(first, now)) for first in whole]
    for wait in waits:
        now += wait
        running = [metered(units, usage, book, now) for usage in running]
    now += waits[0]
    meters = list(make_meters([*found, *running], book, now))
    document = shown(units, node, book, now)
    assert document["cost"] == format_usd(sum(meter.total_charge() for meter in meters))
    assert document["unpriced_seconds"] == sum(meter.unpriced_seconds() for meter in meters)


def restarted(usage, start):
    """The same usage once more, from another second on."""
    return replace(usage, id=new_id(), start=start, start_hi=start, posted_until=start)


def saved(units, usage):
    with units() as unit:
        return unit.usage.save(usage)


# ---- the parts of a price

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)


@given(
    pool=st.one_of(st.just(""), TEXTS.map(lambda name: f"lab/us-west4-a/{name}")),
    single=st.booleans(),
    chips=st.integers(1, 10_000),
    slices=st.integers(1, 256),
    vm=st.sampled_from([None, Sku("n1-standard-8", "spot", "us-west4", is_vm=True)]),
)
def test_the_parts_of_a_price_are_read_as_they_were_written(pool, single, chips, slices, vm):
    sku = Sku("v5e", "reserved" if pool else "spot", "us-west4", single, pool)
    parts = PriceParts(sku, chips, slices, vm)
    assert decode_parts(encode_parts(parts)) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "v5e|spot|us-west4|1|8",
            PriceParts(Sku("v5e", "spot", "us-west4", single_device=True), 8),
        ),
        (
            "v5e|reserved|us-west4|0|16|4|lab/us-west4-a/autumn",
            PriceParts(Sku("v5e", "reserved", "us-west4", pool="lab/us-west4-a/autumn"), 16, 4),
        ),
        (
            "v2|on_demand|us-west4|1|4|||n1-standard-8|spot",
            PriceParts(
                Sku("v2", "on_demand", "us-west4", single_device=True),
                4,
                vm=Sku("n1-standard-8", "spot", "us-west4", is_vm=True),
            ),
        ),
    ],
)
def test_the_stored_form_of_the_parts_of_a_price_stays(text, parts):
    assert encode_parts(parts) == text
    assert decode_parts(text) == parts


def bought(units, start, end):
    """A reservation that is in the books, from one instant to another."""
    one = Reservation(new_id(), "autumn", "lab", factories.ZONE, "v5e", 64, start, end)
    with units() as unit:
        unit.reservations.add(one)
        unit.attributions.add(Attribution(one.id), start)
        unit.usage.save(usage_of(one, new_id()))
    return one


def test_a_node_with_a_machine_costs_both_an_hour_or_nobody_knows_what(units):
    node = stored(units, vm=UserVm("n1-standard-8"))
    vm = factories.price(7, generation="n1-standard-8", unit="vm_hour", id="vm")
    both = PriceBook([factories.price(), vm])
    assert shown(units, node, both)["hourly_cost"] == "9.600000007"
    assert shown(units, node, BOOK)["hourly_cost"] is None
    assert shown(units, node, PriceBook([vm]))["hourly_cost"] is None


def test_posting_an_earlier_interval_again_leaves_the_running_one_as_it_is(units):
    node = stored(units)
    over = ran(units, node, end=NOON + HOUR, end_lo=NOON + HOUR, dirty=True)
    over = metered(units, over, BOOK, NOON + HOUR)
    metered(units, ran(units, node, start=NOON + 2 * HOUR), BOOK, NOON + 2 * HOUR)
    before = shown(units, node, now=NOON + 3 * HOUR)
    metered(units, over, BOOK, NOON + 2 * HOUR)
    assert shown(units, node, now=NOON + 3 * HOUR) == before
    assert before["cost"] == "19.200000000"
