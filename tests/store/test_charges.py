"""The ledger as a stream of charges: what is billed in a window, and what each row is about."""

from __future__ import annotations

import json

import pytest

from service.domain.billing_period import period_of
from service.domain.catalog.provisioning import Architecture
from service.domain.clock import DAY, HOUR
from service.domain.costs.charge import ChargeKind
from service.domain.metering.attribution import Attribution
from service.domain.metering.ledger import LedgerSlot
from service.domain.nodes.placement import Placement
from service.store import charges as store
from tests import books, factories
from tests.hands import NOON
from tests.purchases import metered, ran_reserved
from tests.store.given import entry, posted, ran, stored

MONTH = period_of(NOON)
BOOK = {"test/0": factories.price()}


def billed(units, start=MONTH.start, end=MONTH.end, price_of=BOOK.get):
    with units.reading() as unit:
        return list(unit.charges.iter_billed(start, end, price_of))


def hours(usage, *starts, **changes):
    """Lines for whole hours of that usage."""
    return [
        entry(usage, start, slot=LedgerSlot(start, "test/0", 0, 1_200_000_000), **changes)
        for start in starts
    ]


def test_a_charge_says_what_the_ledger_says_and_what_it_is_about(units):
    node = stored(units, cloud_id="trainer-1", labels={"run": "17"})
    posted(units, usage := ran(units, node), [entry(usage)])
    (charge,) = billed(units)
    assert (charge.start, charge.end, charge.number) == (NOON, NOON + HOUR, 0)
    assert (charge.quantity, charge.unit_price) == (28_800, 1_200_000_000)
    assert (charge.amount, charge.list_amount, charge.currency) == (9_600_000_000,) * 2 + ("USD",)
    assert (charge.price_id, charge.price) == ("test/0", factories.price())
    assert charge.period is None
    assert json.loads(charge.tags) == {"run": "17", "team": "vision", "user": "ada"}
    of = charge.resource
    assert of.path == "projects/lab/locations/us-west4-a/nodes/trainer-1"
    assert (of.name, of.kind, of.project, of.region) == (
        node.name,
        ChargeKind.TPU_VM,
        "lab",
        "us-west4",
    )
    assert (of.generation, of.accelerator_type, of.model) == ("v5e", "v5litepod-8", "on_demand")


def test_a_charge_is_in_the_window_that_it_begins_in(units):
    usage = ran(units, stored(units))
    posted(units, usage, hours(usage, NOON, NOON + HOUR, NOON + 2 * HOUR))
    assert [charge.start for charge in billed(units, NOON, NOON + 2 * HOUR)] == [NOON, NOON + HOUR]
    assert [charge.start for charge in billed(units, NOON + 1, NOON + HOUR + 1)] == [NOON + HOUR]
    assert billed(units, NOON + 1, NOON + HOUR) == []


def test_what_corrects_a_closed_month_is_billed_in_the_month_in_which_it_was_found(units):
    """So that the file of a closed month never changes."""
    usage = ran(units, stored(units))
    september = NOON - 60 * DAY
    posted(units, usage, [*hours(usage, september, amount=5), *hours(usage, NOON)])
    late, now = billed(units)
    assert (late.start, late.amount, late.period) == (september, 5, MONTH.start)
    assert (now.start, now.period) == (NOON, None)
    assert billed(units, *_month(september)) == []


def _month(instant):
    month = period_of(instant)
    return month.start, month.end


def test_charges_come_by_start_and_node_whatever_the_order_of_posting(units):
    first, second = sorted((stored(units), stored(units)), key=lambda node: node.id)
    for node, start in ((second, NOON + HOUR), (second, NOON), (first, NOON + HOUR), (first, NOON)):
        posted(units, usage := ran(units, node, end=NOON), hours(usage, start))
    found = [(charge.start, charge.resource.name) for charge in billed(units)]
    assert found == [
        (NOON, first.name),
        (NOON, second.name),
        (NOON + HOUR, first.name),
        (NOON + HOUR, second.name),
    ]


def test_of_lines_that_begin_at_once_the_first_that_was_posted_comes_first(units):
    """Else the same export twice could be two: a database answers in any order it likes."""
    node = stored(units, slices=3)
    for number in (2, 0, 1):
        usage = ran(units, node, id=f"u-{2 - number}", slice=number)
        posted(units, usage, [entry(usage)])
    names = [charge.resource.name for charge in billed(units)]
    assert names == [f"{node.name}-2", f"{node.name}-0", f"{node.name}-1"]


def test_adjustments_are_numbered_and_the_number_is_no_surrogate(units):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage), entry(usage, number=1, chip_seconds=-8, amount=-5)])
    found = {charge.number: charge.amount for charge in billed(units)}
    assert found == {0: 9_600_000_000, 1: -5}


def test_each_segment_of_an_attribution_has_tags_of_its_own(units):
    node = stored(units)
    with units() as unit:
        later = Attribution(node.id, NOON + 1_800, owner="bob", team="nlp", job="j-1")
        unit.attributions.add(later, NOON)
    usage = ran(units, node)
    slot = LedgerSlot(NOON, "test/0", NOON + 1_800, 1_200_000_000)
    posted(units, usage, [entry(usage), entry(usage, slot=slot, charge_start=NOON + 1_800)])
    assert [json.loads(charge.tags) for charge in billed(units)] == [
        {"team": "vision", "user": "ada"},
        {"job": "j-1", "team": "nlp", "user": "bob"},
    ]


