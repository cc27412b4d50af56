"""Seconds and nano-dollars through the real controllers, against the cloud's own instants."""

from __future__ import annotations

from dataclasses import replace

from service.application.costs.costs import CostQuestion
from service.application.nodes.nodes import NodeChange
from service.domain.billing_period import GRACE, period_of
from service.domain.clock import DAY, HOUR
from service.domain.idle.rollup import ActivityHour
from service.domain.metering.attribution import Reattribution
from service.domain.metering.ledger import desired_entries
from service.domain.metering.meter import Meter
from service.domain.money import half_even
from service.domain.nodes.node import NodeState
from service.domain.time_window import Granularity
from service.store.pricebook import PriceBookCache
from tests.controllers.conftest import Lab
from tests.hands import NOON

RATE = 8 * 1_200_000_000
"""Nano-dollars an hour of eight v5e chips on demand in us-west4."""


def test_a_node_costs_exactly_its_ready_seconds_however_rarely_it_was_looked_at(lab: Lab) -> None:
    node = lab.ask()
    lab.tick()
    lab.clock.pass_(17)
    ready = lab.cloud.come_up()
    lab.tick(900)
    lab.clock.pass_(2 * HOUR + 311)
    lab.nodes.delete(node.id)
    lab.lifecycle.tick(lab.lease)
    deleted = lab.clock()
    lab.tick(50)
    assert lab.cost(node) == half_even(RATE * (deleted - ready), HOUR) == lab.posted(node)
    assert lab.nodes.get_cost(node.id).uncertainty == 0
    assert not lab.nodes.get_cost(node.id).estimated


