"""The timeline on the page of a node: everything that happened, with dollars that add up."""

from __future__ import annotations

import re
from html import unescape

from fastapi.testclient import TestClient

from service.dashboard.kit.figures import format_money
from service.domain.clock import HOUR
from service.domain.event import Event
from service.domain.metering.meter import Evidence
from service.domain.nodes.node import Node
from service.domain.pricing.price_book import Sku
from tests import factories
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON

RTL = "\u202egnp.exe"


def cents_of(shown: str) -> int:
    return int(re.sub(r"\D", "", shown))


def entries_of(html: str) -> list[str]:
    """The entries of the timeline as text, in their order."""
    found = re.search(r'<ol class="timeline".*?</ol>', html, re.DOTALL)
    assert found is not None
    items = re.findall(r"<li.*?</li>", found[0], re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", item)).split()) for item in items]


def billed_of(html: str) -> list[str]:
    return [entry.split()[-1] for entry in entries_of(html) if entry.startswith("Billed")]


def add_events(lab: Lab, node: Node, *events: tuple[int, str, str]) -> None:
    with lab.units() as unit:
        unit.events.add(*(Event(node.id, at, kind, said) for at, kind, said in events))


def add_usage(lab: Lab, node: Node, start: int, end: int) -> None:
    sku = Sku("v5e", node.spec.provisioning_model, "us-west4", True)  # noqa: FBT003
    with lab.units() as unit:
        usage = factories.usage(node_id=node.id, start=start, end=end, sku=sku, chips=8)
        unit.usage_versions.add(unit.usage.save(usage), end)


def test_the_segments_add_up_to_the_cost_shown_to_the_cent(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 7 * HOUR - 11, NOON - 6 * HOUR, ended_at=None)
    for part in range(7):  # each a fraction of a cent from the next
        start = NOON - 5 * HOUR + part * 1_000
        add_usage(lab, node, start, start + 701)
    cost = lab.services.nodes.get_cost(node.id)
    html = caller.get(f"/nodes/{node.id}").text
    shown = billed_of(html)
    assert len(shown) == 8
    assert sum(map(cents_of, shown)) == cents_of(format_money(cost.cost))
    # each rounded by itself would not do
    single = [cents_of(format_money(segment.cost)) for segment in cost.segments]
    assert sum(single) != cents_of(format_money(cost.cost))
    assert f"8 billed segments in all {format_money(cost.cost)}" in text_of(
        caller.get(f"/nodes/{node.id}")
    )


def test_a_segment_leads_to_the_line_that_explains_its_seconds(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - 2 * HOUR - 100, NOON - HOUR)
    html = caller.get(f"/nodes/{node.id}").text
    address = re.search(r'href="([^"]*)">Evidence: line \d+', html)
    assert address is not None
    assert "Evidence for both ends of the interval" in text_of(caller.get(address[1]))
    running = lab.ran(lab.clock.now - 60)
    entry = next(e for e in entries_of(caller.get(f"/nodes/{running.id}").text) if "Billed" in e)
    assert "60 seconds, still running" in entry


def test_a_correction_is_an_entry_and_the_segment_includes_it(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 3 * HOUR)
    lab.clock.pass_(600)
    lab.learned(node, end=NOON - HOUR, end_lo=NOON - HOUR, end_evidence=Evidence.AUDIT)
    html = caller.get(f"/nodes/{node.id}").text
    [correction] = [entry for entry in entries_of(html) if entry.startswith("Correction")]
    assert "of the ledger corrected by \N{MINUS SIGN}$9.60" in correction
    assert billed_of(html) == ["$19.20"]


def test_everything_stands_in_the_order_of_time_the_newest_first(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - 2 * HOUR)
    add_events(
        lab,
        node,
        (NOON - 60, "idle", "it has been idle since 10:00"),
        (NOON - 30, "asked", "kept until tomorrow"),
    )
    kinds = [entry.split()[0] for entry in entries_of(caller.get(f"/nodes/{node.id}").text)]
    assert kinds == ["Request", "Idle", "State", "Billed"]


def test_equal_events_in_a_row_are_one_entry_with_their_number(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.asked_for()
    add_events(lab, node, *((NOON + n, "alarm", "the deletion fails") for n in range(5)))
    [entry] = entries_of(caller.get(f"/nodes/{node.id}").text)
    assert entry.startswith("Alarm The deletion fails. 2026-11-05 12:00:04 UTC")
    assert "5 times since 2026-11-05 12:00:00 UTC" in entry


def test_ten_thousand_events_are_paged_and_the_dollars_of_all_pages_add_up(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - 40_000, NOON - 39_000, ended_at=None)
    for part in range(9):
        add_usage(lab, node, NOON - 38_000 + part * 4_000, NOON - 37_000 + part * 4_000)
    add_events(lab, node, *((NOON - 39_000 + 4 * n, "note", f"event {n}") for n in range(10_000)))
    cost = format_money(lab.services.nodes.get_cost(node.id).cost)
    address, seen, billed, pages = f"/nodes/{node.id}", set[str](), 0, 0
    first = caller.get(address)
    assert len(first.content) < 150_000
    while address and pages < 3:
        page = caller.get(address)
        here = {entry for entry in entries_of(page.text) if entry.startswith("Event")}
        assert not here & seen
        seen |= here
        pages += 1
        older = re.search(r'href="([^"]*before=[^"]*)#', page.text)
        address = unescape(older[1]) if older else ""
    assert len(seen) == 120
    # the page of the oldest events has the first segment, and the rest is named
    last = caller.get(f"/nodes/{node.id}?before=30")
    billed = sum(map(cents_of, billed_of(last.text)))
    said = text_of(last)
    rest = re.search(r"Segments on other pages (\$[\d.]+)", said)
    assert rest is not None
    assert billed + cents_of(rest[1]) == cents_of(cost)
    assert f"Cost of the node {cost}" in said


def test_each_segment_is_on_one_page_alone(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 40_000, NOON - 39_000, ended_at=None)
    for part in range(20):
        add_usage(lab, node, NOON - 38_000 + part * 1_000, NOON - 37_500 + part * 1_000)
    add_events(lab, node, *((NOON - 38_000 + 150 * n, "note", f"event {n}") for n in range(150)))
    address, found = f"/nodes/{node.id}", list[str]()
    while address:
        page = caller.get(address).text
        found += [entry for entry in entries_of(page) if entry.startswith("Billed")]
        older = re.search(r'href="([^"]*before=[^"]*)#', page)
        address = unescape(older[1]) if older else ""
    assert len(found) == len(set(found)) == 21


def test_a_strange_page_number_is_the_first_page(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR)
    first = entries_of(caller.get(f"/nodes/{node.id}").text)
    for strange in ("x", "-1", "0", "9" * 30, HOSTILE):
        page = caller.get(f"/nodes/{node.id}", params={"before": strange})
        assert entries_of(page.text) == first


def test_hostile_text_stays_text_and_turns_nothing_around(lab: Lab, caller: TestClient) -> None:
    labels = {"stage": f"{HOSTILE}{RTL}"}
    node = lab.ran(
        NOON - HOUR, state=HOSTILE, name=HOSTILE, owner=RTL, labels=labels, last_error=RTL
    )
    add_events(lab, node, (NOON, HOSTILE, f"{HOSTILE} {RTL}"), (NOON, "alarm", RTL))
    html = caller.get(f"/nodes/{node.id}").text
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\\u202egnp.exe" in html


def test_the_bar_has_each_state_with_its_time_in_words(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 2 * HOUR)
    page = caller.get(f"/nodes/{node.id}")
    said = text_of(page)
    assert "READY 2 h" in said
    assert "REQUESTED 10 s CREATING 4 min" in said
    assert "Time, UTC" in said
    assert 'class="span-up"' in page.text
    assert 'class="span-billed"' in page.text
