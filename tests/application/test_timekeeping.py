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
from service.cli.processes.migrate import apply
from service.domain.clock import HOUR, precise_clock, wall_clock
from service.domain.database_clock import AgreedClock
from service.domain.errors import StoreUnavailable
from service.settings import Settings
from service.store.pricebook import PriceShelf
from service.wiring import lay, services
from tests import factories


@pytest.mark.parametrize("wrong", [-HOUR, -60, 60, HOUR])
def test_what_a_caller_asks_for_is_written_at_the_databases_time(units, wrong):
    clock = AgreedClock(own=lambda: precise_clock() + wrong)
    Timekeeper(units, clock).look()
    nodes = NodeService(units, PriceShelf(), clock, [factories.PROJECT])
    node = nodes.request(factories.wish()).node
    assert abs(node.created_at - wall_clock()) <= 1
    assert abs((nodes.delete(node.id).delete_requested_at or 0) - wall_clock()) <= 1


def test_a_clock_that_differs_is_told_of_once_and_shown(units):
    clock = AgreedClock(own=lambda: precise_clock() + HOUR)
    keeper = Timekeeper(units, clock)
    with capture_logs() as logs:
        keeper.look()
        keeper.look()
    assert [one["event"] for one in logs] == ["clock.differs"]
    assert keeper.warning == (
        "the clock of this machine is 3600 s ahead of the database's; the clock of the database"
        " is used"
    )


def test_a_clock_that_agrees_is_no_matter(units):
    keeper = Timekeeper(units, AgreedClock())
    with capture_logs() as logs:
        keeper.look()
    assert (logs, keeper.warning) == ([], "")


def test_without_an_answer_the_clock_stays_as_it_was_set(units, monkeypatch):
    clock = AgreedClock(own=lambda: precise_clock() + HOUR)
    keeper = Timekeeper(units, clock)
    keeper.look()

    def gone() -> None:
        raise StoreUnavailable("it is gone")

    monkeypatch.setattr(units, "reading", gone)
    keeper.look()
    assert abs(clock() - wall_clock()) <= 1


def test_readiness_says_which_clock_is_wrong(tmp_path):
    no_file: Any = {"_env_file": None}
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/steward.db", projects=("lab",), **no_file
    )
    apply(settings.database_url)
    clock = AgreedClock(own=lambda: precise_clock() - 60)
    base = lay(settings, clock)
    keeper = Timekeeper(base.units, clock)
    made = services(base, keeper)
    assert len(made.readiness.check()) == 1, "there is no daemon"
    keeper.look()
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

    monkeypatch.setattr(keeper, "look", breaking)
    monkeypatch.setattr(timekeeping, "PERIOD_SECONDS", 0.01)
    stop = threading.Event()
    thread = keeper.begin(stop)
    assert looked.wait(20)
    stop.set()
    thread.join(20)
    assert not thread.is_alive()
