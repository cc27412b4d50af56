"""The ledger as a file over HTTP: FOCUS rows, streamed, the same from equal ledgers."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import pytest

from service import wiring
from service.application.costs.exports import AT_ONCE, ExportService
from service.domain.clock import DAY, HOUR
from service.domain.costs.charge import ChargeKind
from service.domain.costs.focus import Account, Version, column_names
from service.domain.metering.meter import Evidence
from service.domain.money import NANOS
from service.domain.nodes.node import NodeState
from service.domain.pricing.price_book import Sku
from service.settings import Settings
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import books, factories
from tests.charges import read
from tests.databases import fresh_database
from tests.domain.focus_checks import complaints
from tests.hands import NOON
from tests.purchases import metered
from tests.store.given import entry, posted, ran, stored
from tests.store.given import metered as posted_of

FOCUS = "/v1/exports/focus"
WINDOW = f"{FOCUS}?window=2026-11-01,2026-12-01"


def a_day(units, clock):
    """Three nodes that ran, one of them with an end that was found to be sooner than believed; and
    a machine beside a legacy node, and a reservation that nodes ran in for a while."""
    books.kept(units, clock)
    for number, model in enumerate(("on_demand", "spot", "on_demand")):
        node = stored(
            units,
            id=f"019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a1{number}",
            state=NodeState.READY,
            cloud_id=f"n-{number}",
            provisioning_model=model,
            labels={"run": str(number)},
        )
        sku = Sku("v5e", model, "us-west4", single_device=True)
        start = NOON - 5 * HOUR + 17 * number
        usage = ran(units, node, sku=sku, start=start, end=start + 3 * HOUR + 1, end_lo=start)
        usage = posted_of(units, usage, book(units), NOON)
        if number == 2:
            assert usage.end is not None
            sooner = replace(usage, end=usage.end - 1_111, dirty=True)
            with units() as unit:
                sooner = unit.usage.save(sooner)
            posted_of(units, sooner, book(units), NOON)


def book(units):
    with units.reading() as unit:
        return PriceBookCache().get_book(unit)


def sum_of_ledger(engine):
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT sum(amount_nanos) FROM ledger").scalar_one()


@pytest.fixture
def file(client, units, clock):
    """What the window holds, in an edition."""
    a_day(units, clock)

    def fetch(version="1.4"):
        answer = client.get(f"{WINDOW}&version={version}")
        assert answer.status_code == 200, answer.text
        return answer.text

    return fetch


@pytest.mark.parametrize("version", list(Version))
def test_the_file_breaks_no_rule_of_its_edition(file, version):
    text = file(version)
    assert {row["ResourceType"] for row in read(text)} == set(ChargeKind) - {ChargeKind.COMMITMENT}
    assert complaints(text, version) == []


def test_the_file_has_every_nano_dollar_of_the_ledger(file, engine):
    billed = sum(Decimal(row["BilledCost"]) for row in read(file()))
    assert billed * NANOS == sum_of_ledger(engine)
    assert any(row["BilledCost"].startswith("-") for row in read(file()))


def test_machines_are_counted_by_the_hour_and_what_was_reserved_by_who_used_it(file):
    rows = read(file())
    by_unit: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    by_status: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        by_unit[row["ServiceName"], row["ConsumedUnit"]] += Decimal(row["BilledCost"])
        by_status[row["CapacityReservationStatus"]] += Decimal(row["PricingQuantity"])
    assert set(by_unit) == {
        ("Cloud TPU", "Chip-Seconds"),
        ("Cloud TPU", ""),
        ("Compute Engine", "Seconds"),
    }
    hours = Decimal(5 * HOUR - 60) / HOUR
    charged = hours * books.MACHINE_HOUR / NANOS
    assert abs(by_unit["Compute Engine", "Seconds"] - charged) < Decimal("1e-8")
    assert by_status["Used"] + by_status["Unused"] == 24 * 8
    assert any(
        row["PricingQuantity"].startswith("-") and row["CapacityReservationStatus"] == "Unused"
        for row in rows
    )


def test_a_record_that_is_withdrawn_changes_no_line_of_a_month_that_is_closed(
    client, units, clock, services
):
    bought = books.kept(units, clock).bought
    clock.pass_(60 * DAY)
    before = client.get(WINDOW).text
    services.reservations.withdraw(bought.id, "bought twice")
    metered(units, clock)
    assert client.get(WINDOW).text == before
    corrections = read(client.get(f"{FOCUS}?window=2027-01-01,2027-02-01").text)
    unused = [row for row in corrections if row["CapacityReservationStatus"] == "Unused"]
    assert {row["ChargeClass"] for row in unused} == {"Correction"}
    old = [row for row in read(before) if row["CapacityReservationStatus"] == "Unused"]
    assert sum(Decimal(row["BilledCost"]) for row in [*unused, *old]) == 0


def test_the_focus_data_toolkit_finds_nothing_wrong_with_the_file(file, tmp_path):
    path = tmp_path / "focus.csv"
    path.write_text(file(), encoding="utf-8", newline="")
    supports = ("--supports", "SupportsUnitPricing", "--supports")
    run = subprocess.run(
        [
            *(sys.executable, "-m", "focus_data_toolkit", "validate", str(path)),
            *("--dataset", "cost-and-usage", *supports, "SupportsMultiplePricingCategories"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "lint OK" in run.stdout, run.stdout + run.stderr
    assert run.returncode == 0


def test_it_is_offered_as_a_file_of_a_name_that_says_what_it_is(client):
    answer = client.get(WINDOW)
    assert answer.headers["content-type"].startswith("text/csv; charset=utf-8")
    assert answer.headers["content-disposition"] == (
        'attachment; filename="focus-1.2-20261101T000000Z-20261201T000000Z.csv"'
    )


def test_readers_that_take_their_time_leave_connections_for_others(client, services):
    slow = [services.exports.export_focus(Version.V1_2).pieces for _ in range(AT_ONCE)]
    for pieces in slow:
        next(pieces)
    answer = client.get(FOCUS)
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "10"
    slow.pop().close()
    assert client.get(FOCUS).status_code == 200


def test_where_nothing_was_spent_there_is_a_header_alone(client):
    assert client.get(FOCUS).text == ",".join(column_names(Version.V1_2)) + "\r\n"


def test_the_month_so_far_is_what_is_exported_by_default(client, units, clock):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage)])
    assert read(client.get(FOCUS).text) == []
    clock.pass_(HOUR)
    assert len(read(client.get(FOCUS).text)) == 1


def test_what_still_runs_is_in_no_file_before_it_is_posted(client, units, clock):
    usage = ran(units, stored(units, state=NodeState.READY))
    clock.pass_(HOUR + 60)
    posted_of(units, usage, book(units), clock())
    (row,) = read(client.get(FOCUS).text)
    assert (row["ChargePeriodEnd"], row["x_Estimated"]) == ("2026-11-05T13:00:00Z", "true")


def test_the_rows_of_a_closed_month_are_final_but_for_hours_that_nobody_is_sure_of(
    client, units, clock
):
    for name, unsure in (("sure", 0), ("unsure", 60)):
        usage = ran(
            units,
            stored(units, name=name, cloud_id=name),
            end=NOON + 2 * HOUR,
            end_lo=NOON + 2 * HOUR - unsure,
            end_evidence=Evidence.OBSERVED,
        )
        posted_of(units, usage, book(units), NOON + 3 * HOUR)
    november = f"{FOCUS}?window=2026-11-01,2026-12-01"
    assert {row["x_Estimated"] for row in read(client.get(november).text)} == {"true"}
    clock.pass_(40 * 24 * HOUR)
    rows = read(client.get(november).text)
    told = {
        (row["ResourceName"], row["ChargePeriodStart"][11:13]): row["x_Estimated"] for row in rows
    }
    assert told == {
        ("sure", "12"): "false",
        ("sure", "13"): "false",
        ("unsure", "12"): "false",
        ("unsure", "13"): "true",
    }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("window=yesterday", "window"),
        ("window=2026-11-02,2026-11-01", "window"),
        ("version=1.3", "version"),
        ("versions=1.4", "versions"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(client, query, field):
    answer = client.get(f"{FOCUS}?{query}")
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert field in answer.text


def service(units):
    return ExportService(
        units, PriceBookCache(), lambda: NOON, Account.from_settings("", "steward")
    )


def test_equal_ledgers_make_equal_files_whatever_the_order_in_which_they_came_about(tmp_path):
    files = []
    for name, nodes in (("one", (1, 2, 3)), ("other", (3, 1, 2))):
        folder = tmp_path / name
        folder.mkdir()
        with fresh_database("sqlite", folder) as address:
            engine = make_engine(address)
            units = Units(engine)
            for number in nodes:
                node = stored(units, id=f"node-{number}", name=f"n{number}", cloud_id=f"c{number}")
                usage = ran(units, node)
                lines = [entry(usage), entry(usage, number=1, amount=-5, chip_seconds=-8)]
                for line in lines if name == "one" else reversed(lines):
                    posted(units, usage, [line])
            files.append(
                "".join(service(units).export_focus(Version.V1_4, "2026-11-01,2026-12-01").pieces)
            )
            engine.dispose()
    assert files[0] == files[1]
    assert len(read(files[0])) == 6


def test_whoever_hangs_up_gives_the_connection_back(units, engine):
    usage = ran(units, stored(units))
    posted(units, usage, [entry(usage)])
    pieces = service(units).export_focus(Version.V1_2, "7d").pieces
    assert next(pieces).startswith("BillingAccountId")
    assert engine.pool.checkedout() == 1
    pieces.close()
    assert engine.pool.checkedout() == 0


def test_the_name_of_the_billing_account_reaches_the_rows_from_the_settings(engine, units, clock):
    books.ran(units, NOON - 5 * HOUR, NOON - 3 * HOUR)
    metered(units, clock)
    settings = Settings(
        database_url=engine.url.render_as_string(hide_password=False),
        projects=(factories.PROJECT,),
        billing_account="012345-6789AB-CDEF01",
        billing_account_name="Lab of Ada",
    )
    base = wiring.Foundation(settings, engine, units, PriceBookCache(), clock)
    export = wiring.build_services(base).exports.export_focus(Version.V1_2)
    rows = read("".join(export.pieces))
    assert {row["BillingAccountName"] for row in rows} == {"Lab of Ada"}
    assert {row["BillingAccountId"] for row in rows} == {"012345-6789AB-CDEF01"}
