"""Seventeen differences in a bill of 443 rows: each is told apart, and every invoice adds up."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from service.application.reconciliations import Reconciliation, ReconciliationService
from service.domain.clock import HOUR
from service.domain.money import parse_usd
from service.domain.reconciliation import bill_file, bill_row, reconcile
from service.domain.reconciliation.bill import ApartRows
from service.domain.reconciliation.variance import Comparison, Difference, Verdict
from service.store.bills import Bills
from tests import factories
from tests.bills import Row, csv_of, flat, json_lines
from tests.hands import NOON
from tests.plantedbill import (
    CUD,
    HOURS,
    NANOS,
    NODES,
    PROMOTION,
    ROWS,
    START,
    first_file,
    hour_of,
    later_file,
    owed,
)
from tests.store.test_bills import ran

HUNDREDTH = NANOS // 100
Found = dict[str, Any]
_BEFORE_CREDITS = (
    f"the ledger has the cost before credits; {CUD} -$1.60, {PROMOTION} -$0.50 leave $7.50 to pay"
)

EXPECTED: Found = {
    "price drift": [(Verdict.AMOUNT_DIFFERS, Difference.PRICE, 10 * HUNDREDTH)],
    "seconds drift": [(Verdict.AMOUNT_DIFFERS, Difference.SECONDS, -480 * HUNDREDTH)],
    "drift of half a cent": [(Verdict.TOLERATED, Difference.PRICE, HUNDREDTH // 2)],
    "hours that are not on the bill": {Verdict.NODE_WITHOUT_BILL: 2},
    "a node of somebody": {Verdict.BILL_WITHOUT_NODE: 3},
    "a correction": [(Verdict.AMOUNT_DIFFERS, -240 * HUNDREDTH), (Verdict.MATCHED, 0)],
    "rows that were written twice": (5, {Verdict.MATCHED: HOURS}),
    "two equal taxes": (2, 246 * HUNDREDTH),
    "an adjustment and a rounding": (-321 * HUNDREDTH, 7),
    "the fee of a commitment": 50 * NANOS,
    "credits of two kinds": (
        {CUD: -160 * HUNDREDTH, PROMOTION: -50 * HUNDREDTH},
        _BEFORE_CREDITS,
    ),
    "credits that explain it or do not": [
        (True, "; credits explain it: after COMMITTED_USAGE_DISCOUNT -$2.40 the bill is what the"),
        (False, "; credits do not explain it: PROMOTION -$1.00 leave $11.00 to pay, $1.40 off"),
    ],
    "euros, each at its own rate": {Verdict.MATCHED: HOURS - 2},
    "euros without a rate": (
        [(Verdict.AMOUNT_DIFFERS, Difference.NO_RATE)] * 2,
        "billed in EUR without a conversion rate, so set apart and not compared",
        2,
    ),
    "an unknown SKU at our amount": (
        (Verdict.AMOUNT_DIFFERS, Difference.UNKNOWN_SKU, 0),
        "unknown SKU FFFF-0000-1111 ('TpuV9z of tomorrow'); the same amount",
    ),
    "two invoice months": (["2026-10", "2026-11"], 12, 12 * 9_600_000_000),
    "a later file of the month": (10, {Verdict.MATCHED: HOURS}, -NANOS),
}


@pytest.fixture
def service(units, clock):
    """A ledger in which ten nodes ran for 36 hours each."""
    for node in NODES:
        ran(units, node, hours=HOURS, start=START)
    return ReconciliationService(units, clock, [factories.PROJECT])


def sent(service: ReconciliationService, written: Any = json_lines) -> Reconciliation:
    """Both files, one after the other; what came of the month."""
    service.reconcile(io.BytesIO(written(first_file())), name="first")
    return service.reconcile(io.BytesIO(json_lines(later_file())), name="later")


def told_apart(service: ReconciliationService, outcome: Reconciliation) -> Found:
    """What is said of each of the seventeen."""
    bill = outcome.bill
    lines = [kept.line for kept in service.list_lines(bill.id, (), 0, 10_000)]
    first = service.get_outcome(bill.joined[0].id).bill if bill.joined else bill
    apart = bill.apart
    at: defaultdict[tuple[str, int], Any] = defaultdict(lambda: lines[0])
    at |= {(_name(line, lines), (line.hour - START) // HOUR): line for line in lines}
    of = {node: [line for line in lines if _name(line, lines) == node] for node in NODES}
    credited, unknown, euro = at["n4", 0], at["n6", 8], [at["n5", 30], at["n5", 31]]
    old = next((invoice for invoice in bill.invoices if invoice.month == "2026-10"), None)
    return {
        "price drift": [_said(at["n0", 3])],
        "seconds drift": [_said(at["n0", 5])],
        "drift of half a cent": [_said(at["n0", 7])],
        "hours that are not on the bill": _verdicts(
            line for line in lines if line.verdict is Verdict.NODE_WITHOUT_BILL
        ),
        "a node of somebody": _verdicts(
            line for line in lines if line.resource.endswith("/somebodys")
        ),
        "a correction": [(at["n2", hour].verdict, at["n2", hour].variance) for hour in (4, 6)],
        "rows that were written twice": (first.duplicates, _verdicts(of["n3"])),
        "two equal taxes": _apart(apart, "tax"),
        "an adjustment and a rounding": (
            _apart(apart, "adjustment")[1],
            _apart(apart, "rounding_error")[1],
        ),
        "the fee of a commitment": _apart(apart, "commitment")[1],
        "credits of two kinds": (credited.credit_kinds, credited.reason),
        "credits that explain it or do not": [
            (at["n4", hour].is_explained, end)
            for hour, (_, end) in zip(
                (20, 21), EXPECTED["credits that explain it or do not"], strict=True
            )
            if end in at["n4", hour].reason
        ],
        "euros, each at its own rate": _verdicts(line for line in of["n5"] if line not in euro),
        "euros without a rate": (
            [(line.verdict, line.difference) for line in euro],
            euro[0].reason,
            _apart(apart, "no_conversion_rate")[0],
        ),
        "an unknown SKU at our amount": (_said(unknown), unknown.reason),
        "two invoice months": (
            sorted({invoice.month for invoice in bill.invoices}),
            old.total.rows if old else 0,
            old.total.cost if old else 0,
        ),
        "a later file of the month": (
            sum(joined.again for joined in bill.joined),
            _verdicts(of["n8"]),
            at["n9", 2].variance,
        ),
    }


def _said(line: Comparison) -> tuple[Verdict, Difference, int]:
    return line.verdict, line.difference, line.variance


def _apart(apart: Mapping[str, ApartRows], kind: str) -> tuple[int, int]:
    found = apart.get(kind, ApartRows(0, 0))
    return found.rows, found.cost


def _verdicts(lines: Any) -> dict[Verdict, int]:
    return dict(Counter(line.verdict for line in lines))


def _name(line: Comparison, lines: Sequence[Comparison]) -> str:
    """Its name on the bill; of an hour that is not on it, that of the other hours of its node."""
    named = [line, *(other for other in lines if line.node_id and other.node_id == line.node_id)]
    return next((row.resource.rpartition("/")[2] for row in named if row.resource), "")


def in_csv(rows: Sequence[Row]) -> bytes:
    """A CSV file has the same columns in each row."""
    cells = [flat(row) for row in rows]
    columns = {name: "" for cell in cells for name in cell}
    return csv_of([columns | cell for cell in cells])


def different(rows: Sequence[Row]) -> list[Row]:
    """Rows without those that are written twice: but for taxes, equal rows are one row."""
    found: list[Row] = []
    for row in rows:
        if row["cost_type"] == "tax" or row not in found:
            found.append(row)
    return found


def test_the_bill_has_443_rows_and_17_differences():
    assert len(first_file()) + len(later_file()) == ROWS
    assert len(EXPECTED) == 17
    assert START + HOURS * HOUR <= NOON - 48 * HOUR, "nothing of it is pending"


@pytest.mark.deep
@pytest.mark.parametrize("written", [json_lines, in_csv])
def test_each_planted_difference_is_told_apart(service, written):
    assert told_apart(service, sent(service, written)) == EXPECTED


@pytest.mark.deep
def test_every_invoice_adds_up_to_the_nano_dollar(service):
    bill = sent(service).bill
    shown = {(invoice.month, invoice.currency): invoice for invoice in bill.invoices}
    wanted = owed(different([*first_file(), *later_file()]))
    assert shown.keys() == wanted.keys()
    for key, one in shown.items():
        total, owes = one.total, wanted[key]
        assert (total.rows, total.cost + total.credits) == (owes.rows, owes.dollars)
        assert parse_usd(total.local_total) == owes.local
        assert sum(part.rows for part in one.parts) == owes.rows
        assert sum(part.cost + part.credits for part in one.parts) == owes.dollars
        assert sum(parse_usd(part.local_total) for part in one.parts) == owes.local
        assert all(part.reason for part in one.parts if part.name not in set(Verdict))
    compared = [
        part for invoice in bill.invoices for part in invoice.parts if part.name in set(Verdict)
    ]
    total = service.get_outcome(bill.id).headline.total
    assert sum(part.cost for part in compared) == total.billed
    assert sum(part.credits for part in compared) == total.credits


@pytest.mark.deep
def test_files_that_come_in_the_other_order_make_the_same_month(service):
    straight = sent(service)
    before = told_month(service, straight)
    service.reconcile(io.BytesIO(json_lines(first_file())), name="once more", tolerance=HUNDREDTH)
    crossed = service.reconcile(io.BytesIO(json_lines(first_file()[:40])), name="some of it")
    assert [joined.name for joined in crossed.bill.joined] == ["later"]
    assert crossed.bill.joined[0].again == len(different(first_file()[:40]))
    assert told_month(service, crossed) == before
    assert service.get_outcome(straight.bill.id).bill.joined_into == crossed.bill.id


def told_month(service: ReconciliationService, outcome: Reconciliation) -> Any:
    lines = [kept.line for kept in service.list_lines(outcome.bill.id, (), 0, 10_000)]
    return outcome.headline, outcome.bill.invoices, outcome.bill.apart, lines


def test_a_later_file_leaves_other_months_alone(service):
    """The month before joins only where both have usage in the same hours."""
    long_ago = [hour_of("n0", -24 * 40, **{"invoice.month": "202610"})]
    before = [hour_of("n0", -24 * 150, **{"invoice.month": "202606"})]
    first = service.reconcile(io.BytesIO(json_lines([*before, *long_ago])))
    late = service.reconcile(io.BytesIO(json_lines(later_file())))
    assert {invoice.month for invoice in late.bill.invoices} == {"2026-11"}
    kept = service.get_outcome(first.bill.id).bill
    assert (kept.periods, kept.joined_into) == (("2026-06", "2026-10"), "")


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch):
    """What was read once is remembered for rows alike: a rule that is broken here must be asked
    anew, and what it said must be gone when it is mended. `monkeypatch` mends it after this."""
    forget()
    yield
    forget()


def forget():
    for module in (bill_row, bill_file):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def everything_matches(patch):
    patch.setattr(reconcile, "_find_verdict", lambda *_: Verdict.MATCHED)


def amounts_are_all_that_counts(patch):
    patch.setattr(reconcile, "_is_unknown", lambda _: False)
    patch.setattr(reconcile, "_sold_kind", lambda _: ("", ""))


def a_euro_is_a_dollar(patch):
    patch.setattr(bill_row, "_find_rate", lambda *_: Decimal(1))


def one_rate_is_for_all(patch):
    patch.setattr(bill_row, "_find_rate", lambda *_: Decimal("0.92"))


def months_are_ignored(patch):
    patch.setattr(bill_row, "_parse_month", lambda *_: "")


def equal_amounts_are_one_row(patch):
    patch.setattr(bill_file, "_SAME", ("cost_type", "project_id", "resource_name", "currency"))


def every_row_is_another_one(patch):
    numbers = count()
    patch.setattr(bill_file, "_digest_of_row", lambda _: next(numbers).to_bytes(16, "big"))


def equal_rows_are_always_one(patch):
    made = bill_file._read_cells
    patch.setattr(bill_file, "_read_cells", lambda *a: replace(made(*a), is_provable=True))


def equal_rows_are_never_one(patch):
    made = bill_file._read_cells
    patch.setattr(bill_file, "_read_cells", lambda *a: replace(made(*a), is_provable=False))


def a_later_file_stands_alone(patch):
    patch.setattr(Bills, "list_with_rows_of", lambda *_: [])


def credits_have_no_kind(patch):
    patch.setattr(bill_row, "_parse_credit_type", lambda _: bill_row.UNSPECIFIED)


def credits_explain_everything(patch):
    patch.setattr(reconcile, "_is_explained", lambda *_: True)


def credits_are_left_out(patch):
    patch.setattr(bill_row, "_read_credits", lambda *_: [])


@pytest.mark.deep
@pytest.mark.parametrize(
    ("broken", "first_found"),
    [
        (everything_matches, "price drift"),
        (amounts_are_all_that_counts, "an unknown SKU at our amount"),
        (a_euro_is_a_dollar, "euros, each at its own rate"),
        (one_rate_is_for_all, "euros, each at its own rate"),
        (months_are_ignored, "two invoice months"),
        (equal_amounts_are_one_row, "a later file of the month"),
        (every_row_is_another_one, "rows that were written twice"),
        (equal_rows_are_always_one, "two equal taxes"),
        (equal_rows_are_never_one, "rows that were written twice"),
        (a_later_file_stands_alone, "a later file of the month"),
        (credits_have_no_kind, "credits of two kinds"),
        (credits_explain_everything, "credits that explain it or do not"),
        (credits_are_left_out, "credits of two kinds"),
    ],
)
def test_a_rule_that_is_broken_is_found(service, monkeypatch, broken, first_found):
    broken(monkeypatch)
    told = told_apart(service, sent(service))
    assert told[first_found] != EXPECTED[first_found]


def test_rows_that_are_lost_on_the_way_stop_the_import(service, monkeypatch):
    compared = reconcile.compare_hours
    monkeypatch.setattr(
        "service.application.reconciliations.compare_hours",
        lambda *given: [line for line in compared(*given) if "somebodys" not in line.resource],
    )
    with pytest.raises(AssertionError, match="its parts are"):
        service.reconcile(io.BytesIO(json_lines(first_file())))
    assert service.list_newest(9) == []


@pytest.mark.deep
def test_a_file_that_is_sent_alone_joins_no_other_and_is_joined_by_none(service):
    trial = service.reconcile(io.BytesIO(json_lines(first_file())), name="trial", alone=True)
    kept = service.reconcile(io.BytesIO(json_lines(later_file())), name="later")
    assert (trial.bill.joined, kept.bill.joined) == ((), ())
    again = service.reconcile(io.BytesIO(json_lines(first_file()[:50])), name="part", alone=True)
    assert again.bill.joined == ()
    joined = service.reconcile(io.BytesIO(json_lines(first_file()[:60])), name="first")
    assert [bill.id for bill in joined.bill.joined] == [kept.bill.id]
    assert service.get_outcome(trial.bill.id).bill.joined_into == ""
    lines = service.list_lines(trial.bill.id, (), 0, 10_000)
    assert len(lines) > 0, "its comparisons stay"


@pytest.mark.deep
def test_the_same_file_may_be_sent_alone_and_for_good_in_either_order(service):
    def send(rows, **how):
        return service.reconcile(io.BytesIO(json_lines(rows)), **how)

    trial = send(first_file(), alone=True)
    meant = send(first_file())
    late = send(later_file())
    assert not meant.known, "a trial is not what was meant"
    assert [joined.id for joined in late.bill.joined] == [meant.bill.id]
    again = send(later_file(), alone=True)
    assert (again.known, again.bill.joined) == (False, ())
    for rows, how, known in (
        (first_file(), {"alone": True}, trial),
        (first_file(), {}, meant),
        (later_file(), {}, late),
        (later_file(), {"alone": True}, again),
    ):
        told = send(rows, **how)
        assert (told.known, told.bill.id) == (True, known.bill.id)
