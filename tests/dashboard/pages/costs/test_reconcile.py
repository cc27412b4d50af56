"""The page of bills: one headline, and every disagreement with what is known of it."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from service.domain.clock import HOUR
from service.domain.orphans.orphan import OrphanKind
from service.domain.reconciliation.variance import Verdict
from tests import books
from tests.bills import json_lines, row, time_of
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.garbage import orphan, shown
from tests.plantedcommitments import first_file, later_file
from tests.purchases import metered

AGO = 96 * HOUR


def sent(lab: Lab, name: str = "november.csv") -> str:
    """A bill with each of the disagreements; answers its id."""
    now = lab.clock.now
    start = now - AGO - now % HOUR
    good = lab.ran(start, start + 3 * HOUR)
    lab.ran(start, start + 2 * HOUR)
    lab.found(orphan(kind=OrphanKind.STRANGER, shown=shown("somebodys")))

    def hour(number: int, resource: str, **changes: object) -> dict[str, object]:
        at = start + number * HOUR
        return row(
            **{
                "resource": {"name": resource, "global_name": resource},
                "usage_start_time": time_of(at),
                "usage_end_time": time_of(at + HOUR),
                "export_time": time_of(now),
                **changes,
            }
        )

    rows = [
        *(hour(number, good.cloud_id) for number in range(2)),
        hour(2, good.cloud_id, cost=12.5),
        hour(0, "somebodys", cost=3),
        hour(1, HOSTILE, cost=41.25),
        hour(0, "", cost_type="tax", cost=7.77),
    ]
    outcome = lab.services.reconciliations.reconcile(io.BytesIO(json_lines(rows)), name=name)
    return outcome.bill.id


def test_before_the_first_bill_the_page_says_what_to_type(browser: TestClient) -> None:
    said = text_of(browser.get("/reconcile"))
    assert "No bill was reconciled yet." in said
    assert "tpu-steward costs reconcile billing-export.csv" in said


def test_a_node_that_is_not_on_the_bill_is_told_by_its_name(lab: Lab, browser: TestClient) -> None:
    bill, verdict = sent(lab), Verdict.NODE_WITHOUT_BILL
    found = lab.services.reconciliations.list_largest(bill, (verdict,), limit=1)
    missing = lab.services.nodes.get(found[0].line.node_id)
    page = browser.get("/reconcile?verdict=node_without_bill")
    assert missing.name in text_of(page)
    assert f"/nodes/{missing.id}" in page.text
    assert missing.id not in text_of(page)


def test_the_page_tells_what_commitments_cost_and_saved(lab: Lab, browser: TestClient) -> None:
    for file in (later_file(), first_file()):
        lab.services.reconciliations.reconcile(io.BytesIO(json_lines(file)))
    said = text_of(browser.get("/reconcile"))
    assert "Commitment: v6e in us-south1, 1 year, 2026-11" in said
    assert "$60.48 $30.24 $30.24 50.0 % 100.0 % \N{MINUS SIGN}$17.28" in said
    assert (
        "Committed chip-hours: 32. Covered: 16, of 16 that could be. At list price the covered"
        " hours cost $43.20." in said
    )
    assert "Commitment: v6e in us-west1, term not known, 2026-11" in said
    assert "not known not known not known not known 50.0 % not known" in said
    assert "The bill has no fee for this commitment" in said
    assert "half 16 $30.24" in said
    assert "$20.60 $14.72 $5.88 71.4 %" in said, "the parts add up to the fee as it is shown"
    assert "euro 5 $14.72" in said
    assert "The bill has 1 row of other projects. What these used of a commitment is not" in said


def test_commitments_of_a_bill_that_was_imported_before_are_read_from_its_rows(
    lab: Lab, browser: TestClient
) -> None:
    bill = lab.services.reconciliations.reconcile(io.BytesIO(json_lines(first_file()))).bill
    with lab.units() as unit:
        unit.bills.save(replace(bill, commitments=None))
    said = text_of(browser.get("/reconcile"))
    assert "Commitment: v6e in us-south1, 1 year, 2026-11" in said
    with lab.units() as unit:
        unit.bills.delete_rows(bill.id, bill.periods, (b"", b"\xff" * 17))
    said = text_of(browser.get("/reconcile"))
    assert "Commitments are not shown. An earlier version imported the bill." in said


def test_the_page_tells_the_variance_in_both_directions(lab: Lab, browser: TestClient) -> None:
    sent(lab)
    said = text_of(browser.get("/reconcile"))
    assert "Bill minus ledger +$27.95 145.5729 % of what matched" in said
    assert "The bill says more +$47.15" in said
    assert "The bill says less \N{MINUS SIGN}$19.20" in said
    assert "Matched $19.20" in said
    assert "Set apart: tax $7.77 (a tax is no use of a node)." in said
    assert "On the bill, no node of ours 2 $44.25 $0.00 +$44.25" in said


def test_the_page_tells_credits_invoices_and_the_file_that_joined(
    lab: Lab, browser: TestClient
) -> None:
    first = sent(lab)
    now = lab.clock.now
    start = now - AGO - now % HOUR
    euro = {"currency": "EUR", "export_time": time_of(now), "resource": {"name": "e"}}
    late = [
        row(
            usage_start_time=time_of(start),
            usage_end_time=time_of(start + HOUR),
            credits=[{"type": "PROMOTION", "amount": -1}],
            **euro,
            **rate,
        )
        for rate in ({"currency_conversion_rate": 0.9}, {"currency_conversion_rate": None})
    ]
    lab.services.reconciliations.reconcile(io.BytesIO(json_lines(late)), name="late.csv")
    said = text_of(browser.get("/reconcile"))
    assert "With 6 rows of november.csv, of which 0 are in both and count once." in said
    assert "hours differ, and credits do not explain it: PROMOTION" in said
    assert "Invoice 2026-11, 012345-6789AB-CDEF01, EUR 2 rows, EUR 17.20" in said
    assert "no conversion rate In another currency, without" in said
    assert "tax A tax is no use of a node. 1 $7.77" in said
    old = browser.get(f"/reconcile?bill={first}")
    assert "A later file of the same month was joined with this one" in text_of(old)


def test_the_largest_disagreement_stands_first_with_who_saw_it(
    lab: Lab, browser: TestClient
) -> None:
    sent(lab)
    page = browser.get("/reconcile")
    said = text_of(page)
    assert said.index("+$41.25") < said.index("+$3.00")
    assert "Billed $41.25, charged $0.00; never seen." in said
    assert "Billed $3.00, charged $0.00; seen, and no node of ours." in said
    assert "The same seconds at another price" in said
    assert HOSTILE not in page.text


@pytest.mark.parametrize(("verdict", "told"), [("matched", "Billed $9.60"), ("pending", "None.")])
def test_the_hours_of_each_verdict_can_be_looked_at(
    lab: Lab, browser: TestClient, verdict: str, told: str
) -> None:
    bill = sent(lab)
    said = text_of(browser.get(f"/reconcile?bill={bill}&verdict={verdict}"))
    assert "Chosen hours" in said
    assert told in said
    assert text_of(browser.get("/reconcile?verdict=nonsense")).count("Differences") == 1


def test_what_a_reservation_and_a_machine_cost_is_told_as_what_it_is(
    lab: Lab, browser: TestClient
) -> None:
    bought = books.reservation(lab.units, lab.clock)
    books.legacy(lab.units, books.START, books.START + HOUR)
    metered(lab.units, lab.clock)
    at = books.START + HOUR
    other = row(usage_start_time=time_of(at), usage_end_time=time_of(at + HOUR))
    stranger = row(
        usage_start_time=time_of(books.START), usage_end_time=time_of(books.START + HOUR)
    )
    content = json_lines([other, stranger | {"project": {"id": "theirs"}}])
    lab.services.reconciliations.reconcile(io.BytesIO(content), name="november.csv")
    page = browser.get("/reconcile")
    said = text_of(page)
    assert "Not compared: $0.38 of users' VMs for TPU Nodes" in said
    assert "Charged by us and not on the bill; march is recorded from" in said
    assert f"/nodes/{bought.id}" not in page.text


def test_earlier_bills_can_be_chosen_and_one_that_is_none_is_not_found(
    lab: Lab, browser: TestClient
) -> None:
    first = sent(lab, "october.csv")
    lab.clock.pass_(HOUR)
    empty = json_lines([row(**{"project.id": "theirs", "invoice.month": "202612"})])
    lab.services.reconciliations.reconcile(io.BytesIO(empty), name="november.csv")
    page = browser.get("/reconcile")
    assert f'href="/reconcile?bill={first}"' in page.text
    assert "nothing matched" in text_of(page)
    assert browser.get("/reconcile?bill=none").status_code == 404
