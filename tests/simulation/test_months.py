"""Two months in which the same was done are the same to the byte, however closely one looked."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Engine

from service.domain.clock import HOUR
from service.domain.money import half_even, parse_usd
from service.settings import Settings
from service.store.engine import make_engine
from service.store.migrate import migrate
from service.store.pricebook import PriceBookCache
from service.store.tables import metadata
from service.store.unit import Units
from service.wiring import Foundation, build_app
from tests.databases import fresh_database
from tests.simulation.clock import set_databases_clock
from tests.simulation.month import Month, Pace
from tests.simulation.run import repeatable_ids, steady_deadlines

pytestmark = pytest.mark.deep

NO_FILE: dict[str, Any] = {"_env_file": None}
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
        set_databases_clock(engine, month.agenda)
        with repeatable_ids(0, month.agenda), steady_deadlines():
            month.live()
        settings = Settings(projects=("lab",), **NO_FILE)
        base = Foundation(settings, engine, month.units, PriceBookCache(), month.agenda.seconds)
        with TestClient(build_app(base), base_url="http://localhost") as client:
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


@pytest.fixture(scope="module")
def rarely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Month, TestClient]]:
    """The month as a daemon lived it that rarely looks, and someone who asks about it."""
    with lived(tmp_path_factory.mktemp("rarely") / "month", RARELY) as both:
        yield both


@pytest.fixture
def month(rarely: tuple[Month, TestClient]) -> Month:
    return rarely[0]


@pytest.fixture
def client(rarely: tuple[Month, TestClient]) -> TestClient:
    return rarely[1]


@pytest.mark.long
def test_the_papers_of_two_like_months_are_the_same_to_the_byte(tmp_path, zone):
    told = []
    for pace in (CLOSELY, RARELY):
        zone(pace.zone)
        with lived(tmp_path / pace.zone.replace("/", "-"), pace) as (_, client):
            told.append([client.get(paper).content for paper in PAPERS])
    assert told[0] == told[1]
    assert all(len(paper.splitlines()) > 1 for paper in told[0])


def test_every_figure_of_a_month_is_followed_down_to_the_price_list_and_to_googles_bill(
    month, client
):
    statement = client.get("/v1/statements/2026-11").json()
    assert statement["state"] == "closed"
    lines = [line for line in ledgers(client, month) if line["period"] == "2026-11"]
    assert total(lines, "amount") == total(statement["lines"], "amount")
    assert total(lines, "amount") == parse_usd(statement["amount"])
    for line in lines:
        found = client.get(f"{line['of']}/ledger/{line['number']}").json()
        chips = 4 if found["price"]["unit"] == "device_hour" else 1
        listed = parse_usd(found["price"]["usd"])
        assert listed == chips * parse_usd(line["usd_per_chip_hour"]), "as the price list says"
        units = line["vm_seconds"] or line["chip_seconds"]
        alone = Fraction(units * parse_usd(line["usd_per_chip_hour"]), HOUR)
        assert abs(parse_usd(line["amount"]) - alone) <= 2, "it is rounded with its interval"
    with month.units.reading() as unit:
        used = [
            usage for node in month.nodes.values() for usage in unit.usage.list_by_node(node.id)
        ]
    bill = month.world.bill.list_entries(month.world.run_due_events())
    now = month.agenda.seconds()
    assert sorted((usage.start, usage.end or now) for usage in used) == sorted(
        (entry["start"], entry["end"]) for entry in bill
    )
    assert sum(usage.uncertain_seconds for usage in used) == 0


def test_what_a_reservation_was_used_for_and_what_nobody_used_is_the_whole_of_it(month, client):
    bought = month.reservations["block"]
    used = lines_of(client, f"/v1/nodes/{month.nodes['tune'].id}")
    unused = lines_of(client, f"/v1/reservations/{bought.id}")
    chip_seconds = bought.chips * (bought.end - bought.start)
    price = 840_000_000
    assert {parse_usd(line["usd_per_chip_hour"]) for line in (*used, *unused)} == {price}
    assert 0 < sum(line["chip_seconds"] for line in used) < chip_seconds / 2
    assert sum(line["chip_seconds"] for line in (*used, *unused)) == chip_seconds
    assert total((*used, *unused), "amount") == chip_seconds * price // HOUR
    said = [explained(client, line) for line in unused if line["kind"] == "usage"]
    reserved = "16 chips x 3,600 s = 57,600 chip-seconds reserved, of which "
    assert all(reserved in line for line in said)
    assert sum(f"{reserved}no node used any" in line for line in said) > len(said) / 2
    partly = f"{reserved}nodes used 28,800, so that 28,800 were not used"
    assert sum(partly in line for line in said) == 40
    assert all("it was bought from " in line for line in said)
    assert all("it ran in the reservation block" in explained(client, line) for line in used)


def test_the_machine_of_a_legacy_node_is_a_line_of_its_own_down_to_its_price(month, client):
    lines = lines_of(client, f"/v1/nodes/{month.nodes['old'].id}")
    machine = [line for line in lines if line["unit"] == "vm_hour"]
    tpu = [line for line in lines if line["unit"] == "chip_hour"]
    assert {line["what"] for line in machine} == {"n1-standard-8"}
    assert {line["what"] for line in tpu} == {"v2-8"}
    seconds = sum(line["vm_seconds"] for line in machine)
    assert seconds * 4 == sum(line["chip_seconds"] for line in tpu) > 0
    assert total(machine, "amount") == half_even(seconds * 379_998_000, HOUR)
    assert total(tpu, "amount") == half_even(seconds * 4_500_000_000, HOUR)
    for line in machine:
        said = explained(client, line)
        assert f"1 VM x {line['vm_seconds']:,} s x $0.379998 an hour" in said
        assert "this VM drives v2-8" in said


def ledgers(client, month):
    """Every line of every node and reservation."""
    paths = [f"/v1/nodes/{node.id}" for node in month.nodes.values()]
    paths += [f"/v1/reservations/{reservation.id}" for reservation in month.reservations.values()]
    return [line for path in paths for line in lines_of(client, path)]


def explained(client, line):
    """What is said of a line, in one."""
    found = client.get(f"{line['of']}/ledger/{line['number']}").json()
    return "; ".join(found["explanation"])


def lines_of(client, path):
    """Every line of a node or a reservation, and whose it is."""
    found, token = [], ""
    while True:
        query = {"page_size": 1000, "page_token": token}
        page = client.get(f"{path}/ledger", params=query).json()
        found += [line | {"of": path} for line in page["entries"]]
        token = page["next_page_token"]
        if not token:
            return found


def total(rows, name):
    return sum(parse_usd(row[name]) for row in rows)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_all_that_a_month_wrote_fits_tables_that_were_just_made(kind: str, tmp_path: Path) -> None:
    """Every row of thirty days, in a database that has seen nothing but the migration, on either
    kind: all constraints hold, and what is told of the month is the same to the byte."""
    with lived(tmp_path / "lab", CLOSELY) as (month, client):
        papers = [client.get(paper).content for paper in PAPERS]
        with fresh_database(kind, tmp_path) as address:
            engine = make_engine(address)
            filled = copy_rows(month.engine, engine)
            migrate(engine)
            settings = Settings(projects=("lab",), **NO_FILE)
            base = Foundation(
                settings, engine, Units(engine), PriceBookCache(), month.agenda.seconds
            )
            with TestClient(build_app(base), base_url="http://localhost") as other:
                assert [other.get(paper).content for paper in PAPERS] == papers
            engine.dispose()
    assert {"ledger", "usage", "nodes", "prices", "reservations", "daily_costs"} <= set(filled)
    assert filled["ledger"] > 1_000


def copy_rows(source: Engine, target: Engine) -> Mapping[str, int]:
    """Write all rows of one database into another; answers how many by table, where there are."""
    filled = {}
    with source.connect() as old, target.begin() as new:
        for table in metadata.sorted_tables:
            if new.execute(table.select()).first() is not None:
                new.execute(table.delete())
            if rows := [dict(row) for row in old.execute(table.select()).mappings()]:
                new.execute(table.insert(), rows)
                filled[table.name] = len(rows)
    return filled