def test_a_slice_has_a_name_of_its_own(units):
    node = stored(units, cloud_id="pod", slices=2, chips=16)
    for number in (0, 1):
        posted(units, usage := ran(units, node, slice=number), [entry(usage)])
    found = sorted((charge.resource.name, charge.resource.path[-5:]) for charge in billed(units))
    assert found == [(f"{node.name}-0", "pod-0"), (f"{node.name}-1", "pod-1")]


def test_a_node_that_was_placed_anew_is_called_what_it_was_called_then(units):
    node = stored(units, cloud_id="n-3", attempt=3, zone="us-east1-c")
    with units() as unit:
        for attempt, zone, start in ((1, "us-west4-a", 0), (2, "us-west4-a", HOUR)):
            unit.placements.add(placement(node, attempt, zone, NOON + start))
    for start in (NOON + 60, NOON + HOUR + 60):
        usage = factories.usage(node_id=node.id, start=start, end=start + 60)
        with units() as unit:
            usage = unit.usage.save(usage)
        posted(units, usage, [entry(usage, charge_start=start, charge_end=start + 60)])
    assert [charge.resource.path.rpartition("/")[2] for charge in billed(units)] == ["n-1", "n-2"]


def placement(node, attempt, zone, started_at):
    return Placement(
        node_id=node.id,
        attempt=attempt,
        zone=zone,
        model=node.spec.provisioning_model,
        cloud_id=f"n-{attempt}",
        started_at=started_at,
        project=node.spec.project,
    )


def test_a_legacy_node_is_known_for_one(units):
    node = stored(units, architecture=Architecture.NODE)
    posted(units, usage := ran(units, node), [entry(usage)])
    assert billed(units)[0].resource.kind is ChargeKind.TPU_NODE


def test_the_machine_that_drives_a_legacy_node_is_a_charge_of_its_own(units, clock):
    """Its name nobody told us, so that it bears none that could be taken for Google's."""
    node = books.legacy(units, NOON - 2 * HOUR, NOON - HOUR)
    metered(units, clock)
    machine, tpu = billed(units, price_of={}.get)
    assert (tpu.quantity, tpu.amount) == (4 * HOUR, books.TPU_HOUR)
    assert (machine.quantity, machine.amount) == (HOUR, books.MACHINE_HOUR)
    of = machine.resource
    assert (of.kind, of.name) == (ChargeKind.MACHINE, "VM of old")
    assert of.path == f"tpu-steward/vm-of/{tpu.resource.path}"
    assert (of.generation, of.accelerator_type, of.model) == ("n1-standard-8",) * 2 + ("on_demand",)
    assert (of.zone, machine.tags) == (node.zone, tpu.tags)


def test_what_of_a_reservation_nobody_used_is_a_charge_of_the_reservation(units, clock):
    books.reservation(units, clock)
    metered(units, clock)
    first, *rest = billed(units, price_of={}.get)
    assert (len(rest), first.quantity, first.amount) == (23, 8 * HOUR, 8 * books.CHIP_HOUR)
    of = first.resource
    assert (of.kind, of.name) == (ChargeKind.RESERVATION, "march")
    assert of.path == of.reservation == "projects/lab/locations/us-west4-a/reservations/march"
    assert (of.generation, of.accelerator_type, of.model) == ("v5e", "v5e", "reserved")
    assert json.loads(first.tags) == {"order": "4711", "team": "infra"}


def test_what_ran_in_a_reservation_is_told_of_by_the_ledger_and_else_by_the_request(units, clock):
    """The node names none; the second runs on when the reservation is over."""
    over = books.START + DAY
    books.reservation(units, clock)
    ran_reserved(units, over - HOUR, over, name="a")
    ran_reserved(units, over - HOUR, over + HOUR, name="b", reservation="march")
    with units() as unit:
        unit.prices.add(factories.price(900_000_000, id="manual/1", model="reserved"))
    metered(units, clock)
    path = "projects/lab/locations/us-west4-a/reservations/march"
    found = [charge for charge in billed(units) if charge.resource.kind is ChargeKind.TPU_VM]
    assert [
        (charge.resource.name, charge.start - over, charge.resource.reservation) for charge in found
    ] == [
        ("a", -HOUR, path),
        ("b", -HOUR, path),
        ("b", 0, "march"),
    ]


def test_a_price_that_the_book_does_not_know_is_still_charged(units):
    posted(units, usage := ran(units, stored(units)), [entry(usage)])
    (charge,) = billed(units, price_of={}.get)
    assert (charge.price, charge.price_id, charge.amount) == (None, "test/0", 9_600_000_000)


def test_the_list_price_of_what_was_posted_before_it_was_kept_is_not_known(units):
    usage = ran(units, stored(units))
    slot = LedgerSlot(NOON, "test/0", 0, None)
    posted(units, usage, [entry(usage, slot=slot, list_amount=None)])
    (charge,) = billed(units)
    assert (charge.list_price, charge.list_amount) == (None, None)


@pytest.mark.parametrize("kept", [0, 10_000])
def test_a_stream_is_the_same_in_whatever_chunks_it_is_read(units, clock, monkeypatch, kept):
    books.kept(units, clock)
    whole = billed(units)
    monkeypatch.setattr(store, "CHUNK", 2)
    monkeypatch.setattr(store, "_KEPT", kept)
    assert billed(units) == whole
    assert {charge.resource.kind for charge in whole} == set(ChargeKind) - {ChargeKind.COMMITMENT}
