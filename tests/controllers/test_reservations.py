"""A reservation is charged to its last second: what nodes use of it, and what nobody does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from service.application.attention.attention import AttentionService
from service.application.budgets.budgets import BudgetService
from service.application.costs.costs import CostQuestion, CostService
from service.application.costs.forecasts import ForecastService
from service.application.health import ComingSum, HealthService
from service.application.pricing.reservations import ReservationService
from service.controllers.recording.posting import post_unused, post_usage
from service.domain.attention.waste import WasteKind, WasteSum
from service.domain.billing_period import GRACE, period_of
from service.domain.budgets.budget import OnExceeded, Scope
from service.domain.clock import DAY, HOUR
from service.domain.errors import BudgetExceeded, Conflict, NotFound, Rejected
from service.domain.metering.meter import Evidence
from service.domain.metering.reservation import Reservation
from service.domain.money import half_even
from service.domain.nodes.node import NodeState
from service.domain.pricing.price_book import Sku
from service.domain.pricing.purchases import pool_of
from service.domain.time_window import Granularity
from service.store.pricebook import PriceBookCache
from tests import factories
from tests.controllers.budgeting import lasting
from tests.hands import NOON

CALENDAR = 840_000_000
"""Nano-dollars for a v5e chip for an hour in us-west4, as the shipped book has it."""

EVER = "2026-01-01,2028-01-01"
AUTUMN = Reservation(
    id="",
    name="autumn",
    project=factories.PROJECT,
    zone=factories.ZONE,
    generation="v5e",
    chips=64,
    start=NOON,
    end=NOON + 2 * DAY,
    team="infra",
)


class Buyer:
    """Whoever buys by the calendar, and the nodes that run in what was bought."""

    def __init__(self, lab):
        self.lab = lab
        shared = lab.units, PriceBookCache(), lab.clock
        self.reservations = ReservationService(*shared, [factories.PROJECT])
        self.budgets = BudgetService(*shared, lab.costs)
        self.nodes = []

    def record(self, **changes):
        return self.reservations.record(replace(AUTUMN, **changes)).shown.reservation

    def runs(self, start=NOON, end=None, chips=8, name="", **changes):
        """A node on reserved capacity, seen from `start` on."""
        node = factories.node(
            chips=chips,
            provisioning_model="reserved",
            reservation=name,
            state=NodeState.READY,
            ready_at=start,
            sent_at=start,
            **changes,
        )
        sku = Sku(
            "v5e",
            "reserved",
            "us-west4",
            single_device=True,
            pool=pool_of(node.spec.project, node.zone, name),
        )
        usage = factories.usage(
            node_id=node.id, chips=chips, start=start, sku=sku, end=end, end_lo=end, dirty=True
        )
        self.nodes.append(node.id)
        with self.lab.units() as unit:
            unit.nodes.add(node)
            usage = unit.usage.save(usage)
        return node, usage

    def revise(self, usage, **changes):
        """More becomes known of a usage, as a controller learns it."""
        with self.lab.units() as unit:
            before = next(
                stored for stored in unit.usage.list_by_node(usage.node_id) if stored.id == usage.id
            )
            after = unit.usage.save(replace(before, **changes, dirty=True))
            return post_usage(unit, after, PriceBookCache().get_book(unit), self.lab.clock())

    def lines(self, reservation):
        return self.reservations.list_ledger_lines(reservation.id, 0, 10_000)

    def ledger(self, reservation):
        """Nano-dollars by hour that the ledger holds for it, of nodes and of nobody."""
        sums: defaultdict[int, int] = defaultdict(int)
        with self.lab.units.reading() as unit:
            for charged in (reservation.id, *self.nodes):
                for line in unit.ledger.list_by_node(charged, 0, 10_000):
                    if line.reservation_id == reservation.id:
                        sums[line.charge_start // HOUR] += line.amount_nanos
        return dict(sums)

    def meter(self):
        self.lab.metering.tick(self.lab.lease)


@pytest.fixture
def buyer(lab):
    return Buyer(lab)


def hours(amounts):
    return sorted(amounts.values())


def test_what_nobody_uses_is_charged_hour_by_hour(buyer, lab):
    one = buyer.record()
    lab.clock.pass_(3 * HOUR + 17)
    buyer.meter()
    lines = buyer.lines(one)
    assert [line.amount_nanos for line in lines] == [64 * CALENDAR] * 3
    assert all(line.reservation_id == line.node_id == one.id for line in lines)
    shown = buyer.reservations.get(one.id)
    assert shown.cost == shown.unused == half_even(64 * CALENDAR * (3 * HOUR + 17), HOUR)
    assert shown.whole == 64 * CALENDAR * 48
    buyer.meter()
    assert buyer.lines(one) == lines, "posting twice posts nothing"


def test_what_nodes_use_is_theirs_and_together_it_is_the_whole(buyer, lab):
    one = buyer.record()
    node, _ = buyer.runs(NOON + 90, NOON + 2 * HOUR + 1_234)
    lab.clock.pass_(4 * HOUR)
    buyer.meter()
    assert hours(buyer.ledger(one)) == [64 * CALENDAR] * 4
    seconds = 2 * HOUR + 1_234 - 90
    assert abs(lab.cost(node) - 8 * CALENDAR * seconds / HOUR) < 1
    shown = buyer.reservations.get(one.id)
    assert shown.unused + lab.cost(node) == shown.cost == 64 * CALENDAR * 4
    assert shown.unused_chip_seconds == 64 * 4 * HOUR - 8 * seconds


def test_a_running_node_and_a_running_reservation_are_the_whole_at_every_second(buyer, lab):
    buyer.record()
    buyer.runs()
    for _ in range(8):
        lab.clock.pass_(1_111)
        total = lab.costs.report(CostQuestion(EVER, step=Granularity.ALL)).total
        by_usage = lab.costs.report(CostQuestion(EVER, step=Granularity.HOUR)).total
        assert total == by_usage
        assert abs(total - 64 * CALENDAR * (lab.clock() - NOON) / HOUR) <= 1
        buyer.meter()
        assert lab.costs.report(CostQuestion(EVER, step=Granularity.ALL)).total == total


def test_the_hour_waits_for_what_ran_in_it(buyer, lab):
    """A node whose hours are not posted yet may have used some of it."""
    one = buyer.record()
    _, usage = buyer.runs()
    lab.clock.pass_(3 * HOUR)
    with lab.units(lab.lease) as unit:
        unit.usage.save(replace(usage, dirty=False, posted_until=NOON + HOUR))
        book = PriceBookCache().get_book(unit)
        post_unused(unit, unit.usage.get_purchase(one.id), book, lab.clock())
    assert {line.charge_end for line in buyer.lines(one)} == {NOON + HOUR}


def test_of_an_hour_that_is_not_known_to_its_end_nothing_is_posted(buyer, lab):
    """The hour turns while the metering is at work: it has posted what ended, not what runs."""
    one = buyer.record(chips=16)
    buyer.runs(NOON + 600, NOON + 2_400)
    lab.clock.pass_(HOUR - 1)
    buyer.meter()
    buyer.runs(NOON + 1_200)
    lab.clock.pass_(2)
    with lab.units(lab.lease) as unit:
        post_unused(
            unit, unit.usage.get_purchase(one.id), PriceBookCache().get_book(unit), lab.clock()
        )
    assert buyer.lines(one) == []
    total = lab.costs.report(CostQuestion(EVER, step=Granularity.ALL)).total
    assert total == lab.costs.report(CostQuestion(EVER, step=Granularity.HOUR)).total
    assert total == half_even(16 * CALENDAR * (HOUR + 1), HOUR)


def test_later_truth_moves_cost_between_a_node_and_nobody_and_nothing_else(buyer, lab):
    one = buyer.record()
    node, usage = buyer.runs(end=NOON + 3 * HOUR)
    lab.clock.pass_(5 * HOUR)
    buyer.meter()
    before = lab.cost(node)
    buyer.revise(usage, end=NOON + 2 * HOUR + 600, end_lo=NOON + 2 * HOUR + 600)
    assert hours(buyer.ledger(one)) == [64 * CALENDAR] * 5, "in the same transaction"
    assert before - lab.cost(node) == 8 * CALENDAR * 3_000 // HOUR
    (adjustment,) = [line for line in buyer.lines(one) if line.kind == "adjustment"]
    assert adjustment.amount_nanos == 8 * CALENDAR * 3_000 // HOUR
    assert adjustment.corrects_id in {line.id for line in buyer.lines(one)}


def test_in_a_closed_month_the_correction_is_of_the_month_in_which_it_is_found(buyer, lab):
    one = buyer.record(end=NOON + DAY)
    _, usage = buyer.runs(end=NOON + 3 * HOUR)
    lab.clock.pass_(period_of(NOON).end + GRACE + HOUR - NOON)
    buyer.meter()
    posted = len(buyer.lines(one))
    buyer.revise(usage, end=usage.end - HOUR, end_lo=usage.end - HOUR)
    later = buyer.lines(one)[posted:]
    assert [line.period for line in later] == [period_of(lab.clock()).start]
    assert sum(buyer.ledger(one).values()) == 64 * CALENDAR * 24


def test_outer_bounds_that_overlap_leave_less_than_nothing_and_still_the_whole(buyer, lab):
    """Nobody knows which of the two had the chips; both are charged, and said to be uncertain."""
    one = buyer.record(chips=8)
    buyer.runs(NOON, NOON + HOUR)
    buyer.runs(NOON + HOUR - 600, NOON + 2 * HOUR)
    lab.clock.pass_(2 * HOUR)
    buyer.meter()
    assert [line.amount_nanos for line in buyer.lines(one)] == [-8 * CALENDAR // 6]
    assert hours(buyer.ledger(one)) == [8 * CALENDAR] * 2


def test_a_record_that_comes_late_gives_its_nodes_their_price(buyer, lab):
    node, _ = buyer.runs()
    lab.clock.pass_(5 * HOUR)
    buyer.meter()
    assert (lab.cost(node), lab.nodes.get_cost(node.id).unpriced_seconds) == (0, 5 * HOUR)
    one = buyer.record(start=NOON + HOUR, end=NOON + 2 * DAY)
    buyer.meter()
    assert lab.nodes.get_cost(node.id).unpriced_seconds == HOUR
    assert lab.posted(node) == 8 * CALENDAR * 4
    assert sum(line.amount_nanos for line in buyer.lines(one)) == 56 * CALENDAR * 4


def test_a_record_that_was_wrong_is_taken_back_and_what_it_said_is_kept(buyer, lab):
    one = buyer.record()
    node, _ = buyer.runs()
    lab.clock.pass_(2 * HOUR)
    buyer.meter()
    lines = buyer.lines(one)
    buyer.reservations.withdraw(one.id, "it was for next year")
    buyer.meter()
    assert sum(buyer.ledger(one).values()) == 0
    assert buyer.lines(one)[: len(lines)] == lines
    assert lab.nodes.get_cost(node.id).unpriced_seconds == 2 * HOUR, "and so is its node's price"
    shown = buyer.reservations.withdraw(one.id, "again")
    assert shown.reservation.reason == "it was for next year"
    assert (shown.cost, shown.unused) == (0, 0)
    again = buyer.record(chips=32)
    buyer.meter()
    assert sum(buyer.ledger(again).values()) == 32 * CALENDAR * 2


def test_the_same_once_more_is_the_one_that_is_there(buyer):
    first = buyer.reservations.record(AUTUMN)
    second = buyer.reservations.record(AUTUMN)
    assert (first.created, second.created) == (True, False)
    assert second.shown.reservation == first.shown.reservation
    with pytest.raises(Conflict):
        buyer.record(chips=32)
    with pytest.raises(Rejected, match="project"):
        buyer.record(project="other")
    with pytest.raises(Rejected, match="why"):
        buyer.reservations.withdraw(first.shown.reservation.id, " ")
    with pytest.raises(NotFound):
        buyer.reservations.get("no-such")


def test_a_price_that_changes_cuts_what_is_unused_as_what_is_used(buyer, lab):
    one = buyer.record()
    node, _ = buyer.runs()
    lab.clock.pass_(1_800)
    price = factories.price(
        CALENDAR // 2, 0, id="", model="calendar", unit="chip_hour", region="us-west4"
    )
    lab.prices.add(price)
    lab.clock.pass_(1_800)
    buyer.meter()
    assert hours(buyer.ledger(one)) == [64 * CALENDAR * 3 // 4]
    assert lab.cost(node) == 8 * CALENDAR * 3 // 4
    assert len(buyer.lines(one)) == 2


def test_it_ends_to_the_second_and_nothing_is_charged_after(buyer, lab):
    one = buyer.record(end=NOON + DAY + 1_800)
    lab.clock.pass_(3 * DAY)
    buyer.meter()
    assert sum(buyer.ledger(one).values()) == 64 * CALENDAR * 49 // 2
    assert buyer.reservations.get(one.id).cost == 64 * CALENDAR * 49 // 2
    assert not lab.costs.report(CostQuestion(EVER)).estimated


def test_before_it_begins_it_costs_nothing(buyer, lab):
    one = buyer.record(start=NOON + 5 * HOUR, end=NOON + 2 * DAY)
    lab.clock.pass_(HOUR)
    buyer.meter()
    assert (buyer.lines(one), buyer.reservations.get(one.id).cost) == ([], 0)
    assert lab.costs.report(CostQuestion(EVER)).total == 0


def test_two_that_are_named_are_kept_apart(buyer, lab):
    autumn, winter = buyer.record(), buyer.record(name="winter", chips=16)
    buyer.runs(name="winter", end=NOON + HOUR)
    lab.clock.pass_(2 * HOUR)
    buyer.meter()
    assert [line.amount_nanos for line in buyer.lines(autumn)] == [64 * CALENDAR] * 2
    assert [line.amount_nanos for line in buyer.lines(winter)] == [8 * CALENDAR, 16 * CALENDAR]


def test_costs_tell_who_used_it_from_who_bought_it_and_did_not(buyer, lab):
    one = buyer.record()
    node, _ = buyer.runs(team="vision")
    lab.clock.pass_(2 * HOUR + 100)
    buyer.meter()
    question = CostQuestion(EVER, ("team", "node"), Granularity.ALL)
    rows = {row.group: row for row in lab.costs.report(question).rows}
    assert set(rows) == {("vision", node.id), ("infra", one.id)}
    assert rows["infra", one.id].list_cost == rows["infra", one.id].cost, "it has saved nothing"
    assert rows["vision", node.id].list_cost > rows["vision", node.id].cost
    assert lab.costs.find_names([one.id, node.id]) == {one.id: "autumn", node.id: node.name}
    with lab.units() as unit:
        unit.costs.rebuild()
    again = {row.group: row for row in lab.costs.report(question).rows}
    assert again == rows


def test_the_evidence_of_both_ends_is_what_was_bought(buyer, lab):
    one = buyer.record()
    with lab.units.reading() as unit:
        usage = unit.usage.get_purchase(one.id)
        (belief,) = unit.usage_versions.list_by_usage(usage.id)
    assert belief.start_evidence == belief.end_evidence == Evidence.PURCHASE


# ---- budgets


def budget(buyer, amount, **changes):
    wanted = factories.budget(amount=amount, on_exceeded=OnExceeded.REFUSE, **changes)
    return buyer.budgets.create(wanted).shown.budget


def test_a_budget_sets_aside_what_is_left_of_a_reservation(buyer, lab):
    whole = 64 * 48 * CALENDAR
    cap = budget(buyer, whole + 10, scope=Scope())
    buyer.record()
    lab.clock.pass_(HOUR)
    buyer.meter()
    standing = buyer.budgets.find_standing(cap)
    assert (standing.spent, standing.held.total) == (whole // 48, whole // 48 * 47)
    with pytest.raises(BudgetExceeded):
        lab.ask(ttl_seconds=HOUR)


def test_who_pays_for_the_reservation_is_not_asked_twice_for_a_node_in_it(buyer, lab):
    whole = 64 * 48 * CALENDAR
    budget(buyer, whole, scope=Scope())
    buyer.record()
    lab.ask(provisioning_model="reserved", ttl_seconds=40 * HOUR)


def test_nor_where_one_reservation_follows_upon_another(buyer, lab):
    whole = 64 * 48 * CALENDAR
    cap = budget(buyer, 3 * whole, scope=Scope())
    buyer.record(start=NOON + 4 * DAY, end=NOON + 6 * DAY, name="third")
    buyer.record(start=NOON + 2 * DAY, end=NOON + 4 * DAY, name="second")
    buyer.record(start=NOON, end=NOON + 2 * DAY, name="first")
    lab.ask(provisioning_model="reserved", ttl_seconds=lasting(6 * DAY))
    assert buyer.budgets.find_standing(cap).held.total == 3 * whole
    with pytest.raises(BudgetExceeded):
        lab.ask(provisioning_model="reserved", ttl_seconds=lasting(6 * DAY) + 1)


def test_a_team_that_did_not_buy_it_pays_for_what_it_uses_of_it(buyer, lab):
    budget(buyer, 8 * CALENDAR * 10, scope=Scope(team="vision"))
    buyer.record()
    with pytest.raises(BudgetExceeded):
        lab.ask(provisioning_model="reserved", ttl_seconds=11 * HOUR)
    lab.ask(provisioning_model="reserved", ttl_seconds=lasting(10 * HOUR))


# ---- what is to come


def ahead(lab):
    shared = lab.units, PriceBookCache(), lab.clock
    return ForecastService(*shared, CostService(*shared)).forecast_period({}).basis


def test_a_forecast_holds_the_rest_of_it_whatever_runs_in_it(buyer, lab):
    buyer.record()
    lab.clock.pass_(HOUR)
    alone = ahead(lab)
    buyer.runs(start=lab.clock())
    buyer.runs(start=lab.clock(), name="autumn", team="nlp")
    lab.clock.pass_(HOUR)
    both = ahead(lab)
    assert (alone.spent, alone.committed) == (64 * CALENDAR, 64 * CALENDAR * 47)
    assert (both.spent, both.running) == (2 * 64 * CALENDAR, ())
    after = both.window.end - (NOON + 2 * DAY)
    assert both.committed == 64 * CALENDAR * 46, "the nodes have no price once it is over"
    assert both.unpriced == 2
    assert after > 0


def test_a_forecast_expects_no_launch_from_what_ran_in_it_for_days(buyer, lab):
    """It is paid for already: whoever launches in it next adds nothing."""
    buyer.record(start=NOON, end=NOON + 25 * DAY)
    buyer.runs(start=NOON)
    for day in range(10):
        buyer.runs(start=NOON + day * DAY, end=NOON + day * DAY + 8 * HOUR)
    lab.clock.pass_(10 * DAY)
    shared = lab.units, PriceBookCache(), lab.clock
    found = ForecastService(*shared, CostService(*shared)).forecast_period({})
    assert found.basis.spent == 64 * CALENDAR * 240
    assert (found.launches.mid, found.basis.running) == (0, ())
    assert found.total.mid == 64 * CALENDAR * 25 * 24


def test_what_is_planned_is_in_the_forecast_before_it_begins(buyer, lab):
    buyer.record(start=NOON + DAY, end=NOON + 2 * DAY)
    assert (ahead(lab).spent, ahead(lab).committed) == (0, 64 * CALENDAR * 24)


def test_the_fleet_burns_what_was_bought_whether_it_is_used_or_not(buyer, lab):
    health = HealthService(lab.units, PriceBookCache(), lab.clock, [factories.PROJECT])
    buyer.record()
    assert (health.read_fleet().burn, health.read_fleet().unused) == (64 * CALENDAR, 64 * CALENDAR)
    buyer.runs(chips=8)
    fleet = health.read_fleet()
    assert (fleet.burn, fleet.ready, fleet.unpriced) == (64 * CALENDAR, 1, 0)
    assert fleet.unused == (64 - 8) * CALENDAR
    assert fleet.unused_reservations == 1
    lab.clock.pass_(2 * DAY)
    assert health.read_fleet().burn == 0


def test_each_reservation_with_unused_chips_is_counted(buyer, lab):
    health = HealthService(lab.units, PriceBookCache(), lab.clock, [factories.PROJECT])
    assert health.read_fleet().unused_reservations == 0
    for name in ("first", "second", "third"):
        buyer.record(name=name)
    fleet = health.read_fleet()
    assert (fleet.reserved, fleet.unused_reservations, fleet.unused_unpriced) == (3, 3, 0)
    assert fleet.unused == 3 * 64 * CALENDAR
    buyer.runs(chips=64)
    fleet = health.read_fleet()
    assert (fleet.unused_reservations, fleet.unused) == (2, 2 * 64 * CALENDAR)
    attention = AttentionService(lab.units, PriceBookCache(), lab.clock, [factories.PROJECT])
    waste = attention.read_waste().by_kind[WasteKind.UNUSED_RESERVATION]
    assert waste == WasteSum(2, 2 * 64 * CALENDAR)


def test_what_comes_on_reserved_capacity_adds_nothing(buyer, lab):
    health = HealthService(lab.units, PriceBookCache(), lab.clock, [factories.PROJECT])
    buyer.record()
    with lab.units() as unit:
        unit.nodes.add(factories.node(provisioning_model="reserved"))
        unit.nodes.add(factories.node())
    assert health.read_fleet().coming == ComingSum(nodes=2, burn=9_600_000_000, unpriced=0)


def test_what_is_over_is_in_the_costs_before_it_is_posted(buyer, lab):
    lab.clock.pass_(3 * DAY)
    one = buyer.record()
    assert lab.costs.report(CostQuestion(EVER)).total == 64 * CALENDAR * 48
    buyer.meter()
    assert lab.costs.report(CostQuestion(EVER)).total == 64 * CALENDAR * 48
    assert sum(buyer.ledger(one).values()) == 64 * CALENDAR * 48