def test_the_open_tail_grows_by_the_second_and_is_not_in_the_ledger(lab: Lab) -> None:
    node = lab.up()
    before = lab.cost(node)
    lab.clock.pass_(1)
    assert lab.cost(node) - before in (RATE // HOUR, RATE // HOUR + 1)
    assert lab.posted(node) == 0
    assert lab.nodes.get_cost(node.id).estimated


def test_metering_twice_posts_nothing_and_ten_missed_ticks_post_the_same(lab: Lab) -> None:
    node = lab.up()
    lab.clock.pass_(10 * HOUR)
    lab.metering.tick(lab.lease)
    once = lab.nodes.list_ledger_lines(node.id, 0, 1_000)
    lab.metering.tick(lab.lease)
    assert lab.nodes.list_ledger_lines(node.id, 0, 1_000) == once
    assert len(once) == 10
    assert sum(line.amount_nanos for line in once) == lab.posted(node)


def test_a_preemption_between_two_looks_is_charged_to_the_later_and_says_so(lab: Lab) -> None:
    node = lab.up()
    lab.tick(3_600)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    cost = lab.nodes.get_cost(node.id)
    assert cost.uncertainty == RATE * 15 // HOUR
    assert cost.estimated


def test_the_bracket_of_a_preemption_starts_at_the_last_look_also_after_a_restart(
    lab: Lab,
) -> None:
    node = lab.up()
    lab.tick(3_600)
    looked_at = lab.inventory.looked_at
    with lab.units() as unit:
        unit.leases.take(lab.lease.project, lab.lease.holder, 10, looked_at[lab.lease.project])
    lab.start_daemon("second")
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(600)
    assert lab.nodes.get_cost(node.id).uncertainty == RATE * 600 // HOUR


def test_a_ready_that_no_look_ever_saw_is_charged_from_the_clouds_own_record(lab: Lab) -> None:
    node = lab.ask()
    lab.tick()
    lab.clock.pass_(20)
    lab.cloud.come_up()
    lab.clock.pass_(1_800)
    lab.cloud.become(NodeState.PREEMPTED)
    lab.tick(15)
    assert lab.cost(node) == (RATE * 1_815 + HOUR // 2) // HOUR


def test_the_operation_that_stays_open_after_ready_is_no_evidence(lab: Lab) -> None:
    node = lab.ask()
    lab.tick()
    lab.clock.pass_(20)
    lab.cloud.become(NodeState.READY)
    lab.tick(15)
    cost = lab.nodes.get_cost(node.id)
    assert cost.uncertainty == RATE * 35 // HOUR
    assert lab.node(node).state == NodeState.READY


def test_costs_from_the_rollup_and_from_usage_are_the_same_to_the_nano_dollar(lab: Lab) -> None:
    first = lab.up(name="first", team="vision")
    lab.up(name="second", team="nlp", accelerator_type="v5litepod-4")
    lab.tick(31 * HOUR + 123)
    lab.nodes.delete(first.id)
    lab.tick(7)
    lab.tick(5 * HOUR)
    by_rollup = lab.costs.report(CostQuestion(window="7d", aggregate=("team",)))
    by_usage = lab.costs.report(CostQuestion(window="7d", aggregate=("team", "node")))
    hourly = lab.costs.report(CostQuestion(window="7d", step=Granularity.HOUR, aggregate=("team",)))
    assert by_rollup.total == by_usage.total == hourly.total > 0
    assert by_rollup.chip_seconds == by_usage.chip_seconds
    assert by_rollup.total == sum(row.cost for row in by_rollup.rows)
    with lab.units() as unit:
        unit.costs.rebuild()
    assert lab.costs.report(CostQuestion(window="7d", aggregate=("team",))) == by_rollup


def test_an_empty_ledger_that_is_written_from_the_last_beliefs_is_the_same(lab: Lab) -> None:
    """One that was deleted, one that was taken away between two looks, and one that runs on."""
    deleted, lost, _ = (lab.up(name=name) for name in ("deleted", "lost", "runs"))
    lab.tick(3 * HOUR + 77)
    lab.nodes.delete(deleted.id)
    lab.tick(7)
    lab.clock.pass_(HOUR)
    lab.cloud.become(NodeState.PREEMPTED, lab.node(lost).place.path)
    lab.tick(2 * HOUR)
    with lab.units.reading() as unit:
        usages = list(unit.usage.iter_overlapping(0, lab.clock() + DAY))
        book, seen = PriceBookCache().get_book(unit), set()
        for usage in usages:
            last = unit.usage_versions.list_by_usage(usage.id)[-1]
            start, end, end_lo = last.start_at, last.end_at, last.end_lo
            believed = replace(usage, start=start, end=end, end_lo=end_lo, free=last.free)
            meter = Meter(
                believed, book, usage.posted_until, unit.attributions.list_by_node(usage.node_id)
            )
            wanted = desired_entries(meter, believed.start, meter.end)
            kept = unit.ledger.sum_by_slot(usage, 0)
            assert {slot: (one.amount, one.chip_seconds) for slot, one in wanted.items()} == {
                slot: (one.amount, one.chip_seconds) for slot, one in kept.items()
            }
            seen.add((usage.end is None, bool(usage.uncertain_seconds)))
    assert seen == {(True, False), (False, False), (False, True)}


def test_active_idle_and_unknown_seconds_come_to_the_whole(lab: Lab) -> None:
    node = lab.up()
    lab.tick(HOUR)
    lab.clock.pass_(71)
    with lab.units() as unit:
        unit.idle_rollups.save([ActivityHour(node.id, 1, NOON, "BBIIII......")])
    by_activity = lab.costs.report(CostQuestion(window="24h", aggregate=("activity",)))
    assert sum(row.cost for row in by_activity.rows) == by_activity.total == lab.cost(node)
    seconds = {
        row.group[0]: row.chip_seconds // node.spec.chips
        for row in lab.costs.report(CostQuestion(window="24h", aggregate=("activity",))).rows
    }
    ready_at = lab.node(node).ready_at
    assert ready_at is not None
    until = lab.clock()
    assert seconds == {
        "busy": NOON + 600 - ready_at,
        "idle": 1_200,
        "unknown": until - (NOON + 1_800),
    }
    idle = lab.costs.report(CostQuestion(window="24h", only={"activity": ["idle"]}))
    assert idle.total == sum(row.cost for row in by_activity.rows if row.group == ("idle",))


def test_every_time_zone_comes_to_the_same_total(lab: Lab) -> None:
    lab.up()
    lab.tick(3 * DAY + 1_234)
    totals = {
        lab.costs.report(
            CostQuestion(window="2026-11-01T00:00:00Z,2026-11-20T00:00:00Z", tz=tz)
        ).total
        for tz in ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York", "Pacific/Apia")
    }
    assert len(totals) == 1


def test_another_team_is_charged_from_the_second_on_in_which_that_was_said(lab: Lab) -> None:
    node = lab.up(team="vision", labels={"run": "1"})
    lab.tick(HOUR)
    before = lab.costs.report(CostQuestion(aggregate=("team", "label:run"))).rows
    lab.nodes.update(node.id, NodeChange(Reattribution(team="nlp", labels={"run": "2"})))
    now = lab.clock()
    lab.tick(HOUR)
    lab.tick(1)
    lab.nodes.delete(node.id)
    lab.tick()
    lab.tick()
    report = lab.costs.report(CostQuestion(aggregate=("team", "label:run")))
    assert [(row.group, row.cost) for row in before] == [(("vision", "1"), before[0].cost)]
    charged = {row.group: row.cost for row in report.rows}
    assert charged["vision", "1"] == before[0].cost, "the past is as it was"
    assert report.total == lab.cost(node) == lab.posted(node)
    assert set(charged) == {("vision", "1"), ("nlp", "2")}
    again = lab.costs.report(CostQuestion(aggregate=("team", "label:run"), step=Granularity.HOUR))
    sums: dict[tuple[str, ...], int] = {}
    for row in again.rows:
        sums[row.group] = sums.get(row.group, 0) + row.cost
    assert sums == charged, "the rollup and the usage itself agree"
    assert now > lab.node(node).created_at


def test_what_becomes_known_after_a_month_was_closed_is_billed_in_the_present_one(
    lab: Lab,
) -> None:
    """A node whose end nobody could see for weeks: its month was closed with what was known."""
    node = lab.up()
    lab.tick(HOUR)
    november = period_of(lab.clock())
    lab.clock.now = november.end - 600
    lab.tick(0)
    with lab.units.reading() as unit:
        open_sum, *_ = unit.statements.sum_month(november)
    lab.clock.now = november.end + GRACE + DAY
    lab.metering.tick(lab.lease)
    with lab.units.reading() as unit:
        after, *_ = unit.statements.sum_month(november)
        december, *_ = unit.statements.sum_month(period_of(november.end))
    assert after == open_sum, "a closed month never changes"
    assert after + december == lab.posted(node)
    late = [
        line for line in lab.nodes.list_ledger_lines(node.id, 0, 10_000) if line.period is not None
    ]
    assert {line.period for line in late} == {november.end}
    assert min(line.charge_start for line in late) < november.end


def test_every_version_of_what_was_believed_of_usage_is_kept(lab: Lab) -> None:
    node = lab.up()
    lab.tick(HOUR)
    lab.nodes.delete(node.id)
    lab.tick()
    lab.tick()
    with lab.units.reading() as unit:
        (usage,) = unit.usage.list_by_node(node.id)
        versions = unit.usage_versions.list_by_usage(usage.id)
    assert [version.end_at for version in versions] == [None, usage.end]
    assert versions[-1].start_evidence == usage.start_evidence
    assert versions[0].recorded_at < versions[1].recorded_at
