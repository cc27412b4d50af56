"""The API goes by the database's clock, whatever its machine says."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any

import pytest
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from service.api.app import create_app
from service.application import timekeeping
from service.application.nodes.nodes import NodeService
from service.application.timekeeping import Timekeeper
from service.cli.processes.migrate import apply_migrations
from service.domain.clock import HOUR, precise_clock, wall_clock
from service.domain.database_clock import AgreedClock
from service.domain.errors import StoreUnavailable
from service.settings import Settings
from service.store.pricebook import PriceBookCache
from service.wiring import build_services, open_foundation
from tests import factories


@pytest.mark.parametrize("wrong", [-HOUR, -60, 60, HOUR])
def test_what_a_caller_asks_for_is_written_at_the_databases_time(units, wrong):
    clock = AgreedClock(own=lambda: precise_clock() + wrong)
    Timekeeper(units, clock).set_clock()
    nodes = NodeService(units, PriceBookCache(), clock, [factories.PROJECT])
    node = nodes.request(factories.request()).node
    assert abs(node.created_at - wall_clock()) <= 1
    assert abs((nodes.delete(node.id).delete_requested_at or 0) - wall_clock()) <= 1


def test_a_clock_that_differs_is_told_of_once_and_shown(units):
    clock = AgreedClock(own=lambda: precise_clock() + HOUR)
    keeper = Timekeeper(units, clock)
    with capture_logs() as logs:
        keeper.set_clock()
        keeper.set_clock()
    assert [log["event"] for log in logs] == ["clock.differs"]
    assert keeper.warning == (
        "the clock of this machine is 3600 s ahead of the database's; the clock of the database"
        " is used"
    )


def test_a_clock_that_agrees_is_no_matter(units):
    keeper = Timekeeper(units, AgreedClock())
    with capture_logs() as logs:
        keeper.set_clock()
    assert (logs, keeper.warning) == ([], "")


def test_without_an_answer_the_clock_stays_as_it_was_set(units, monkeypatch):
    clock = AgreedClock(own=lambda: precise_clock() + HOUR)
    keeper = Timekeeper(units, clock)
    keeper.set_clock()

    def gone() -> None:
        raise StoreUnavailable("it is gone")

    monkeypatch.setattr(units, "reading", gone)
    keeper.set_clock()
    assert abs(clock() - wall_clock()) <= 1


def test_readiness_says_which_clock_is_wrong(tmp_path):
    no_file: Any = {"_env_file": None}
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/steward.db", projects=("lab",), **no_file
    )
    apply_migrations(settings.database_url)
    clock = AgreedClock(own=lambda: precise_clock() - 60)
    base = open_foundation(settings, clock)
    keeper = Timekeeper(base.units, clock)
    made = build_services(base, keeper)
    assert len(made.readiness.check_ready()) == 1, "there is no daemon"
    keeper.set_clock()
    client = TestClient(create_app(made, ""), base_url="http://localhost")
    said, _ = client.get("/readyz").json()["warnings"]
    assert said.startswith("the clock of this machine is 60 s behind the database's")


def test_the_clock_is_set_again_though_one_look_broke(units, monkeypatch):
    keeper, looked = Timekeeper(units, AgreedClock()), threading.Event()
    looks = count()

    def breaking() -> None:
        number = next(looks)
        if number == 1:
            raise ValueError("a bug")
        if number == 2:
            looked.set()

    monkeypatch.setattr(keeper, "set_clock", breaking)
    monkeypatch.setattr(timekeeping, "PERIOD_SECONDS", 0.01)
    stop = threading.Event()
    thread = keeper.start(stop)
    assert looked.wait(20)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
