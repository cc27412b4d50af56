"""What each month comes to, asked over HTTP."""

from __future__ import annotations

import csv
import io

import pytest

from service.domain.billing_period import GRACE, period_of
from service.domain.clock import DAY, HOUR
from tests import books, factories
from tests.hands import NOON
from tests.purchases import metered
from tests.store.given import entry, ran, stored

OCTOBER, NOVEMBER = period_of(NOON - 10 * DAY), period_of(NOON)
LINE = "9.600000000"


@pytest.fixture
def two_months(units):
    """Two hours in October, of which one was known too late, and one in November."""
    usage = ran(units, stored(units, team="vision", owner="ada"))
    whose = {0: factories.attribution(node_id=usage.node_id)}
    with units() as unit:
        for hour, now in (
            (OCTOBER.end - 2 * HOUR, OCTOBER.end),
            (OCTOBER.end - HOUR, OCTOBER.end + GRACE),
            (NOON, NOON + HOUR),
        ):
            unit.ledger.post([entry(usage, hour=hour)], usage, whose, now)


def test_nothing_was_charged_yet(client):
    assert client.get("/v1/statements").json() == {"statements": [], "next_page_token": ""}


@pytest.mark.usefixtures("two_months")
def test_months_are_listed_with_what_is_billed_in_them(client):
    months = client.get("/v1/statements").json()["statements"]
    assert [(month["period"], month["state"], month["amount"]) for month in months] == [
        ("2026-11", "open", "19.200000000"),
        ("2026-10", "closed", LINE),
    ]


@pytest.mark.usefixtures("two_months")
def test_the_lines_of_a_month_sum_to_it_and_say_what_they_correct(client):
    found = client.get("/v1/statements/2026-11").json()
    assert [(line["corrects"], line["amount"]) for line in found["lines"]] == [
        ("", LINE),
        ("2026-10", LINE),
    ]
    assert found["amount"] == "19.200000000"
    line = found["lines"][0]
    assert (line["team"], line["owner"], line["usd_per_chip_hour"]) == (
        "vision",
        "ada",
        "1.200000000",
    )
    assert (line["chip_seconds"], line["chip_hours"]) == (28_800, "8.000000000")


@pytest.mark.usefixtures("two_months")
def test_a_month_as_csv_is_the_same_bytes_whenever_it_is_asked_for(client, clock):
    first = client.get("/v1/statements/2026-11", params={"format": "csv"})
    assert first.headers["Content-Type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(first.text)))
    assert [row["amount"] for row in rows] == [LINE, LINE]
    clock.pass_(9 * DAY)
    assert client.get("/v1/statements/2026-11?format=csv").content == first.content


@pytest.fixture
def all_kinds(units, clock):
    """A node, a legacy one with its machine, and a reservation that two nodes ran in."""
    return books.kept(units, clock)


def lines_of(client, month="2026-11"):
    return client.get(f"/v1/statements/{month}").json()["lines"]


@pytest.mark.usefixtures("all_kinds")
def test_a_machine_is_a_line_with_hours_of_its_own(client):
    (machine,) = [line for line in lines_of(client) if line["vm_seconds"]]
    assert (machine["accelerator_type"], machine["generation"]) == ("n1-standard-8",) * 2
    assert (machine["vm_seconds"], machine["vm_hours"]) == (5 * HOUR - 60, "4.983333333")
    assert (machine["chip_seconds"], machine["usd_per_chip_hour"]) == (0, "0.379998000")
    month = client.get("/v1/statements/2026-11").json()
    assert (month["vm_seconds"], month["vm_hours"]) == (5 * HOUR - 60, "4.983333333")


@pytest.mark.usefixtures("all_kinds")
def test_what_of_a_reservation_was_used_and_what_was_not_are_two_lines(client):
    unused, used = [line for line in lines_of(client) if line["reservation"]]
    for line, status, kind in ((used, "used", "v5litepod-8"), (unused, "unused", "v5e")):
        told = line["reservation"], line["reservation_status"], line["accelerator_type"]
        assert told == ("march", status, kind)
    assert used["chip_seconds"] + unused["chip_seconds"] == 8 * DAY
    assert (used["team"], unused["team"]) == ("vision", "infra")
    others = [line for line in lines_of(client) if line not in (used, unused)]
    assert {other["reservation_status"] for other in others} == {""}


def test_reservations_that_follow_each_other_under_one_name_are_one_line(client, units, clock):
    for start in (books.START, books.START + DAY):
        books.reservation(units, clock, start=start, end=start + DAY)
    metered(units, clock)
    (line,) = lines_of(client)
    assert (line["reservation"], line["chip_seconds"]) == ("march", 2 * 8 * DAY)


def test_what_is_withdrawn_of_a_closed_month_is_a_correction_of_the_reservation(
    client, units, clock, services, all_kinds
):
    before = lines_of(client)
    clock.pass_(60 * DAY)
    services.reservations.withdraw(all_kinds.bought.id, "bought twice")
    metered(units, clock)
    assert lines_of(client) == before
    told = {
        (line["reservation_status"], line["corrects"], line["chip_seconds"])
        for line in lines_of(client, "2027-01")
    }
    (unused,) = [line for line in before if line["reservation_status"] == "unused"]
    assert ("unused", "2026-11", -unused["chip_seconds"]) in told


@pytest.mark.usefixtures("all_kinds")
def test_a_month_as_csv_names_no_id(client, all_kinds):
    text = client.get("/v1/statements/2026-11?format=csv").text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["reservation_status"] for row in rows if row["reservation"] == "march"] == [
        "unused",
        "used",
    ]
    assert all_kinds.bought.id not in text


@pytest.mark.parametrize(
    ("days", "state"), [(0, "open"), (26, "provisional"), (28, "provisional"), (29, "closed")]
)
def test_a_month_is_open_then_provisional_then_closed(client, clock, days, state):
    clock.pass_(days * DAY)
    assert client.get("/v1/statements/2026-11").json()["state"] == state


@pytest.mark.parametrize("name", ["2026-13", "november", "2026-1", "0000-01", "2026-11-01"])
def test_what_is_no_month_is_refused(client, name):
    answer = client.get(f"/v1/statements/{name}")
    assert answer.status_code == 422
    assert "is not a month; write it as 2026-11" in answer.json()["detail"]
