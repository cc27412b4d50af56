"""What cannot be posted keeps nothing else from being posted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from service.application.pricing.reservations import ReservationService
from service.controllers import metering
from service.domain.clock import DAY, HOUR
from service.domain.errors import LeaseLost
from service.domain.metering.reservation import Reservation
from service.domain.money import NANOS
from service.domain.pricing.price_book import Sku
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.controllers.conftest import Lab
from tests.hands import NOON

FINE = Reservation("", "autumn", factories.PROJECT, factories.ZONE, "v5e", 64, NOON, NOON + 2 * DAY)
CHIP_HOUR = 840_000_000
"""What a v5e chip costs in a reservation in us-west4."""

ABSURD = 100_000 * NANOS
"""Dollars for a chip and an hour, of which a hundred thousand are more than can be counted."""


def bought(lab: Lab, **changes):
    service = ReservationService(lab.units, PriceBookCache(), lab.clock, [factories.PROJECT])
    return service.record(replace(FINE, **changes)).shown.reservation


def ran(lab: Lab, **changes):
    node = factories.node()
    with lab.units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id, **changes))
    return node


def posted(lab: Lab, charged_id: str) -> int:
    with lab.units.reading() as unit:
        return sum(line.amount_nanos for line in unit.ledger.list_by_node(charged_id, 0, 10_000))


@pytest.mark.deep
@pytest.mark.parametrize(("begins", "hours"), [(NOON - HOUR, 3), (NOON + HOUR, 1)])
def test_a_reservation_beyond_counting_leaves_the_others_what_is_theirs(lab, begins, hours):
    poisoned = bought(lab, name="poisoned", zone="us-east5-b", chips=100_000)
    fine = bought(lab, start=begins)
    lab.prices.add(factories.price(ABSURD, region="us-east5", model="calendar"))
    lab.clock.pass_(2 * HOUR)
    for _ in range(2):
        lab.metering.tick(lab.lease)
    assert posted(lab, fine.id) == 64 * hours * CHIP_HOUR
    assert posted(lab, poisoned.id) == 0


@pytest.mark.deep
def test_a_node_beyond_counting_leaves_the_others_what_is_theirs(lab):
    lab.prices.add(factories.price(ABSURD, region="us-east5"))
    far = Sku("v5e", "on_demand", "us-east5")
    first, poisoned, last = ran(lab), ran(lab, chips=2_000_000, sku=far), ran(lab)
    lab.clock.pass_(HOUR)
    for _ in range(2):
        lab.metering.tick(lab.lease)
    fine = 9_600_000_000
    assert [posted(lab, node.id) for node in (first, poisoned, last)] == [fine, 0, fine]


def test_who_lost_the_lease_posts_nothing(lab):
    one = bought(lab)
    lab.clock.pass_(2 * HOUR)
    lost = lab.lease
    lab.start_daemon("second")
    with pytest.raises(LeaseLost):
        lab.metering.tick(lost)
    assert posted(lab, one.id) == 0


def test_many_that_cannot_be_posted_hold_up_nobody_and_are_tried_again(lab, monkeypatch):
    monkeypatch.setattr(metering, "BATCH", 2)
    lab.prices.add(factories.price(ABSURD, region="us-east5"))
    far = Sku("v5e", "on_demand", "us-east5")
    poisoned = [ran(lab, chips=2_000_000, sku=far, start=NOON - HOUR) for _ in range(5)]
    fine = [ran(lab) for _ in range(3)]
    lab.clock.pass_(HOUR)
    with capture_logs() as logs:
        lab.metering.tick(lab.lease)
        lab.metering.tick(lab.lease)
    failed = [entry["of"] for entry in logs if entry["event"] == "metering.failed"]
    assert sorted(failed) == sorted(node.id for node in poisoned), "each is tried once"
    assert all(posted(lab, node.id) for node in fine)
    lab.clock.pass_(metering.ASIDE_SECONDS)
    with capture_logs() as logs:
        lab.metering.tick(lab.lease)
    assert len([entry for entry in logs if entry["event"] == "metering.failed"]) == 5
