"""Costs as they are answered: from what is posted where that can be, as it is in the usage."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.application.costs.aggregation import CostTally
from service.application.costs.costs import CostQuestion, CostService
from service.controllers.recording.posting import post_usage
from service.domain.clock import DAY, HOUR
from service.domain.metering.attribution import Attribution
from service.domain.metering.meter import Evidence, Meter
from service.domain.time_window import Granularity, parse_window, split_into_buckets
from service.store.unit import Units
from tests import factories
from tests.hands import NOON, HandClock
from tests.store.given import GivenPrices, stored

NOW = NOON + 9 * DAY + 1_234
BOOK = factories.book(factories.price(), factories.price(777_777_777, NOON + 2 * DAY + 99))
WHOLE_HOURS = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Pacific/Auckland", "Africa/Abidjan"]

SPANS = st.tuples(st.integers(0, 7 * DAY), st.one_of(st.none(), st.integers(0, 40 * HOUR)))
CHANGES = st.dictionaries(st.integers(NOON, NOON + 8 * DAY), st.sampled_from(["nlp", "speech"]))
NODES = st.lists(st.tuples(SPANS, CHANGES), min_size=1, max_size=4)

a_few = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def lived_through(units, nodes, book=BOOK, doubt=0):
    """Nodes that ran, and whose they were by the node: all of it posted up to the last hour. It is
    unknown for `doubt` seconds when each started and ended."""
    found = []
    with units() as unit:
        before = list(unit.usage.iter_overlapping(0, 2 * NOON))
    for (after_noon, span), changes in nodes:
        node = stored(units, team="vision")
        start = NOON + after_noon
        end = None if span is None else start + span
        usage = factories.usage(
            node_id=node.id,
            start=start,
            start_hi=start + doubt,
            end=end,
            end_lo=None if end is None else max(start, end - doubt),
        )
        later = [Attribution(node.id, at, team=team) for at, team in sorted(changes.items())]
        with units() as unit:
            usage = unit.usage.save(usage)
            for row in later:
                unit.attributions.add(row, NOON)
            post_usage(unit, usage, book, NOW)
        found.append(usage)
    return [*before, *found]


def metered(units, usages, question, tz):
    """The rows as they come of the usage itself, whatever the ledger says."""
    window = parse_window(question.window, ZoneInfo(tz), NOW)
    tally = CostTally(
        question.aggregate, {}, list(split_into_buckets(window, question.step, ZoneInfo(tz)))
    )
    for usage in usages:
        with units.reading() as unit:
            meter = Meter(usage, BOOK, NOW, unit.attributions.list_by_node(usage.node_id))
        tally.add_usage(meter, since=usage.start)
    return tally.list_rows()


@pytest.mark.deep
@a_few
@given(
    NODES,
    st.sampled_from(WHOLE_HOURS),
    st.sampled_from(list(Granularity)),
    st.sampled_from(["12d", "2026-11-06,2026-11-10", "2026-11-06T05:00:00Z,2026-11-09T07:00:00Z"]),
    st.sampled_from([(), ("team",), ("node", "team"), ("region",)]),
)
def test_what_is_posted_is_told_by_any_calendar_of_full_hours(units, nodes, tz, step, window, by):
    usages = lived_through(units, nodes)
    question = CostQuestion(window, by, step, tz)
    report = CostService(units, GivenPrices(BOOK), lambda: NOW).report(question)
    assert report.rows == metered(units, usages, question, tz)


@pytest.mark.parametrize("step", [Granularity.DAY, Granularity.HOUR])
@pytest.mark.parametrize(
    ("tz", "metered_anew"),
    [("UTC", 0), ("Europe/Berlin", 0), ("America/New_York", 0), ("Asia/Kolkata", 1)],
)
def test_nothing_that_is_posted_is_metered_anew_where_days_begin_on_a_full_hour(
    units: Units,
    clock: HandClock,
    monkeypatch: pytest.MonkeyPatch,
    tz: str,
    metered_anew: int,
    step: Granularity,
) -> None:
    lived_through(units, [((0, HOUR), {})])
    clock.now = NOW
    metered = []
    monkeypatch.setattr(
        CostTally, "add_usage", lambda _, meter, since: metered.append((meter, since))
    )
    CostService(units, GivenPrices(BOOK), clock).report(
        CostQuestion("2026-11-01,2026-11-10", ("team",), step, tz)
    )
    assert len(metered) == metered_anew


RAGGED = [
    "2026-11-06T05:00:00Z,2026-11-09T07:13:21Z",
    "2026-11-06T05:00:00Z,2026-11-06T06:00:01Z",
    "2026-11-06T05:00:00Z,2026-11-06T05:59:59Z",
    "2026-11-06T05:07:00Z,2026-11-09T07:13:21Z",
    "2026-11-08,2026-11-14T12:20:33Z",
]
PRICED_LATE = factories.book(
    factories.price(1_200_000_007, NOON + DAY), factories.price(777_777_777, NOON + 2 * DAY + 99)
)


@pytest.mark.deep
@pytest.mark.parametrize("window", RAGGED)
@settings(max_examples=8, parent=a_few)
@given(
    NODES,
    st.sampled_from([HOUR, 3 * DAY]),
    st.sampled_from(["UTC", "Asia/Kolkata"]),
    st.sampled_from(list(Granularity)),
    st.sampled_from([(), ("team",), ("node",)]),
)
def test_a_window_that_ends_within_an_hour_is_what_its_usage_cost(
    units: Units, window: str, nodes: list[Any], doubt: int, tz: str, step: Granularity, by: Any
) -> None:
    """Rows, the uncertainty, the seconds without a price, and whether something runs."""
    usages = lived_through(units, nodes, PRICED_LATE, doubt)
    question = CostQuestion(window, by, step, tz)
    report = CostService(units, GivenPrices(PRICED_LATE), lambda: NOW).report(question)
    parts = list(split_into_buckets(report.window, step, ZoneInfo(tz)))
    tally = CostTally(by, {}, parts)
    with units.reading() as unit:
        for usage in usages:
            whose = unit.attributions.list_by_node(usage.node_id)
            meter = Meter(usage, PRICED_LATE, NOW, whose)
            tally.add_open(meter)
            tally.add_usage(meter, since=usage.start)
            tally.add_doubts(meter, posted_only=False)
    assert report.rows == tally.list_rows()
    assert report.uncertainty == tally.uncertainty
    assert report.unpriced_seconds == tally.unpriced_seconds
    assert report.estimated is tally.estimated


def test_of_a_window_that_ends_within_an_hour_only_that_hour_is_metered(
    units: Units, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that ended before the hour, one that ended after it, and one that runs."""
    long_gone, ended, running = lived_through(
        units, [((0, HOUR), {}), ((HOUR, 30 * HOUR), {}), ((2 * HOUR, None), {})]
    )
    metered = []
    monkeypatch.setattr(
        CostTally,
        "add_usage",
        lambda _, meter, since: metered.append((meter.usage.node_id, since)),
    )
    CostService(units, GivenPrices(BOOK), lambda: NOW).report(
        CostQuestion("2026-11-01,2026-11-06T15:10:00Z", ("team",))
    )
    cut = NOON + DAY + 3 * HOUR
    assert sorted(metered) == sorted([(ended.node_id, cut), (running.node_id, cut)])
    assert long_gone.node_id not in dict(metered)


