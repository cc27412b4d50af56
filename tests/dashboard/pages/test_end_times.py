"""The end of a node is the same on every page and in every answer, whatever holds it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.nodes.sorted_list import SortKey
from service.dashboard.pages.cleanup import build_cleanup_page
from service.dashboard.pages.nodes.nodes import NodesAsked, build_nodes_page
from service.dashboard.pages.overview import OverviewQuery, build_overview
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import parse_rfc3339
from service.domain.idle.cleanup import Cleanup, RailHold
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail, Waiting
from service.store.engine import make_engine
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab
from tests.dashboard.lab import Lab
from tests.databases import fresh_database
from tests.hands import NOON, HandClock


class Ends:
    """An idle node that is due soon, one whose time to live ends soon, and their pages."""

    def __init__(self, units: Units, engine: object, clock: HandClock) -> None:
        self.lab = Lab(units, clock, (factories.PROJECT,))
        self.daemon = daemon = IdleLab(units, clock, Action.DELETE)
        minutes = (TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1
        self.idle = daemon.add(REST, name="asleep")
        self.expires_at = clock() + 60 * minutes + 1_200
        daemon.add(
            WORK,
            name="old",
            ttl_seconds=self.expires_at - clock(),
            next_try_at=self.expires_at,
        )
        daemon.minute(minutes)
        due_at = daemon.course(self.idle).due_at
        assert due_at is not None
        self.due_at = due_at
        mode = IdleMode(Action.DELETE, TIMES)
        cleanup = CleanupService(units, self.lab.prices, clock, (factories.PROJECT,), mode)
        self.lab.services = replace(self.lab.services, cleanup=cleanup)
        self.clock = clock

    def hold(self, *holds: RailHold, waiting: tuple[Waiting, ...] = ()) -> None:
        """Have rails hold the cleanup."""
        with self.lab.units() as unit:
            row: Cleanup = unit.cleanups.get("lab")
            unit.cleanups.save(replace(row, holds=holds, waiting=waiting))

    def agenda(self) -> dict[str, int | None]:
        return {entry.subject: entry.at for entry in self.lab.services.attention.read_agenda().next}

    def listed(self) -> dict[str, int | None]:
        page = build_nodes_page(self.lab.services, NodesAsked())
        return {
            row.row.name: None if row.end.at is None else parse_rfc3339(row.end.at.iso)
            for row in page.rows
            if row.end is not None
        }

    def sorted_names(self) -> list[str]:
        """The nodes of the list in the order of their ends."""
        page = build_nodes_page(self.lab.services, NodesAsked(sort=SortKey.DELETES_AT))
        return [row.row.name for row in page.rows]

    def planned(self) -> dict[str, int | None]:
        page = build_cleanup_page(self.lab.services)
        return {
            row.name: None if row.due_at is None else parse_rfc3339(row.due_at.iso)
            for row in page.plan
        }

    def answered(self) -> int | None:
        """What the API says of the idle node, which `nodes top` prints."""
        with TestClient(self.lab.whole(), base_url="http://localhost") as client:
            found = client.get(f"/v1/nodes/{self.idle.id}/policy").json()["ends"]
        (end,) = [end for end in found if end["ender"] == "idle"]
        return None if end["at"] is None else parse_rfc3339(end["at"])

    def line(self) -> str:
        """The line of the idle node among the live nodes of the overview."""
        page = build_overview(self.lab.services, OverviewQuery())
        (row,) = [row for row in page.nodes if row.name == "asleep"]
        return row.idle


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[Ends]:
    with fresh_database("sqlite", tmp_path) as address:
        engine, clock = make_engine(address), HandClock()
        units = Units(engine)
        with engine.begin() as connection:
            connection.execute(update(leases).values(held_since=NOON - 7_200))
        yield Ends(units, engine, clock)
        engine.dispose()


def test_what_nothing_holds_ends_when_it_is_due(ends: Ends) -> None:
    ends.hold()
    assert ends.agenda() == ends.listed() == {"asleep": ends.due_at, "old": ends.expires_at}
    assert ends.planned() == {"asleep": ends.due_at}
    assert ends.answered() == ends.due_at
    assert "deleted in" in ends.line()
    assert ends.sorted_names() == ["asleep", "old"]


def test_a_pause_holds_both_at_once_on_every_page(ends: Ends) -> None:
    ends.hold()
    ends.lab.services.cleanup.pause("lab", "ada", "a demo")
    assert ends.agenda() == ends.listed() == {"asleep": None, "old": None}
    assert ends.planned() == {"asleep": None}
    assert ends.answered() is None
    assert ends.line().endswith("deleted later: deletions are paused")
    ends.lab.services.cleanup.resume("lab")
    assert ends.agenda() == ends.listed() == {"asleep": ends.due_at, "old": ends.expires_at}
    assert ends.planned() == {"asleep": ends.due_at}


def test_a_pause_delays_nothing_that_google_ends(ends: Ends) -> None:
    ends.daemon.add(
        WORK,
        name="flex",
        provisioning_model=ProvisioningModel.FLEX_START,
        ttl_seconds=3_600,
        next_try_at=ends.clock() + 3_600,
        labels={"keep-until": "2027-01-01"},
    )
    ends.hold()
    ends.lab.services.cleanup.pause("lab", "ada", "a demo")
    assert ends.agenda()["flex"] == ends.listed()["flex"] == ends.clock() + 3_600
    assert ends.sorted_names()[0] == "flex"


def test_an_open_breaker_delays_the_idle_node_alone(ends: Ends) -> None:
    until = ends.expires_at + 600
    ends.hold(RailHold(Rail.BREAKER, "6 of 18 nodes became unknown", NOON, until))
    assert ends.agenda() == ends.listed() == {"asleep": until, "old": ends.expires_at}
    assert ends.planned() == {"asleep": until}
    assert ends.answered() == until
    assert ends.line().endswith(": the breaker is open")
    assert ends.sorted_names() == ["old", "asleep"]


def test_the_turn_of_a_node_is_its_end(ends: Ends) -> None:
    turn = ends.expires_at + 900
    ends.hold(waiting=(Waiting(ends.idle.id, Rail.HOUR, 1, turn, ends.due_at),))
    assert ends.agenda()["asleep"] == ends.listed()["asleep"] == turn
    assert ends.planned() == {"asleep": turn}
    assert ends.answered() == turn
    assert "deleted in" in ends.line()
    assert ends.sorted_names() == ["old", "asleep"]
