"""The past of the demo: it is lived by the real code, so the books are right and all is there."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from service.api.app import create_app
from service.application.costs.costs import CostQuestion
from service.application.jobs.jobs import JobFilter
from service.cli.demo.inbox import Inbox, open_inbox
from service.cli.demo.month import DAYS, Month
from service.cli.demo.virtual_clock import VirtualClock
from service.dashboard.kit.figures import format_money
from service.dashboard.routes import add_dashboard
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.idle.policy import Waste
from service.domain.jobs.job import JobState
from service.domain.money import NANOS, parse_usd
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.orphans.orphan import OrphanKind
from service.domain.reconciliation.variance import Verdict
from service.settings import Settings
from tests.bills import export, json_lines
from tests.dashboard.reading import cells_of, nanos_of, text_of
from tests.databases import fresh_database

pytestmark = [pytest.mark.deep, pytest.mark.long]

START = 1_793_893_417
SHORT = 3


@dataclass
class Lived:
    """A month that was lived through, what it sent, and what it logged."""

    month: Month
    inbox: Inbox
    logs: list[Any]

    @property
    def services(self):
        return self.month.past.services

    @property
    def now(self) -> int:
        return self.month.past.clock()

    def unit(self):
        return self.month.past.base.units.reading()

    def node(self, name: str) -> Node:
        return self.services.nodes.get(self.month.story.nodes[name])

    def nodes(self) -> list[Node]:
        """All nodes of the ledger: those of people, and those of jobs."""
        with self.unit() as unit:
            ids = {usage.node_id for usage in unit.usage.iter_since(0)}
            return [unit.nodes.get(node_id) for node_id in sorted(ids)]

    def watched(self, name: str):
        with self.unit() as unit:
            found = unit.idle_courses.find_by_node(self.node(name).id)
        assert found is not None
        return found


def live(address: str, inbox: Inbox, days: int, start: int = START) -> Month:
    settings = Settings(
        database_url=address,
        projects=("lab",),
        idle_mode="delete",
        webhook_allow_private=True,
    )
    month = Month(settings, VirtualClock(start), inbox.url, days)
    month.live()
    return month


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    with fresh_database("sqlite", folder) as address, open_inbox() as inbox:
        with capture_logs() as logs:
            month = live(address, inbox, DAYS)
        yield Lived(month, inbox, logs)
        month.past.close()


def test_the_ledger_is_the_emulators_own_bill_to_the_second_and_the_nano_dollar(lived):
    world = lived.month.past.world
    closed = floor_to(lived.now, HOUR)
    entries = world.bill.list_entries(world.run_due_events(), end=closed)
    rows = export(entries, lived.now + 5 * DAY, world.config.prices)
    outcome = lived.services.reconciliations.reconcile(io.BytesIO(json_lines(rows)), alone=True)
    lines = [
        kept.line
        for kept in lived.services.reconciliations.list_lines(outcome.bill.id, (), 0, 100_000)
    ]
    verdicts = Counter(line.verdict for line in lines)
    leaked = [line for line in lines if line.verdict is Verdict.BILL_WITHOUT_NODE]
    assert verdicts.keys() == {Verdict.MATCHED, Verdict.BILL_WITHOUT_NODE}
    assert {line.resource.rpartition("/")[2] for line in leaked} == {"omars-quick-test"}
    matched = [line for line in lines if line.verdict is Verdict.MATCHED]
    assert all(line.billed_chip_seconds == line.charged_chip_seconds for line in matched)
    assert {line.node_id for line in matched} == {node.id for node in lived.nodes()}


def test_nothing_broke_and_no_tick_failed(lived):
    bad = [
        entry
        for entry in lived.logs
        if entry["event"].rpartition(".")[2] in ("broke", "failed", "batch_failed")
    ]
    assert bad == []


def test_nodes_live_at_the_end_and_were_preempted_and_made_again(lived):
    with lived.unit() as unit:
        open_nodes = [unit.nodes.get(known.id) for known in unit.nodes.list_open("lab")]
    ready = [node for node in open_nodes if node.state == NodeState.READY]
    assert 12 <= len(ready) <= 25
    assert {node.team for node in ready} == {"vision", "nlp", "rl"}
    assert any(node.attempt > 1 for node in lived.nodes())
    assert lived.node("vision-archive").state == NodeState.STOPPED


def test_an_idle_node_is_counted_down_and_others_were_cleaned_up(lived):
    for name in ("vision-notebook", "nlp-tokenizer"):
        due = lived.watched(name).due_at
        assert due is not None
        assert lived.now < due < lived.now + 2 * HOUR, name
    for name in ("vision-scratch", "nlp-probe"):
        node = lived.node(name)
        assert node.state == NodeState.DELETED
        with lived.unit() as unit:
            (ended,) = unit.cleanups.list_by_node(node.id)
        assert (ended.name, ended.action) == (name, "delete")


def test_a_node_is_kept_one_crashes_and_one_cannot_be_deleted(lived):
    kept = lived.node("vision-paper")
    assert kept.kept_until is not None
    assert kept.kept_until > lived.now
    verdict = lived.watched("rl-env-check").verdict
    assert verdict is not None
    assert verdict.waste is Waste.CRASH_LOOP
    stuck = lived.node("rl-replay")
    assert (stuck.asked, stuck.state) == (Asked.ABSENT, NodeState.READY)
    assert stuck.tries > 1
    assert "could not be deleted" in stuck.last_error


def test_an_orphan_is_billed(lived):
    (orphan,) = lived.services.orphans.list_all()
    assert orphan.orphan.kind is OrphanKind.STRANGER
    assert orphan.hourly == 4_800_000_000


def test_budgets_are_exceeded_and_one_will_delete(lived):
    shown = {status.budget.name: status for status in _statuses(lived)}
    over = {
        name
        for name, one in shown.items()
        if one.standing is not None and one.standing.spent > one.budget.amount
    }
    assert {"rl grant", "sandbox"} <= over
    deletes_at = shown["sandbox"].deletes_at
    assert deletes_at is not None
    assert lived.now < deletes_at < lived.now + 2 * HOUR
    with lived.unit() as unit:
        refusals = unit.budgets.list_refusals(shown["large sweeps"].budget.id, 5)
    assert len(refusals) == 1


def _statuses(lived):
    return lived.services.budgets.list_statuses(lived.services.budgets.list_all())


def test_a_request_waits_on_a_stock_out_and_a_time_to_live_ends_soon(lived):
    assert lived.node("nlp-scale-up").state == NodeState.QUEUED
    ends_at = lived.node("vision-workshop").deletes_at
    assert ends_at is not None
    assert lived.now < ends_at < lived.now + HOUR


def test_jobs_succeeded_failed_and_run(lived):
    jobs, _ = lived.services.jobs.list_page(JobFilter(), 200, "")
    states = Counter(shown.job.state for shown in jobs)
    assert states.keys() >= {JobState.SUCCEEDED, JobState.FAILED, JobState.RUNNING}
    crashed = [shown.job for shown in jobs if shown.job.state == JobState.FAILED]
    assert {(job.attempt, job.failures) for job in crashed} == {(4, 3)}


def test_a_price_changed_in_between(lived):
    with lived.unit() as unit:
        book = lived.month.past.base.prices.get_book(unit)
        spot = next(
            usage.sku
            for usage in unit.usage.iter_since(0)
            if usage.sku.generation == "v5e" and usage.sku.model == "spot"
        )
    prices = [book.find_price(spot, at) for at in (START + HOUR, lived.now)]
    assert [price.nanos for price in prices if price] == [577_900_000, 462_300_000]


def test_messages_were_sent_to_the_inbox_and_are_signed(lived):
    paths = Counter(path for path, _ in lived.inbox.messages)
    assert paths.keys() == {"/budgets", "/vision", "/nlp", "/rl"}
    assert "the budget 'sandbox' is exceeded" in lived.inbox.as_text()


def test_the_lab_spends_a_thousand_dollars_or_two_a_day(lived):
    days = round((lived.month.story.end - lived.month.story.start) / DAY)
    spent = lived.services.costs.report(CostQuestion(window=f"{days}d")).total
    assert 700 * days * NANOS < spent < 2_500 * days * NANOS


def test_the_same_is_lived_at_another_date(tmp_path):
    lives = []
    for number, start in enumerate((START, START + 9 * DAY + 5 * HOUR)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with fresh_database("sqlite", folder) as address, open_inbox() as inbox:
            lived = Lived(live(address, inbox, SHORT, start), inbox, [])
            lives.append([_life(node, start) for node in lived.nodes()])
            lived.month.past.close()
    assert lives[0] == lives[1]


def _life(node: Node, start: int) -> tuple[object, ...]:
    ready_after = None if node.ready_at is None else node.ready_at - start
    return node.name[:12], node.owner, node.state, node.attempt, node.zone, ready_after


def test_the_first_page_answers_six_questions_as_the_api_does(lived):
    app = create_app(lived.services, None)
    add_dashboard(app)
    with TestClient(app, base_url="http://localhost") as caller:
        page = caller.get("/")
        fleet, waste, agenda, forecast, month, teams = (
            caller.get(f"/v1/{address}").json()
            for address in (
                "fleet",
                "fleet/waste",
                "fleet/agenda",
                "forecasts",
                "costs?window=mtd&step=all",
                "costs?window=30d&aggregate=team&step=all",
            )
        )
    said = text_of(page)
    assert f"Burning now {_money(fleet['hourly_cost'])} /h" in said
    assert f"Month to date {_money(month['total'])} " in said
    assert f"Forecast for the month {_money(forecast['total']['mid'])} " in said
    assert f"Waste now {_money(waste['total']['hourly_cost'])} /h" in said
    top = max(teams["rows"], key=lambda row: parse_usd(row["cost"]))
    spender = cells_of(page.text[page.text.index('id="spenders-heading"') :])[1]
    assert spender[0] == top["team"]
    assert f"{top['team']} spends most: {spender[2]} in 30 days" in said
    assert abs(nanos_of(spender[1]) - parse_usd(top["cost"])) < NANOS // 100
    following = page.text[page.text.index('id="next-heading"') :]
    first = agenda["next"][0]
    assert f'datetime="{first["at"]}"' in following[: following.index("</li>")]
    assert f"Next 24 hours {first['subject']} " in said


def _money(usd: str) -> str:
    return format_money(parse_usd(usd))