@pytest.mark.parametrize("window", ["12d", "2026-11-01,2026-11-14T12:15:00Z"])
def test_a_node_that_changes_hands_within_the_unposted_hour_is_charged_to_both(
    units: Units, window: str
) -> None:
    """It runs since noon of the fifth day at the second price, all but 1,234 seconds posted."""
    lived_through(units, [((5 * DAY, None), {NOW - 500: "nlp"})])
    report = CostService(units, GivenPrices(BOOK), lambda: NOW).report(
        CostQuestion(window, ("team",), Granularity.ALL)
    )
    seconds = {row.group[0]: row.chip_seconds // 8 for row in report.rows}
    until = NOW if window == "12d" else NOW - 334
    assert seconds == {"vision": NOW - 500 - (NOON + 5 * DAY), "nlp": until - (NOW - 500)}


def test_usage_with_a_known_end_to_come_is_charged_once_in_an_hour_that_is_metered(
    units: Units,
) -> None:
    """A reservation is open and has an end. Here the price book does not know it."""
    node = stored(units, team="vision")
    bought = factories.usage(
        node_id=node.id,
        start=NOON,
        end=NOW + DAY,
        end_lo=NOW + DAY,
        start_evidence=Evidence.PURCHASE,
    )
    with units() as unit:
        unit.usage.save(bought)
    report = CostService(units, GivenPrices(BOOK), lambda: NOW).report(
        CostQuestion("2026-11-05T13:00:00Z,2026-11-05T13:10:00Z", (), Granularity.ALL)
    )
    assert report.chip_seconds == 8 * 600
