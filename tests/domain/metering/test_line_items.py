"""The lines of usage: together they are the whole, to the nano-dollar, however time is cut."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import desired_entries, subtract_used
from service.domain.metering.line_items import lines_of, make_meters
from service.domain.metering.meter import Meter
from service.domain.metering.reservation import Reservation, usage_of
from service.domain.money import half_even
from service.domain.pricing.discounts import Discount
from service.domain.pricing.price_book import PriceBook, ReservedPrice, Sku, reservation_in
from service.domain.pricing.purchases import pool_of
from tests import factories
from tests.domain.drawn import moderate
from tests.hands import NOON

CALENDAR = 840_000_000
END = NOON + 3 * DAY
ANYONE = pool_of("lab", "us-west4-a")


def reservation(**changes):
    return replace(
        Reservation("r-1", "autumn", "lab", "us-west4-a", "v5e", 64, NOON, END), **changes
    )


def book(*purchases, prices=()):
    shipped = (
        factories.price(CALENDAR, id="calendar", model="calendar"),
        factories.price(1_200_000_000, id="list"),
        *prices,
    )
    return PriceBook(shipped, purchases=[purchase.purchase for purchase in purchases])


def reserved(start=NOON, end=END, chips=8, pool=ANYONE, **changes):
    sku = Sku("v5e", ProvisioningModel.RESERVED, "us-west4", pool=pool)
    ends = {"end": end, "end_lo": end}
    return factories.usage(chips=chips, sku=sku, start=start, **ends, **changes)


# ---- what nobody used

SPANS = st.tuples(st.integers(-HOUR, 80 * HOUR), st.integers(0, 80 * HOUR))
RUNS = st.lists(st.tuples(SPANS, st.sampled_from([1, 4, 8, 16])), max_size=5)
CUTS = st.lists(st.integers(NOON, END), max_size=4)
NEW_PRICES = st.dictionaries(st.integers(NOON - HOUR, END + HOUR), st.integers(1, 3 * 10**9))


@moderate
@given(RUNS, CUTS, NEW_PRICES)
def test_what_is_used_and_what_is_not_are_the_whole_of_what_was_bought(runs, cuts, changes):
    later = [
        factories.price(nanos, at, id=f"calendar/{at}", model="calendar")
        for at, nanos in changes.items()
    ]
    prices, bought = book(reservation(), prices=later), usage_of(reservation(), "u-1")
    used = [
        reserved(NOON + begin, NOON + begin + length, chips, id=f"u-{number}-of-a-node")
        for number, ((begin, length), chips) in enumerate(runs)
    ]
    *inside, rest = make_meters([bought, *used], prices, END)
    whole = Meter(bought, prices, END)
    edges = sorted({NOON, *cuts, END})
    for left, right in pairwise(edges):
        charged = sum(
            meter.charge_in(max(left, cut.start), min(right, cut.end))
            for meter in inside
            for cut in meter.cuts
            if isinstance(cut.price, ReservedPrice) and max(left, cut.start) < min(right, cut.end)
        )
        assert charged + rest.charge_in(left, right) == whole.charge_in(left, right)
        assert rest.list_charge_in(left, right) == rest.charge_in(left, right)
    assert rest.total_charge() == sum(
        rest.charge_in(left, right) for left, right in pairwise(edges)
    )
    posted = subtract_used(desired_entries(whole, NOON, END), _by_hour(inside))
    assert sum(entry.amount for entry in posted.values()) == rest.total_charge()
    assert sum(e.chip_seconds for e in posted.values()) == rest.chip_seconds_in(NOON, END)


def _by_hour(inside):
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for meter in inside:
        for slot, entry in desired_entries(meter, meter.usage.start, meter.end).items():
            if reservation_in(slot.price_id):
                amount, seconds = found.get((slot.hour, slot.price_id), (0, 0))
                found[slot.hour, slot.price_id] = (
                    amount + entry.amount,
                    seconds + entry.chip_seconds,
                )
    return found


def test_a_reservation_that_nobody_uses_costs_all_of_it():
    (rest,) = make_meters([usage_of(reservation(), "u-1")], book(reservation()), NOON + DAY)
    assert rest.total_charge() == 64 * 24 * CALENDAR
    assert rest.chip_seconds_in(NOON, rest.end) == 64 * DAY
    assert rest.total_uncertainty() == 0


def test_an_hour_that_is_used_to_the_full_leaves_no_line():
    bought, everything = usage_of(reservation(), "u-1"), reserved(chips=64)
    prices = book(reservation())
    used = _by_hour([Meter(everything, prices, END)])
    assert subtract_used(desired_entries(Meter(bought, prices, END), NOON, END), used) == {}


def test_a_node_pays_the_calendars_price_while_it_lasts_and_names_what_was_bought():
    one = reservation(start=NOON + HOUR)
    meter = Meter(reserved(), book(one), END)
    before, within = meter.cuts
    assert (before.price, before.end) == (None, NOON + HOUR), "nobody knows what that cost"
    assert within.price is not None
    assert reservation_in(within.price.id) == one.id
    assert within.price.source.endswith("in the reservation autumn")
    assert meter.total_charge() == half_even(8 * CALENDAR * (END - NOON - HOUR), HOUR)
    assert meter.list_charge_in(NOON + HOUR, END) == 8 * 71 * 1_200_000_000
    assert book(one).with_id(within.price.id) == within.price


def test_without_a_price_of_the_calendar_what_was_entered_for_reserved_capacity_counts():
    entered = factories.price(900_000_000, id="manual/x", model="reserved")
    prices = PriceBook([entered], purchases=[reservation().purchase])
    sku = usage_of(reservation(), "u-1").sku
    price = prices.find_price(sku, NOON)
    assert price is not None
    assert price.per_chip_hour == 900_000_000
    assert prices.find_price(sku, END) == entered, "it is over, and the plain price counts again"
    assert PriceBook((), purchases=[reservation().purchase]).find_price(sku, NOON) is None


def test_nothing_is_left_of_a_record_that_was_withdrawn():
    wrong = usage_of(reservation(withdrawn_at=NOON, reason="twice"), "u-1")
    (rest,) = make_meters([wrong], book(), END)
    assert (rest.total_charge(), rest.unpriced_seconds()) == (0, 0)


def test_who_is_charged_for_a_reservation_is_who_bought_it():
    whose = {"r-1": [Attribution("r-1", team="infra")]}
    (rest,) = make_meters([usage_of(reservation(), "u-1")], book(reservation()), END, whose)
    ((_, _, one),) = rest.attributed_parts(NOON, END)
    assert one.team == "infra"


# ---- the user's own virtual machine

N1 = factories.price(380_000_000, generation="n1-standard-8", unit="vm_hour", id="n1")


def driven(**changes):
    return factories.usage(vm="n1-standard-8", vm_model="on_demand", **changes)


def test_a_machine_is_a_line_of_its_own_beside_its_tpu():
    usage = driven(end=NOON + 90, end_lo=NOON + 90)
    tpu, vm = make_meters([usage], PriceBook([factories.price(), N1]), NOON + DAY)
    assert tpu.total_charge() == half_even(8 * 1_200_000_000 * 90, HOUR)
    assert vm.total_charge() == half_even(380_000_000 * 90, HOUR)
    assert (vm.usage.accelerator_type, vm.chip_seconds_in(NOON, vm.end)) == ("n1-standard-8", 0)
    (entry,) = desired_entries(vm, NOON, vm.end).values()
    assert (entry.vm_seconds, entry.chip_seconds, entry.usage_id) == (90, 0, usage.id)


def test_a_machine_has_no_free_minute_of_a_tpu():
    usage = driven(end=NOON + 50, end_lo=NOON + 50, free="preempted in its first minute")
    tpu, vm = make_meters([usage], PriceBook([factories.price(), N1]), NOON + DAY)
    assert tpu.total_charge() == 0 < vm.total_charge()


def test_a_machine_whose_price_nobody_knows_is_unpriced_and_not_free():
    tpu, vm = make_meters([driven(end=NOON + 90, end_lo=NOON + 90)], factories.book(), NOON + DAY)
    assert (tpu.unpriced_seconds(), vm.unpriced_seconds(), vm.total_charge()) == (0, 90, 0)


def test_usage_without_a_machine_is_one_line():
    usage = factories.usage()
    assert lines_of(usage) == (usage,)
    assert [line.vm for line in lines_of(driven())] == ["", ""]


def test_a_discount_on_everything_is_one_on_tpus():
    half = Discount("d-1", "", "", 500_000, 0, None, "our contract")
    of_machines = replace(half, generation="n1-standard-8")
    sku = Sku("n1-standard-8", "on_demand", "us-west4", is_vm=True)
    assert PriceBook([N1], [half]).find_price(sku, NOON) == N1
    less = PriceBook([N1], [of_machines]).find_price(sku, NOON)
    assert less is not None
    assert less.nanos == 190_000_000
