"""The first page says what is wasted, what needs a person, and what is next."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from service.application.costs.costs import CostQuestion
from service.dashboard.pages.attention import (
    WastePart,
    build_agenda_lists,
    describe_orphans,
    describe_waste,
)
from service.dashboard.pages.costs.spend_chart import format_shares
from service.dashboard.pages.costs.spenders import describe_change
from service.domain.attention.agenda import AgendaEntry, AgendaKind, build_agenda
from service.domain.attention.waste import WasteKind, WasteSource, WasteSum, build_waste_report
from service.domain.budgets.alerts import EXCEEDED, Alert
from service.domain.budgets.budget import Scope
from service.domain.nodes.node import Asked, NodeState
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import links_of, text_of
from tests.hands import NOON

UP, DOWN = "\N{BLACK UP-POINTING TRIANGLE}", "\N{BLACK DOWN-POINTING TRIANGLE}"


def test_waste_names_its_kinds_by_cost_and_what_is_unknown_apart():
    report = build_waste_report(
        NOON,
        [
            WasteSource(WasteKind.IDLE, "a", 1_500_000_000),
            WasteSource(WasteKind.IDLE, "b", None),
            WasteSource(WasteKind.CRASH_LOOP, "c", 2_000_000_000),
        ],
        {},
        WasteSum(2, 3_000_000_000),
    )
    shown = describe_waste(report)
    assert shown.hourly == "$3.50"
    assert shown.parts == (
        WastePart("1 crash loop $2.00/h", "/cleanup"),
        WastePart("2 idle nodes $1.50/h and 1 without a price", "/cleanup"),
    )
    assert shown.unknown == "+ 2 nodes with unknown activity $3.00/h"


def test_the_shown_kinds_of_waste_add_up_to_the_shown_sum():
    rates = {
        WasteKind.IDLE: 5_613_200_000,
        WasteKind.CRASH_LOOP: 462_300_000,
        WasteKind.NO_PROGRESS: 462_300_000,
    }
    sources = [WasteSource(kind, kind, rate) for kind, rate in rates.items()]
    shown = describe_waste(build_waste_report(NOON, sources, {}, WasteSum()))
    cents = [
        round(100 * float(part.text.rpartition("$")[2].removesuffix("/h"))) for part in shown.parts
    ]
    assert shown.hourly == "$6.54"
    assert sum(cents) == 654


def test_waste_of_an_unknown_price_is_said_so():
    sources = [WasteSource(WasteKind.IDLE, "a", None)]
    shown = describe_waste(build_waste_report(NOON, sources, {}, WasteSum(1, 0, 1)))
    assert shown.parts == (WastePart("1 idle node at an unknown price", "/cleanup"),)
    assert shown.unknown == "+ 1 node with unknown activity at an unknown price"


@pytest.mark.parametrize(
    ("orphans", "said"),
    [
        (WasteSum(), ""),
        (WasteSum(2), ""),
        (WasteSum(1, 4_800_000_000), "1 orphan: $4.80/h more"),
        (WasteSum(3, 9 * 10**9, 1), "3 orphans: $9.00/h more, 1 at an unknown price"),
        (WasteSum(2, 0, 2), "2 orphans, at an unknown price"),
    ],
)
def test_orphans_are_waste_beside_the_burn_and_said_to_be(orphans, said):
    report = build_waste_report(NOON, [], {WasteKind.ORPHAN: orphans}, WasteSum())
    assert describe_orphans(report) == said


def test_each_line_leads_to_its_page_and_says_when():
    entries = [
        AgendaEntry(
            AgendaKind.IDLE_END,
            "train",
            "The node is idle",
            NOON + 90,
            hourly=10**9,
            subject_id="a/b",
        ),
        AgendaEntry(AgendaKind.TTL_END, "late", "It ends", NOON, subject_id="n"),
        AgendaEntry(
            AgendaKind.BUDGET_EXCEEDED, "cap", "Exceeded", since=NOON - 60, subject_id="b-1"
        ),
        AgendaEntry(AgendaKind.CLEANUP_HOLDS, "lab", "No idle node is deleted"),
    ]
    lists = build_agenda_lists(build_agenda(NOON, entries, 10))
    late, train = lists.next
    assert (train.href, train.wait, train.hourly) == ("/nodes/a%2Fb", "in 1 min", "$1.00/h")
    assert (late.href, late.wait, late.hourly) == ("/nodes/n", "at the next check", "")
    cap, held = lists.needs_person
    assert (cap.href, cap.wait, cap.at) == ("/budgets#budget-b-1", "for 1 min", None)
    assert (held.href, held.wait) == ("", "")


@pytest.mark.parametrize(
    ("kind", "action", "address"),
    [
        (AgendaKind.IDLE_END, "Keep", "/nodes/a%2Fb/keep"),
        (AgendaKind.TTL_END, "Keep", "/nodes/a%2Fb/keep"),
        (AgendaKind.CRASH_LOOP, "Delete", "/nodes/a%2Fb/delete"),
        (AgendaKind.BUDGET_EXCEEDED, "Edit", "/budgets/a%2Fb/edit"),
        (AgendaKind.ORPHANS, "Adopt or delete", "/orphans"),
        (AgendaKind.CLEANUP_HOLDS, "Cleanup", "/cleanup"),
        (AgendaKind.FAILING_DELETION, "Details", "/nodes/a%2Fb"),
        (AgendaKind.UNPRICED, "Add a price", "/manual/command-line#budgets-and-prices"),
    ],
)
def test_each_line_offers_what_a_person_can_do_about_it(kind, action, address):
    entry = AgendaEntry(kind, "it", "It is so", subject_id="a/b")
    lists = build_agenda_lists(build_agenda(NOON, [entry], 10))
    (row,) = (*lists.needs_person, *lists.next)
    assert (row.action, row.action_href) == (action, address)


def test_a_line_of_the_first_page_leads_to_what_a_person_can_do(
    lab: Lab, browser: TestClient
) -> None:
    budget = factories.budget(id="b-1")
    window = budget.window_at(lab.clock())
    assert window is not None
    lab.ran(NOON - 600)
    with lab.units() as unit:
        unit.budgets.add(budget)
        unit.alerts.save("b-1", Alert(EXCEEDED, window.start, fired_at=NOON))
    links = links_of(browser.get("/").text)
    assert links["Edit"] == "/budgets/b-1/edit"
    assert browser.get(links["Edit"]).status_code == 200


def test_an_error_of_the_cloud_turns_no_line_around():
    entry = AgendaEntry(AgendaKind.FAILING_DELETION, "a\u202eb", "It failed: no \u202ekcots")
    (row,) = build_agenda_lists(build_agenda(NOON, [entry], 10)).needs_person
    assert (row.name, row.text) == ("a\\u202eb", "It failed: no \\u202ekcots")


def test_lines_beyond_the_page_are_counted():
    entries = [
        AgendaEntry(AgendaKind.TTL_END, f"n-{number}", "It ends", NOON) for number in range(11)
    ]
    lists = build_agenda_lists(build_agenda(NOON, entries, 50))
    assert (len(lists.next), lists.next_left_out) == (8, 3)
    cut = build_agenda_lists(build_agenda(NOON, entries, 9))
    assert (len(cut.next), cut.next_left_out) == (8, 3), "those beyond the limit count as well"


@pytest.mark.parametrize(
    ("now", "before", "said"),
    [
        (118, 100, f"{UP} 18 %"),
        (50, 100, f"{DOWN} 50 %"),
        (0, 100, f"{DOWN} 100 %"),
        (1_000, 1_001, "unchanged"),
        (5_000, 100, f"{UP} 50 times"),
        (10_049, 100, f"{UP} 100 times"),
        (26_737_400, 100, f"{UP} over 100 times"),
        (7, 0, "new"),
        (0, 0, ""),
    ],
)
def test_a_change_is_told_without_colour(now, before, said):
    assert describe_change(now, before) == said


def test_every_part_of_the_waste_leads_to_a_page() -> None:
    summed = dict.fromkeys(WasteKind, WasteSum(1, 10**9))
    parts = describe_waste(build_waste_report(NOON, [], summed, WasteSum())).parts
    assert {part.text.removesuffix(" $1.00/h"): part.href for part in parts} == {
        "1 failing deletion": "/nodes?state=failing",
        "1 orphan": "/orphans",
        "1 unused reservation": "/reservations",
        "1 crash loop": "/cleanup",
        "1 node without progress": "/cleanup",
        "1 idle node": "/cleanup",
    }


@pytest.mark.parametrize(
    ("parts", "shares"),
    [
        ((387, 307, 306), ["39 %", "31 %", "30 %"]),
        ((1, 1, 1), ["34 %", "33 %", "33 %"]),
        ((1, 999), ["< 1 %", "> 99 %"]),
        ((5, 0), ["100 %", ""]),
        ((), []),
        ((0, -1), ["", ""]),
    ],
)
def test_shares_add_up_to_a_hundred_percent(parts: tuple[int, ...], shares: list[str]) -> None:
    assert format_shares(parts) == shares


def test_a_failing_deletion_stands_on_the_first_page(lab: Lab, browser: TestClient) -> None:
    node = factories.node(
        name="stuck",
        state=NodeState.READY,
        asked=Asked.ABSENT,
        delete_requested_at=NOON - 120,
        tries=2,
        last_error="503 <b>no</b>",
    )
    with lab.units() as unit:
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id))
    page = browser.get("/")
    said = text_of(page)
    assert "Waste now $9.60 /h 1 failing deletion $9.60/h" in said
    assert (
        "stuck $9.60/h · for 2 min · Details Its deletion does not end: 2 attempts in a row failed"
        in said
    )
    assert "<b>no</b>" not in page.text


def test_a_quiet_fleet_says_so(lab: Lab, browser: TestClient) -> None:
    with lab.units() as unit:
        unit.nodes.add(factories.node(state=NodeState.READY))
    said = text_of(browser.get("/"))
    assert "nothing is known to be wasted" in said
    assert "Needs attention Nothing. All deletions end, and no budget is exceeded." in said
    assert "Next 24 hours Nothing ends by itself." in said


def test_spenders_add_up_to_their_total(lab: Lab, browser: TestClient) -> None:
    lab.lives_a_month()
    said = text_of(browser.get("/"))
    costs = lab.services.costs
    report = costs.report(CostQuestion(window="30d", aggregate=("team",)))
    assert f"Who spends ${report.total / 10**9:,.2f} by team in 30 days" in said


@pytest.mark.parametrize(
    ("teams", "share", "rest"), [(6, "16 %", "1 other"), (7, "14 %", "2 others")]
)
def test_spenders_beyond_the_fifth_are_one_line(
    lab: Lab, browser: TestClient, teams: int, share: str, rest: str
) -> None:
    with lab.units() as unit:
        for number in range(teams):
            node = factories.node(name=f"n-{number}", team=f"t-{number}", state=NodeState.READY)
            unit.nodes.add(node)
            unit.usage.save(factories.usage(id=f"u-{number}", node_id=node.id))
    lab.clock.pass_(3_600)
    said = text_of(browser.get("/"))
    assert f"t-4 $9.60 {share} new {rest} $" in said


def test_the_month_is_compared_with_the_budget_of_everything(lab: Lab, browser: TestClient) -> None:
    lab.lives_a_month()
    with lab.units() as unit:
        unit.budgets.add(factories.budget(id="b-1", name="all", scope=Scope(), amount=10**13))
    month = lab.services.costs.report(CostQuestion(window="mtd"))
    said = text_of(browser.get("/"))
    percent = month.total * 100 // 10**13
    assert f"{percent} % of $10,000.00; day 5 of 30, as of 12:12:57 UTC" in said
    assert f"in order ${month.total / 10**9:,.2f} of $10,000.00, {percent} %" in said


def test_the_agenda_in_full_is_a_page_that_the_first_page_links(
    lab: Lab, browser: TestClient
) -> None:
    with lab.units() as unit:
        for number in range(12):
            node = factories.sent(
                name=f"stuck-{number:02}",
                asked=Asked.ABSENT,
                delete_requested_at=NOON - 120 - number,
                tries=2,
                last_error="503",
            )
            unit.nodes.add(node)
    first, whole = browser.get("/"), browser.get("/agenda")
    assert links_of(first.text)["4 more"] == "/agenda"
    assert "stuck-11" in text_of(whole)
    assert text_of(whole).count("Its deletion does not end") == 12
    assert "more" not in links_of(whole.text)
