"""The cleanup as a page: what would end, what holds it, what is unknown, and what ended and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.keeps import KeepOrder
from service.dashboard.kit.figures import format_money
from service.dashboard.pages import cleanup
from service.dashboard.pages.cleanup import build_cleanup_page
from service.domain.clock import HOUR
from service.domain.idle.cleanup import DAEMON, EndRecord, RailHold
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail, Waiting
from service.domain.nodes.node import Node
from service.store.engine import make_engine
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, links_of, text_of
from tests.databases import fresh_database
from tests.hands import NOON, HandClock

NAMES = ("asleep", f"x{HOSTILE}", "\u202e\u05d0\u05d1", "\U0001f680", "y" * 63)


@contextmanager
def _watched(path: Path, *names: str) -> Iterator[tuple[Lab, dict[str, Node]]]:
    """Idle nodes that a daemon has watched for long enough, one active, and one without any
    signal."""
    with fresh_database("sqlite", path) as address:
        engine, clock = make_engine(address), HandClock()
        lab = Lab(Units(engine), clock, (factories.PROJECT,))
        daemon = IdleLab(lab.units, clock, Action.OBSERVE)
        with engine.begin() as connection:
            connection.execute(update(leases).values(held_since=NOON - 7_200))
        nodes = {name: daemon.add(REST, name=name) for name in names}
        nodes["busy"] = daemon.add(WORK, name="busy")
        nodes["dark"] = daemon.add(None, name="dark")
        with lab.units() as unit:
            for node in nodes.values():
                unit.usage.save(factories.usage(node_id=node.id, start=NOON))
        daemon.minute((TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1)
        mode = IdleMode(Action.OBSERVE, TIMES)
        service = CleanupService(lab.units, lab.prices, clock, (factories.PROJECT,), mode)
        lab.services = replace(lab.services, cleanup=service)
        yield lab, nodes
        engine.dispose()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, dict[str, Node]]]:
    """Idle nodes of strange names. No test changes them."""
    with _watched(tmp_path_factory.mktemp("cleanup"), *NAMES) as found:
        yield found


def test_before_anything_happened_the_page_says_what_to_do(browser: TestClient) -> None:
    said = text_of(browser.get("/cleanup"))
    assert "Would end now 0 nodes" in said
    assert "Mode observe Nodes are checked. Nobody is notified, and no node ends." in said
    assert "no daemon is running Never checked." in said
    assert "what holds it" not in said
    assert "kept, not in the plan" not in said
    assert "No node would be stopped or deleted now." in said
    assert "tpu-steward cleanup policies" in said
    assert "Unknown None." in said
    assert "No node was stopped or deleted for idleness yet." in said
    assert "STEWARD_IDLE_MODE=delete" in said


def test_the_plan_is_that_of_the_service_and_the_page_stores_none(
    watched: tuple[Lab, dict[str, Node]],
) -> None:
    lab, nodes = watched
    page = build_cleanup_page(lab.services)
    (plan,) = lab.services.cleanup.list_plans()
    assert {row.name for row in page.plan} == set(NAMES) == {entry.name for entry in plan.entries}
    assert page.saves == f"{format_money(plan.saves_hourly)}/h"
    assert plan.saves_hourly > 0
    for row in page.plan:
        assert row.href == f"/nodes/{nodes[row.name].id}"
        assert (row.action, row.hourly) == ("delete", "$9.60/h")
        assert row.due == "never: a person has to apply the plan"
        assert "idle since 2026-11-05T12:10:00Z" in row.reason
    assert [row.name for row in page.unknown] == ["dark"]
    assert page.unknown_sum == "1 node, $9.60/h"
    with lab.units.reading() as unit:
        assert unit.cleanups.find_plan(plan.id) is None
    stored = lab.services.cleanup.make_plan("", "ada")
    assert stored.id == plan.id, "what a person would apply"


def test_the_rates_of_the_rows_add_up_to_the_sums(tmp_path: Path) -> None:
    with _watched(tmp_path, *"abcde") as (lab, _):
        lab.services.prices.add(factories.price(1_003_333_333, effective_from=lab.clock.now))
        page = build_cleanup_page(lab.services)
    rates = [row.hourly for row in page.plan]
    assert sorted(rates) == ["$8.02/h", "$8.02/h", "$8.03/h", "$8.03/h", "$8.03/h"]
    assert page.saves == "$40.13/h"
    assert [row.hourly for row in page.unknown] == ["$8.03/h"]
    assert page.unknown_sum == "1 node, $8.03/h"


def test_an_idle_node_that_is_kept_is_counted_beside_the_plan(tmp_path: Path) -> None:
    with _watched(tmp_path, "asleep", "kept") as (lab, nodes):
        order = KeepOrder("the demo", for_seconds=HOUR)
        lab.services.keeps.keep_node(nodes["kept"].id, order)
        page = build_cleanup_page(lab.services)
        with TestClient(lab.app(), base_url="http://localhost") as client:
            said, first = text_of(client.get("/cleanup")), text_of(client.get("/"))
    assert [row.name for row in page.plan] == ["asleep"]
    assert page.kept == "1 idle node $9.60/h"
    assert "saves $9.60/h kept, not in the plan: 1 idle node $9.60/h" in said
    assert "2 idle nodes $19.20/h" in first


def test_names_stay_text_and_nothing_else_is_in_the_page(
    watched: tuple[Lab, dict[str, Node]],
) -> None:
    lab, _ = watched
    with TestClient(lab.app(), base_url="http://localhost") as client:
        page = client.get("/cleanup")
    assert "<img" not in page.text
    for name in NAMES:
        assert f">{name}</a>" in unescape(page.text)
    assert "Unknown 1 node, $9.60/h; never ended for idleness" in text_of(page)


def test_an_end_stays_with_its_evidence(tmp_path: Path) -> None:
    with _watched(tmp_path, "asleep") as (lab, _):
        service = lab.services.cleanup
        service.apply_plan(service.make_plan("", "ada").id, "ada")
        page = build_cleanup_page(lab.services)
    assert page.plan == ()
    (row,) = page.ended
    assert (row.name, row.action, row.actor, row.hourly) == ("asleep", "delete", "ada", "$9.60/h")
    policy, *signals = row.evidence
    assert policy == "Policy node: idle for 30 min, then 5 min of grace, then delete"
    # The minute differs: signals are stored every few minutes, counted from the id of the node.
    cpu = r"worker 0, CPU: QUIET, 2 %, read at 2026-11-05 12:4\d:00 UTC, quiet since 2026-11-05T12"
    assert any(re.match(cpu, said) for said in signals)


def test_what_holds_the_daemon_and_who_waits_is_said(lab: Lab, browser: TestClient) -> None:
    node = lab.ran(NOON - HOUR, name=HOSTILE)
    lab.services.cleanup.pause("", "ada", f"the deadline {HOSTILE}")
    with lab.units() as unit:
        row = unit.cleanups.get("lab")
        held = RailHold(Rail.BREAKER, "3 of 9 nodes became unknown", NOON - 60, NOON + HOUR)
        waits = Waiting(node.id, Rail.HOUR, 1, NOON + 600, NOON - 120)
        unit.cleanups.save(replace(row, ticked_at=NOON - 30, holds=(held,), waiting=(waits,)))
    page = browser.get("/cleanup")
    said = text_of(page)
    assert "The daemon and what holds it; a person can apply a plan all the same" in said
    assert "held by pause, breaker Last check 30 s ago, next check in 30 s." in said
    assert "Held by pause since 2026-11-05 12:00:00 UTC: the deadline" in said
    assert "(by ada)" in said
    assert (
        "Held by breaker since 2026-11-05 11:59:00 UTC, until 2026-11-05 13:00:00 UTC: 3 of 9 nodes"
        in said
    )
    assert "the hourly limit is reached since 2026-11-05 11:58:00 UTC until 12:10:00 UTC" in said
    assert links_of(page.text)[HOSTILE] == f"/nodes/{node.id}"
    assert "<img" not in page.text


def test_reasons_and_readings_turn_no_text_around(lab: Lab, browser: TestClient) -> None:
    rtl = "\u202egnp.exe"
    node = lab.ran(NOON - HOUR)
    signal = dict.fromkeys(("worker", "value", "at")) | {
        "signal": "device",
        "level": "ACTIVE",
        "reason": f"held by {rtl}",
    }
    end = EndRecord("lab", NOON, node.id, 1, "n", Action.STOP, f"actor {rtl}", f"why {rtl}", None)
    lab.services.cleanup.pause("", "ada", f"pause {rtl}")
    with lab.units() as unit:
        unit.cleanups.add_end(replace(end, evidence={"signals": [signal]}))
        held = RailHold(Rail.BREAKER, f"breaker {rtl}", NOON - 60, NOON + HOUR)
        unit.cleanups.save(replace(unit.cleanups.get("lab"), holds=(held,)))
    page = browser.get("/cleanup").text
    assert "\u202e" not in page
    for before in ("actor", "why", "pause", "breaker", "held by"):
        assert f"{before} \\u202egnp.exe" in page


def test_of_very_many_ends_the_newest_are_shown(
    lab: Lab, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "SHOWN", 2)
    for number in range(3):
        node = lab.ran(NOON - HOUR, name=f"n{number}")
        end = EndRecord(
            "lab", NOON + number, node.id, 1, node.name, Action.STOP, DAEMON, "idle", None
        )
        with lab.units() as unit:
            unit.cleanups.add_end(end)
    page = build_cleanup_page(lab.services)
    assert [row.name for row in page.ended] == ["n2", "n1"]
    assert page.more_ended
    assert page.ended[0].hourly == "price not known"
    assert page.ended[0].evidence == ()
    assert "Older ends: tpu-steward cleanup history." in text_of(browser.get("/cleanup"))
