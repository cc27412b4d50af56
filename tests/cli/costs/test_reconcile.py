"""`costs reconcile`, read as a person would."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

from service.cli.app import app
from service.cli.costs import reconcile
from service.domain.reconciliation.commitments import NO_FEE
from tests.bills import json_lines, row
from tests.cli.given import ID, OTHER, node, page, steward

PATH = "/v1/reconciliations"


def tally(lines=0, billed="0.000000000", charged="0.000000000", variance="0.000000000", **more):
    return {
        "lines": lines,
        "billed": billed,
        "charged": charged,
        "variance": variance,
        "more": "0.000000000",
        "less": "0.000000000",
        "variance_percent": None,
        **more,
    }


LEAK = {
    "verdict": "bill_without_node",
    "hour": "2026-11-01T00:00:00Z",
    "resource": "//tpu.googleapis.com/projects/lab/locations/us-west4-a/nodes/some\x1bbodys",
    "node_id": "",
    "reservation": "",
    "project": "lab",
    "billed": "9.600000000",
    "charged": "0.000000000",
    "reason": "created outside of this service; no poll ever listed it",
}
SUMMARY = (
    "the bill differs from the ledger by $9.60, 50.0000 % of what matched:",
    "$9.60 more, $0.00 less",
)
FOUND = {
    "id": ID,
    "known": False,
    "start": "2026-11-01T00:00:00Z",
    "end": "2026-11-01T03:00:00Z",
    "rows": {"read": 1_234, "duplicates": 2, "other_projects": 30, "not_tpu": 1_000},
    "apart": {"tax": {"rows": 1, "cost": "1.230000000"}},
    "machines": {"entries": 0, "charged": "0.000000000"},
    "total": tally(3, variance="9.600000000", more="9.600000000", variance_percent="50.0000"),
    "verdicts": {
        "matched": tally(2, "19.200000000", "19.200000000"),
        "bill_without_node": tally(1, "9.600000000", variance="9.600000000"),
        "node_without_bill": tally(),
        "amount_differs": tally(),
    },
}


@pytest.fixture
def file(tmp_path):
    """A bill of one row."""
    path = tmp_path / "november.jsonl"
    path.write_bytes(json_lines([row()]))
    return path


def test_the_headline_and_every_disagreement_are_shown(api, file):
    api.when("POST", PATH, FOUND, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [LEAK], "next_page_token": ""})
    told = steward("costs", "reconcile", str(file))
    assert told.exit_code == 0, told.output
    head, lines = told.stdout.split("HOUR (UTC)")
    *table, why = lines.split("WHY\n")
    assert head.splitlines() == [
        "1,234 rows: 2 duplicates, 30 of other projects, 1,000 of other things",
        "from 2026-11-01 00:00:00 to 2026-11-01 03:00:00 UTC",
        "",
        "RESULT                HOURS  BILLED  CHARGED  VARIANCE",
        "matched                   2  $19.20   $19.20     $0.00",
        "on the bill, no node      1   $9.60    $0.00     $9.60",
        "apart from that, tax: 1 row, $1.23",
        "",
        *SUMMARY,
        f"id {ID}",
        "",
    ]
    (line,) = table[1].splitlines()[:1]
    assert re.split(r"  +", line) == [
        "2026-11-01 00:00:00",
        "some bodys",
        "lab",
        "$9.60",
        "$0.00",
        "1",
    ]
    assert why.split(maxsplit=1) == ["1", f"on the bill, no node: {LEAK['reason']}\n"]
    sent, asked = api.calls
    assert sent.body == json.loads(file.read_text())
    assert sent.query == {"name": ["november.jsonl"]}
    assert asked.query["verdict"] == ["bill_without_node", "node_without_bill", "amount_differs"]


def part(name, rows, total, **more):
    return {"name": name, "rows": rows, "local_total": total, "reason": "", **more}


EURO = {
    "month": "2026-11",
    "billing_account": "012345-6789AB-CDEF01",
    "currency": "EUR",
    "total": part("total", 40, "339.100000000"),
    "parts": [
        part("matched", 34, "311.100000000"),
        part("no_conversion_rate", 2, "18.000000000"),
        part("not_tpu", 4, "10.000000000"),
    ],
}
KINDS = {"COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE": "-1.600000000", "PROMOTION": "-0.500000000"}
JOINED = {"id": OTHER, "name": "november.csv", "rows": 420, "again": 10}


def test_credits_invoices_and_joined_files_are_told_at_80_columns(api, file, monkeypatch):
    apart = {
        "no_conversion_rate": {
            "rows": 2,
            "cost": "0.000000000",
            "reason": "in another currency, without a currency_conversion_rate above zero",
            "local": {"EUR": "18.000000000"},
        }
    }
    told = {
        "credits_by_kind": KINDS,
        "explained": False,
        "explanation": "1 of 3 hours differ, and credits do not explain it: PROMOTION -$0.50",
        "net": "26.700000000",
    }
    found = FOUND | {
        "apart": apart,
        "invoices": [EURO],
        "joined": [JOINED],
        "joined_into": OTHER,
        "total": FOUND["total"] | told,
    }
    long = LEAK | {"reason": "unknown SKU FFFF-0000-1111 ('TpuV9z of tomorrow'); the same amount"}
    api.when("POST", PATH, found, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [long, LEAK], "next_page_token": ""})
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", 80)
    lines = steward("costs", "reconcile", str(file)).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    said_all = "\n".join(" ".join(line.split()) for line in lines)
    for said in (
        "with 420 rows of november.csv, sent before; 10 are in both and count once",
        f"a later file was joined with it: see {OTHER}",
        "apart from that, no_conversion_rate: 2 rows, EUR 18.00",
        "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE -$1.60",
        "not explained: 1 of 3 hours differ, and credits do not explain it",
        "2026-11 total 40 EUR 339.10\nmatched 34 EUR 311.10\nno conversion rate 2 EUR 18.00",
    ):
        assert said in said_all


COMMITMENT = {
    "month": "2026-11",
    "generation": "v6e",
    "region": "northamerica-northeast1",
    "term_years": 1,
    "fee": "12345.678000001",
    "utilisation_percent": "88.8889",
    "coverage_percent": "100.0000",
    "unused": "1371.742000000",
    "saving": "-1234.500000000",
    "reasons": [],
}


def test_commitments_are_told_at_80_columns_and_what_is_not_known_is_no_figure(
    api, file, monkeypatch
):
    no_fee = COMMITMENT | dict.fromkeys(
        ("term_years", "fee", "utilisation_percent", "unused", "saving")
    )
    several = [COMMITMENT, no_fee | {"reasons": [NO_FEE]}]
    euro = EURO | {"parts": [*EURO["parts"], part("other_project", 30, "1.000000000")]}
    found = FOUND | {"commitments": several, "invoices": [euro]}
    api.when("POST", PATH, found, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [], "next_page_token": ""})
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", 80)
    lines = steward("costs", "reconcile", str(file)).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    said = "\n".join(" ".join(line.split()) for line in lines)
    assert (
        "commitment v6e in northamerica-northeast1, 1 year, 2026-11\n"
        "fee $12,345.68; unused part $1,371.74\n"
        "used 88.9% of the committed hours\n"
        "covers 100.0% of the on-demand hours\n"
        "saves -$1,234.50 against list price\n"
    ) in said
    assert (
        "northamerica-northeast1, term not known, 2026-11\n"
        "fee not known; unused part not known\n"
        "used not known\n"
        "covers 100.0% of the on-demand hours\n"
        "saves not known\n"
        "because the bill has no fee for this commitment"
    ) in said
    note = "30 rows of other projects: what these used of a commitment counts as unused here"
    assert note in said


def test_commitments_that_are_not_known_have_a_reason_at_80_columns(api, file, monkeypatch):
    why = "a later file was joined with this one; its reconciliation has them; look at that one"
    found = FOUND | {"commitments": [], "commitments_reason": why}
    api.when("POST", PATH, found, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [], "next_page_token": ""})
    monkeypatch.setattr("service.cli.terminal.render.PIPE_WIDTH", 80)
    lines = steward("costs", "reconcile", str(file)).stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"commitments not shown: {why}" in " ".join(" ".join(lines).split())


def test_a_bill_without_commitments_says_nothing_of_them(api, file):
    found = FOUND | {"commitments": [], "commitments_reason": ""}
    api.when("POST", PATH, found, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [], "next_page_token": ""})
    assert "commitment" not in steward("costs", "reconcile", str(file)).stdout


def test_the_variances_add_up_to_that_of_the_bill(api, file):
    verdicts = {
        "matched": tally(1, "9.600000000", "9.600000000"),
        "tolerated": tally(1, variance="0.004000000"),
        "bill_without_node": tally(1, variance="9.604000000"),
        "node_without_bill": tally(1, variance="-3.004000000"),
        "amount_differs": tally(1, variance="0.004000000"),
        "pending": tally(1, variance="0.008000000"),
    }
    total = tally(5, variance="6.608000000", more="9.612000000", less="-3.004000000")
    api.when("POST", PATH, FOUND | {"verdicts": verdicts, "total": total}, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [], "next_page_token": ""})
    told = steward("costs", "reconcile", str(file)).stdout.splitlines()
    shown = [line.split()[-1] for line in told[4:10]]
    assert shown == ["$0.00", "$0.01", "$9.60", "-$3.00", "$0.00", "$0.0080"]
    (at,) = (number for number, line in enumerate(told) if line.startswith("the bill differs"))
    assert told[at].endswith("by $6.61:")
    assert told[at + 1] == "$9.61 more, -$3.00 less"


def test_a_reservation_is_named_and_what_was_left_out_of_the_ledger_is_told(api, file):
    machines = {"machines": {"entries": 5, "charged": "1.893656700"}}
    missing = LEAK | {
        "verdict": "node_without_bill",
        "resource": "",
        "reservation": "march",
        "reason": "charged by us and not on the bill",
    }
    api.when("POST", PATH, FOUND | machines, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": [missing], "next_page_token": ""})
    told = steward("costs", "reconcile", str(file)).stdout.splitlines()
    assert (
        "left out: $1.89 of users' own VMs beside TPU Nodes, which are not billed as TPUs" in told
    )
    assert told[-4].split()[2] == "march"
    assert told[-1].strip() == "1  a node, not on the bill: charged by us and not on the bill"


def test_a_node_that_is_not_on_the_bill_is_told_by_its_name(api, file):
    missing = LEAK | {"verdict": "node_without_bill", "resource": "", "node_id": ID}
    lines = [missing, missing | {"node_id": OTHER}]
    api.when("POST", PATH, FOUND, status=201)
    api.when("GET", f"{PATH}/{ID}/lines", {"lines": lines, "next_page_token": ""})
    api.when("GET", "/v1/nodes", page(node()))
    api.when("GET", "/v1/reservations", {"reservations": [], "next_page_token": ""})
    told = steward("costs", "reconcile", str(file)).stdout.splitlines()
    assert [re.split(r"  +", line)[1] for line in told[-5:-3]] == ["trainer", OTHER]


def test_a_file_that_was_sent_before_is_told(api, file):
    verdicts = {"matched": tally(2, "19.200000000", "19.200000000")}
    nothing = {
        "bill_without_node": tally(),
        "node_without_bill": tally(),
        "amount_differs": tally(),
    }
    api.when("POST", PATH, FOUND | {"known": True, "verdicts": verdicts | nothing, "apart": {}})
    told = steward("costs", "reconcile", str(file), "--tolerance", "0")
    assert told.stdout.startswith("1,234 rows (sent before; nothing has changed)")
    assert api.calls[0].query["tolerance"] == ["0"]


def test_json_is_what_the_api_says(api, file):
    api.when("POST", PATH, FOUND, status=201)
    assert json.loads(steward("costs", "reconcile", str(file), "--json").stdout) == FOUND


def test_a_refusal_is_told_and_fails(api, file):
    problem = {"title": "Cannot be granted", "status": 422, "detail": "row 7: its usage ends"}
    api.when("POST", PATH, problem, status=422)
    told = steward("costs", "reconcile", str(file))
    assert told.exit_code == 1
    assert "row 7: its usage ends" in told.stderr


def test_a_file_that_is_not_there_is_a_slip_of_the_pen(api, tmp_path):
    assert steward("costs", "reconcile", str(tmp_path / "none.csv")).exit_code == 2
    assert api.calls == []


def listed(name="november.csv", **changes):
    return (
        FOUND | {"name": name, "created_at": "2026-11-05T10:00:00Z", "joined_into": None} | changes
    )


def test_bills_are_listed_without_those_that_joined_a_later_one(api):
    two = [listed(joined=[]), listed("early.csv", id=OTHER, joined_into=ID)]
    api.when("GET", PATH, {"reconciliations": two, "next_page_token": ""})
    told = steward("costs", "reconciliations")
    assert told.exit_code == 0, told.output
    assert told.stdout.splitlines() == [
        "ID                                    SENT (UTC)   ROWS  VARIANCE  FILE",
        f"{ID}  2026-11-05  1,234     $9.60  november.csv",
        "and 1 earlier file that these were joined with",
    ]
    printed = json.loads(steward("costs", "reconciliations", "--json").stdout)
    assert len(printed["reconciliations"]) == 2


def test_where_no_bill_was_reconciled_the_next_command_is_named(api):
    api.when("GET", PATH, {"reconciliations": [], "next_page_token": ""})
    told = steward("costs", "reconciliations")
    assert "tpu-steward costs reconcile FILE" in told.stdout
    assert "VARIANCE" not in told.stdout


REMOVED = {"removed": [{"id": ID, "name": "wrong.csv"}, {"id": OTHER, "name": ""}]}


def test_a_wrong_file_is_taken_out_and_what_goes_with_it_is_named(api):
    api.when("DELETE", f"{PATH}/{ID}", REMOVED)
    assert steward("costs", "reconciliations", "--delete", ID).stdout.splitlines() == [
        f"deleted {ID}, wrong.csv",
        f"deleted {OTHER}, a file without a name",
    ]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_whoever_sits_at_a_terminal_is_asked_before_files_are_taken_out(
    api, monkeypatch, answer, code
):
    joined = [{"id": OTHER, "name": "early.csv", "rows": 2, "again": 1}]
    api.when("GET", f"{PATH}/{ID}", listed("wrong.csv", joined=joined))
    api.when("DELETE", f"{PATH}/{ID}", REMOVED)
    monkeypatch.setattr(reconcile, "can_ask", lambda: True)
    asked = CliRunner().invoke(app, ["costs", "reconciliations", "--delete", ID], input=answer)
    assert asked.exit_code == code
    assert "wrong.csv, with the earlier files early.csv?" in asked.output
    assert (api.calls[-1].method == "DELETE") == (code == 0)
