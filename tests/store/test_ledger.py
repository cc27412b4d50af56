"""The ledger: each line once, in order, for ever."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.domain.billing_period import GRACE, period_of
from service.domain.clock import DAY, HOUR
from service.domain.errors import StaleVersion
from service.domain.metering.ledger import PostedSlot
from tests import factories
from tests.hands import NOON
from tests.store.given import entry, posted, ran, slot, stored

LINE = 9_600_000_000


def test_a_line_comes_back_as_it_was_posted(units):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage)])
    with units.reading() as unit:
        (line,) = unit.ledger.list_by_node(usage.node_id, 0, 10)
    assert (line.usage_id, line.node_id, line.kind) == (usage.id, usage.node_id, "usage")
    assert (line.charge_start, line.charge_end) == (NOON, NOON + HOUR)
    assert (line.amount_nanos, line.chip_seconds, line.currency) == (LINE, 8 * HOUR, "USD")
    assert (line.price_id, line.price_nanos, line.posted_at) == ("test/0", 1_200_000_000, NOON)


def test_the_same_line_cannot_be_posted_twice(units):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage)])
    with pytest.raises(StaleVersion):
        posted(units, usage, [entry(usage, hour=NOON + HOUR), entry(usage)])
    with units.reading() as unit:
        assert len(unit.ledger.list_by_node(usage.node_id, 0, 10)) == 1
        assert unit.costs.sum_by_day(0, 2 * NOON, (), {})[0][2] == LINE


def test_the_largest_amounts_keep_every_nano(units):
    usage = ran(units, stored(units))
    huge = 2**62 - 1
    posted(units, usage, [entry(usage, amount=huge)])
    with units.reading() as unit:
        assert unit.ledger.list_by_node(usage.node_id, 0, 10)[0].amount_nanos == huge
        assert unit.ledger.sum_by_slot(usage, 0)[slot()].amount == huge


def test_what_is_posted_is_summed_by_hour_and_price(units):
    usage, other = ran(units, stored(units)), ran(units, stored(units))
    posted(units, other, [entry(other)])
    posted(
        units,
        usage,
        [
            entry(usage),
            entry(usage, number=1, chip_seconds=-8, amount=-5, list_amount=-5),
            entry(usage, price_id="new", amount=7, price=3),
            entry(usage, hour=NOON + HOUR),
        ],
    )
    with units.reading() as unit:
        found = unit.ledger.sum_by_slot(usage, NOON)
        later = unit.ledger.sum_by_slot(usage, NOON + HOUR)
    assert found[slot()] == PostedSlot(
        2, 8 * HOUR - 8, LINE - 5, LINE - 5, 1_200_000_000, NOON, NOON + HOUR, first_id=2
    )
    assert found[slot(NOON, "new")].amount == 7
    assert set(found) == {slot(), slot(NOON, "new"), slot(NOON + HOUR)}
    assert set(later) == {slot(NOON + HOUR)}


def test_lines_are_read_in_pages_in_the_order_in_which_they_were_posted(units):
    usage = ran(units, stored(units))
    for hour in range(5):
        posted(units, usage, [entry(usage, hour=NOON + hour * HOUR, number=hour % 2)])
    with units.reading() as unit:
        first = unit.ledger.list_by_node(usage.node_id, 0, 3)
        second = unit.ledger.list_by_node(usage.node_id, first[-1].id, 3)
    lines = [*first, *second]
    assert [line.charge_start for line in lines] == [NOON + hour * HOUR for hour in range(5)]
    assert [line.kind for line in lines] == ["usage", "adjustment"] * 2 + ["usage"]


def test_a_line_remembers_who_was_charged_then(units):
    """Naming a team anew today does not rename what it spent yesterday."""
    usage = ran(units, stored(units, team="vision"))
    posted(units, usage, [entry(usage)])
    renamed = factories.attribution(node_id=usage.node_id, since=NOON + HOUR, team="perception")
    with units() as unit:
        unit.attributions.add(renamed, NOON + HOUR)
    later = entry(usage, hour=NOON + HOUR)
    posted(units, usage, [replace(later, slot=later.slot._replace(since=NOON + HOUR))])
    with units.reading() as unit:
        assert [row[1:3] for row in unit.costs.sum_by_day(0, 2 * NOON, ("team",), {})] == [
            (("perception",), LINE),
            (("vision",), LINE),
        ]


def test_what_is_late_for_its_month_is_billed_in_the_present_one(units):
    usage = ran(units, stored(units))
    october = period_of(NOON - 10 * DAY)
    whose = {0: factories.attribution(node_id=usage.node_id)}
    lines = [entry(usage, hour=october.end - HOUR, number=number) for number in range(3)]
    closing = october.end + GRACE
    for line, now in zip(lines, (closing - 1, closing, closing + 40 * DAY), strict=True):
        with units() as unit:
            unit.ledger.post([line], usage, whose, now)
    with units.reading() as unit:
        found = [line.period for line in unit.ledger.list_by_node(usage.node_id, 0, 10)]
    assert found == [None, period_of(closing).start, period_of(closing + 40 * DAY).start]


def test_nothing_to_post_is_no_trouble(units):
    usage = ran(units, stored(units))
    posted(units, usage, [])
    with units.reading() as unit:
        assert unit.ledger.list_by_node(usage.node_id, 0, 10) == []
