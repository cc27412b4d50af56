"""Invoices: each row is on one, and the parts of each are all of it."""

from __future__ import annotations

import pytest

from service.domain.reconciliation.bill import list_adjacent_months, set_apart
from service.domain.reconciliation.invoice import InvoiceKey, RowSum, build_invoices

NOVEMBER, EURO = InvoiceKey("A", "2026-11", "USD"), InvoiceKey("A", "2026-11", "EUR")
USED, TAX = RowSum(3, 30, -5, 30, -5), RowSum(1, 2, 0, 2, 0)
NO_RATE = RowSum(2, 0, 0, 10**19, -1)


def test_an_invoice_is_the_sum_of_what_was_compared_and_of_what_was_set_apart():
    (euro, november) = build_invoices(
        {(NOVEMBER, "matched"): USED},
        {(NOVEMBER, "tax"): TAX, (EURO, "no_conversion_rate"): NO_RATE},
        {NOVEMBER: USED + TAX, EURO: NO_RATE},
    )
    assert (november.total.rows, november.total.cost, november.total.credits) == (4, 32, -5)
    assert [(part.name, part.reason) for part in november.parts] == [
        ("matched", ""),
        ("tax", "a tax is no use of a node"),
    ]
    assert euro.total.local_total == "9999999999.999999999", "more than 64 bits hold"


@pytest.mark.parametrize(
    ("compared", "totals"),
    [
        ({}, {NOVEMBER: USED + TAX}),
        ({(NOVEMBER, "matched"): USED + TAX}, {NOVEMBER: USED + TAX}),
        ({(NOVEMBER, "matched"): USED}, {}),
        ({(EURO, "matched"): USED}, {NOVEMBER: USED + TAX}),
    ],
)
def test_an_invoice_that_does_not_add_up_is_refused(compared, totals):
    with pytest.raises(AssertionError, match="its parts are"):
        build_invoices(compared, {(NOVEMBER, "tax"): TAX}, totals)


def test_what_is_of_others_is_on_invoices_and_is_not_told_as_ours():
    apart = set_apart({(NOVEMBER, "tax"): TAX, (EURO, "tax"): TAX, (NOVEMBER, "not_tpu"): USED})
    assert list(apart) == ["tax"]
    assert (apart["tax"].rows, apart["tax"].cost) == (2, 4)
    assert apart["tax"].local == {"EUR": "0.000000002", "USD": "0.000000002"}


@pytest.mark.parametrize(
    ("months", "beside"),
    [
        (["2026-11"], ("2026-10", "2026-12")),
        (["2026-12", "2027-01"], ("2026-11", "2027-02")),
        (["~2026-01"], ("~2025-12", "~2026-02")),
        ([], ()),
    ],
)
def test_months_have_neighbours(months, beside):
    assert list_adjacent_months(months) == beside
