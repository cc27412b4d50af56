"""A bill over HTTP: the file is the body, the answer is the headline."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select, text

from service.api.app import create_app
from service.api.http import problems
from service.application.reconciliations import AT_ONCE, ReconciliationService
from service.domain.clock import HOUR, to_rfc3339
from service.domain.reconciliation.bill import Bill
from service.domain.reconciliation.bill_file import Shape
from service.domain.reconciliation.commitments import NO_FEE
from service.store.bills import Bills
from service.store.tables import bill_lines, bill_rows
from tests import books, factories
from tests.bills import detailed_csv, json_lines, row, time_of
from tests.hands import NOON
from tests.plantedcommitments import first_file, later_file
from tests.store.test_bills import START, hours_of, ran

PATH = "/v1/reconciliations"


@pytest.fixture
def post(client):
    """Send a file."""

    def sent(content, status=201, **params):
        answer = client.post(
            PATH, content=content, params=params, headers={"content-type": "text/csv"}
        )
        assert answer.status_code == status, answer.text
        return answer.json()

    return sent


def test_the_answer_is_the_headline_and_can_be_asked_for_again(client, post, units):
    ran(units)
    content = detailed_csv([*hours_of(), *hours_of("leak", hours=1, cost=2.5)])
    answer = client.post(PATH, content=content, params={"name": "november.csv"})
    found = answer.json()
    assert answer.headers["location"] == f"{PATH}/{found['id']}"
    assert found["name"] == "november.csv"
    assert (found["start"], found["end"]) == (to_rfc3339(START), to_rfc3339(START + 3 * HOUR))
    assert found["newest"] == to_rfc3339(NOON)
    assert found["total"]["variance"] == "2.500000000"
    assert found["total"]["variance_percent"] == "8.6806"
    assert found["verdicts"]["matched"]["billed"] == "28.800000000"
    assert [sku["variance"] for sku in found["skus"]] == ["2.500000000"]
    assert [project["project"] for project in found["projects"]] == [factories.PROJECT]
    assert client.get(f"{PATH}/{found['id']}").json() == found
    assert client.get(PATH).json() == {"reconciliations": [found], "next_page_token": ""}


def test_commitments_are_told_with_what_is_not_known(client, post, units):
    node = ran(units, "half")
    post(json_lines(first_file()))
    found = post(json_lines(later_file()))
    half, unused, no_fee = (
        next(
            commitment
            for commitment in found["commitments"]
            if (commitment["generation"], commitment["region"]) == place
        )
        for place in (("v6e", "us-south1"), ("v6e", "us-central1"), ("v6e", "us-west1"))
    )
    assert half == {
        "month": "2026-11",
        "billing_account": "012345-6789AB-CDEF01",
        "generation": "v6e",
        "region": "us-south1",
        "term_years": 1,
        "fee": "60.480000001",
        "fee_offset": "0.000000000",
        "committed_chip_seconds": 115_200,
        "covered_chip_seconds": 57_600,
        "eligible_chip_seconds": 57_600,
        "utilisation_percent": "50.0000",
        "coverage_percent": "100.0000",
        "amortised": "30.240000000",
        "unused": "30.240000001",
        "list_cost": "43.200000000",
        "saving": "-17.280000001",
        "nodes": [
            {
                "project": factories.PROJECT,
                "resource": f"//tpu.googleapis.com/projects/{factories.PROJECT}"
                "/locations/us-south1-a/nodes/half",
                "node_id": node.id,
                "covered_chip_seconds": 57_600,
                "amortised": "30.240000000",
                "nodes": 1,
            }
        ],
        "reasons": [],
    }
    assert (unused["utilisation_percent"], unused["coverage_percent"]) == ("0.0000", None)
    assert (no_fee["fee"], no_fee["term_years"], no_fee["saving"]) == (None, None, None)
    assert no_fee["reasons"] == [NO_FEE]
    assert found["commitments_reason"] == ""
    assert client.get(f"{PATH}/{found['id']}").json() == found


def test_a_bill_that_lost_its_rows_before_says_why_it_has_no_commitments(client, post, engine):
    found = post(json_lines(first_file()))
    with engine.begin() as connection:
        connection.execute(text("UPDATE bills SET commitments = 'null'"))
        connection.execute(text("DELETE FROM bill_rows"))
    again = client.get(f"{PATH}/{found['id']}").json()
    assert again["commitments"] == []
    assert again["commitments_reason"].endswith("if the rows are gone, send the file again")


def test_credits_invoices_and_joined_files_are_told(client, post, units):
    ran(units)
    kinds = [
        {"type": "COMMITTED_USAGE_DISCOUNT", "amount": -1.6},
        {"type": "PROMOTION", "amount": -0.5},
    ]
    first = post(json_lines(hours_of(hours=2, credits=kinds)), name="first")
    late = hours_of(hours=1, start=START + 2 * HOUR)
    euro = hours_of("tax", hours=1, cost_type="tax", currency="EUR", cost=1.9)
    found = post(json_lines([*hours_of(hours=1, credits=kinds), *late, *euro]), name="late")
    assert found["joined"] == [{"id": first["id"], "name": "first", "rows": 2, "again": 1}]
    assert client.get(f"{PATH}/{first['id']}").json()["joined_into"] == found["id"]
    matched = found["verdicts"]["matched"]
    assert (matched["lines"], matched["billed"], matched["net"]) == (
        3,
        "28.800000000",
        "24.600000000",
    )
    assert matched["credits_by_kind"] == {
        "COMMITTED_USAGE_DISCOUNT": "-3.200000000",
        "PROMOTION": "-1.000000000",
    }
    assert matched["explained"]
    assert matched["explanation"].startswith("credits explain all of -$4.20")
    assert found["apart"]["no_conversion_rate"] == {
        "rows": 1,
        "cost": "0.000000000",
        "reason": "in another currency, without a currency_conversion_rate above zero",
        "local": {"EUR": "1.900000000"},
    }
    told = [
        (invoice["month"], invoice["currency"], invoice["total"]) for invoice in found["invoices"]
    ]
    assert [(month, currency, total["local_total"]) for month, currency, total in told] == [
        ("2026-11", "EUR", "1.900000000"),
        ("2026-11", "USD", "24.600000000"),
    ]
    (line, *_) = client.get(f"{PATH}/{found['id']}/lines").json()["lines"]
    assert (line["net"], line["explained"]) == ("7.500000000", True)
    assert "the ledger has the cost before credits" in line["reason"]


def test_the_lines_can_be_had_by_verdict_and_page_by_page(client, post, units):
    node = ran(units)
    found = post(json_lines([*hours_of(), *hours_of("leak", hours=1)]))
    path = f"{PATH}/{found['id']}/lines"
    (leak,) = client.get(path, params={"verdict": "bill_without_node"}).json()["lines"]
    assert leak["resource"].endswith("/leak")
    assert (leak["billed"], leak["charged"]) == ("9.600000000", "0.000000000")
    assert (leak["seen"], leak["node_id"]) == ("never", "")
    first = client.get(path, params={"page_size": 3}).json()
    rest = client.get(path, params={"page_token": first["next_page_token"]}).json()
    assert len(first["lines"]) == 3
    assert rest["next_page_token"] == ""
    both = {"verdict": ["matched", "bill_without_node"]}
    every = client.get(path, params=both).json()["lines"]
    assert every == first["lines"] + rest["lines"]
    assert {reconciliation["node_id"] for reconciliation in every} == {node.id, ""}


def test_a_reservation_is_compared_by_name_and_machines_are_left_out(client, post, units, clock):
    books.kept(units, clock)
    export = client.get("/v1/exports/focus?window=2026-11-01,2026-12-01").content
    found = post(export)
    assert found["machines"] == {"entries": 5, "charged": "1.893656700"}
    assert {verdict for verdict, one in found["verdicts"].items() if one["lines"]} == {"matched"}
    lines = client.get(f"{PATH}/{found['id']}/lines", params={"page_size": 1_000}).json()["lines"]
    march = [line for line in lines if line["reservation"]]
    assert {(line["reservation"], line["node_id"], line["seen"]) for line in march} == {
        ("march", "", "recorded")
    }
    assert march[0]["charged_chip_seconds"] == 8 * 17


def test_the_same_file_again_is_told_and_changes_nothing(client, post):
    content = json_lines(hours_of())
    first, again = post(content), post(content)
    assert again == first | {"known": True}
    assert len(client.get(PATH).json()["reconciliations"]) == 1
    assert post(content, tolerance="1.00")["id"] != first["id"]


def test_a_wrong_file_is_taken_out_with_those_that_it_joined(client, post, units, clock, engine):
    ran(units)
    right, wrong, else_ = (
        json_lines(hours_of(hours=number, cost=number + 1)) for number in (1, 2, 3)
    )
    first = post(right, name="right")
    clock.pass_(60)
    second = post(wrong, name="wrong")
    kept = post(else_, name="else", alone="true")
    refused = client.delete(f"{PATH}/{first['id']}")
    assert refused.status_code == 409
    assert second["id"] in refused.json()["detail"]
    answer = client.delete(f"{PATH}/{second['id']}")
    assert answer.status_code == 200
    assert [
        (reconciliation["id"], reconciliation["name"])
        for reconciliation in answer.json()["removed"]
    ] == [
        (second["id"], "wrong"),
        (first["id"], "right"),
    ]
    assert [
        reconciliation["id"] for reconciliation in client.get(PATH).json()["reconciliations"]
    ] == [kept["id"]]
    assert client.delete(f"{PATH}/{second['id']}").status_code == 404
    with engine.connect() as connection:
        left = {row[0] for row in connection.execute(select(bill_lines.c.bill_id))}
        assert left == {kept["id"]}
        assert connection.execute(select(bill_rows.c.bill_id)).all() == []
    again = post(right, name="right")
    assert not again["known"]
    assert again["joined"] == []
    assert again["total"] == first["total"]


def month(number, day):
    """A file with an hour of a day in that month of 2026, on the invoice of the month."""
    times = {
        f"usage_{name}_time": f"2026-{number:02}-{day:02} {hour:02}:00:00 UTC"
        for name, hour in (("start", 0), ("end", 1))
    }
    return row(**times, **{"invoice.month": f"2026{number:02}"})


def test_a_file_of_two_months_that_two_later_ones_joined_goes_with_either(client, post, clock):
    both = json_lines([month(9, 1), month(10, 20)])
    ids = []
    for content in (both, json_lines([month(10, 25)]), json_lines([month(9, 5)])):
        clock.pass_(60)
        ids.append(post(content)["id"])
    removed = client.delete(f"{PATH}/{ids[1]}").json()["removed"]
    assert [reconciliation["id"] for reconciliation in removed] == [ids[1], ids[0]]
    assert not post(both)["known"], "its rows of October are nowhere else"


def test_an_import_that_begins_while_files_are_taken_out_joins_none_of_them(
    client, post, clock, monkeypatch
):
    post(json_lines([month(9, 1), month(10, 20)]))
    clock.pass_(60)
    later = post(json_lines([month(10, 25)]))
    files, rows_of = [json_lines([month(9, 5)])], Bills.count_rows
    imports: list[dict[str, object]] = []

    def meanwhile(bills, *args):
        if files:
            imports.append(post(files.pop()))
        return rows_of(bills, *args)

    monkeypatch.setattr(Bills, "count_rows", meanwhile)
    assert len(client.delete(f"{PATH}/{later['id']}").json()["removed"]) == 2
    assert imports[0]["joined"] == []


def test_of_two_files_of_a_month_that_are_imported_at_once_one_has_to_be_sent_again(
    client, post, monkeypatch
):
    file, other = (json_lines([month(10, day)]) for day in (20, 25))
    others, reach = [other], Bills.find_hour_range
    imports: list[dict[str, object]] = []

    def meanwhile(bills, bill_id):
        if others:
            imports.append(post(others.pop()))
        return reach(bills, bill_id)

    monkeypatch.setattr(Bills, "find_hour_range", meanwhile)
    refused = client.post(PATH, content=file)
    assert refused.status_code == 409
    assert "send this file again" in refused.json()["detail"]
    assert [joined["id"] for joined in post(file)["joined"]] == [imports[0]["id"]]


def test_no_file_is_taken_out_while_another_is_imported(client, post, units):
    found = post(json_lines(hours_of()))
    bill = Bill("0" * 36, "", "d", Shape.JSON_LINES, 0, NOON)
    with units() as unit:
        unit.bills.add(bill)
    refused = client.delete(f"{PATH}/{found['id']}")
    assert refused.status_code == 409
    assert "being imported" in refused.json()["detail"]
    with units() as unit:
        unit.bills.delete(bill.id)
    assert post(json_lines(hours_of(hours=1)))["joined"], "it still has its rows"


def test_an_import_that_begins_while_a_file_is_taken_out_keeps_it(client, post, units, monkeypatch):
    """It had looked for files to join before this one was marked."""
    found = post(json_lines(hours_of()))
    bill = Bill("0" * 36, "", "d", Shape.JSON_LINES, 0, NOON)
    save = Bills.save

    def meanwhile(bills, marked):
        save(bills, marked)
        if not marked.periods:
            bills.add(bill)

    monkeypatch.setattr(Bills, "save", meanwhile)
    assert client.delete(f"{PATH}/{found['id']}").status_code == 409
    with units() as unit:
        unit.bills.delete(bill.id)
    assert post(json_lines(hours_of(hours=1)))["joined"], "it still has its rows"


def test_lists_are_paged_the_newest_first(client, post, clock):
    ids = []
    for number in range(3):
        clock.pass_(60)
        ids.append(post(json_lines(hours_of(cost=number)))["id"])
    first = client.get(PATH, params={"page_size": 2}).json()
    token = first["next_page_token"]
    rest = client.get(PATH, params={"page_size": 2, "page_token": token}).json()
    told = [
        reconciliation["id"]
        for reconciliation in first["reconciliations"] + rest["reconciliations"]
    ]
    assert told == ids[::-1]
    assert rest["next_page_token"] == ""


@pytest.mark.parametrize(
    ("content", "told", "facts"),
    [
        (b"", "the file is empty", set()),
        (b"cost,currency\n1,USD\n", "columns are missing", {"missing"}),
        (json_lines([row(currency="US")]), "row 1: its currency is 'US'", {"row"}),
        (
            json_lines([row(), row(usage_end_time="2026-10-01 00:00:00 UTC")]),
            "row 2: its usage ends",
            {"row"},
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_said(client, post, content, told, facts):
    problem = post(content, status=422)
    assert told in problem["detail"]
    assert facts <= set(problem)
    assert client.get(PATH).json()["reconciliations"] == []


@pytest.mark.parametrize("tolerance", ["-1", "later", "NaN", "0.0000000001"])
def test_a_tolerance_that_is_none_is_refused(post, tolerance):
    assert "tolerance" in post(json_lines([row()]), status=422, tolerance=tolerance)["detail"]


def test_no_more_files_are_taken_in_at_once_than_the_disk_may_hold(client, post, services):
    with ExitStack() as busy:
        for _ in range(AT_ONCE):
            busy.enter_context(services.reconciliations.take_place())
        answer = client.post(PATH, content=json_lines([row()]))
        assert answer.status_code == 429
        assert answer.headers["retry-after"] == "10"
        assert "later" in answer.json()["detail"]
    post(json_lines([row()]))
    post(b"", status=422)
    post(json_lines([row()]))


def test_what_is_not_there_is_not_found(client):
    nowhere = f"{PATH}/019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"
    assert client.get(nowhere).status_code == 404
    assert client.get(f"{nowhere}/lines").status_code == 404
    assert client.get(f"{PATH}/nonsense").status_code == 422


def rows_as_they_come(number):
    for at in range(number):
        yield json_lines([row(usage_start_time=time_of(START), usage_end_time=time_of(START + at))])


def test_a_file_larger_than_any_other_body_is_read_as_it_comes(post):
    found = post(rows_as_they_come(2_000))
    assert found["rows"]["read"] == 2_000
    assert found["total"]["lines"] == 1


@pytest.mark.parametrize("told_beforehand", [True, False])
def test_there_is_a_limit_for_bills_and_another_one_for_all_else(
    services, units, clock, told_beforehand, monkeypatch
):
    small = ReconciliationService(units, clock, ["lab"], max_bytes=3_000_000)
    object.__setattr__(services, "reconciliations", small)
    client = TestClient(create_app(services, None), base_url="http://localhost")
    piece = json_lines([row()]) * 1_000
    sent = piece * 4 if told_beforehand else (piece for _ in range(4))
    answer = client.post(PATH, content=sent)
    assert answer.status_code == 413, answer.text
    assert answer.json()["limit_bytes"] == 3_000_000
    other = client.post("/v1/nodes", content=piece * 2)
    assert (other.status_code, other.json()["limit_bytes"]) == (413, problems.MAX_BODY_BYTES)
