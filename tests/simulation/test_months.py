"""Two months in which the same was done are the same to the byte, however closely one looked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event

from service.domain.clock import HOUR
from service.domain.money import parse_usd
from service.settings import Settings
from service.store.engine import make_engine
from service.store.pricebook import PriceShelf
from service.wiring import Foundation, app
from tests.databases import fresh_database
from tests.simulation.month import Month, Pace
from tests.simulation.run import repeatable_ids

CLOSELY = Pace(looks=900, meters=900)
RARELY = Pace(
    looks=3_600, meters=12 * HOUR, zone="Asia/Kolkata", dies_on=frozenset({3, 4, 11, 25, 29})
)
PAPERS = (
    "/v1/statements/2026-11?format=csv",
    "/v1/statements/2026-12?format=csv",
    "/v1/costs?window=2026-11-01,2026-12-01&tz=Europe/Berlin&format=csv&aggregate=team,region",
    "/v1/costs?window=2026-11-01,2026-12-01&step=day&format=csv&aggregate=team",
)


@contextmanager
def lived(folder: Path, pace: Pace) -> Iterator[tuple[Month, TestClient]]:
    """The month, over and closed, and someone who asks the API about it."""
    folder.mkdir()
    with fresh_database("sqlite", folder) as address:
        engine = make_engine(address)
        month = Month(engine, pace)

        @event.listens_for(engine, "connect")
        def connect(connection, _):
            connection.create_function("strftime", 2, lambda *_: str(month.agenda.seconds()))
            connection.execute("PRAGMA synchronous=off")

        with repeatable_ids(0, month.agenda):
            month.live()
        settings = Settings(projects="lab", _env_file=None)
        base = Foundation(settings, engine, month.units, PriceShelf(), month.agenda.seconds)
        with TestClient(app(base), base_url="http://localhost") as client:
            yield month, client
        engine.dispose()


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Moves the machine to another time zone, and back."""

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield move
    monkeypatch.undo()
    time.tzset()


def test_the_papers_of_two_like_months_are_the_same_to_the_byte(tmp_path, zone):
    told = []
    for pace in (CLOSELY, RARELY):
        zone(pace.zone)
        with lived(tmp_path / pace.zone.replace("/", "-"), pace) as (_, client):
            told.append([client.get(paper).content for paper in PAPERS])
    assert told[0] == told[1]
    assert all(len(paper.splitlines()) > 1 for paper in told[0])


def test_every_figure_of_a_month_is_followed_down_to_the_price_list_and_to_googles_bill(tmp_path):
    with lived(tmp_path / "month", RARELY) as (month, client):
        statement = client.get("/v1/statements/2026-11").json()
        assert statement["state"] == "closed"
        every = [line for node in month.nodes.values() for line in ledger(client, node.id)]
        lines = [line for line in every if line["period"] == "2026-11"]
        assert total(lines, "amount") == total(statement["lines"], "amount")
        assert total(lines, "amount") == parse_usd(statement["amount"])
        for line in lines:
            found = client.get(f"/v1/nodes/{line['node']}/ledger/{line['number']}").json()
            assert found["price"]["usd"] == line["usd_per_chip_hour"], "as the price list says"
            alone = Fraction(line["chip_seconds"] * parse_usd(line["usd_per_chip_hour"]), HOUR)
            assert abs(parse_usd(line["amount"]) - alone) <= 2, "it is rounded with its interval"
        with month.units.reading() as unit:
            used = [usage for node in month.nodes.values() for usage in unit.usage.of(node.id)]
        bill = month.world.bill.entries(month.world.settle())
        now = month.agenda.seconds()
        assert sorted((usage.start, usage.end or now) for usage in used) == sorted(
            (entry["start"], entry["end"]) for entry in bill
        )
        assert sum(usage.uncertain_seconds for usage in used) == 0


def ledger(client, node_id):
    """Every line of a node."""
    found, token = [], ""
    while True:
        query = {"page_size": 1000, "page_token": token}
        page = client.get(f"/v1/nodes/{node_id}/ledger", params=query).json()
        found += [line | {"node": node_id} for line in page["entries"]]
        token = page["next_page_token"]
        if not token:
            return found


def total(rows, name):
    return sum(parse_usd(row[name]) for row in rows)
