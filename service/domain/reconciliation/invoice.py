"""A bill by its invoices: each row is on exactly one invoice, whose parts add up to its total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.money import format_usd
from service.domain.reconciliation.bill_row import SkipReason
from service.domain.reconciliation.bill_sku import COMMITMENT
from service.domain.reconciliation.variance import Verdict

NO_RATE = "no_conversion_rate"
"""The part of rows in another currency without a rate, of every kind."""

REASONS: Mapping[str, str] = {
    COMMITMENT: "the fee of a committed-use discount: it is paid for a term, used or not",
    "tax": "a tax is no use of a node",
    "adjustment": "a correction by Google that names no use of a node",
    "rounding_error": "what the invoice is rounded by",
    NO_RATE: "in another currency, without a currency_conversion_rate above zero",
    SkipReason.OTHER_PROJECT: "not of a project of this service",
    SkipReason.NOT_TPU: "no TPU",
}
"""Why rows are not compared, by their kind."""

_ELSE = "a cost type that is no use of a node"


@dataclass(frozen=True, slots=True, order=True)
class InvoiceKey:
    """One invoice: its billing account, month (`2026-11`) and currency. Account and month are empty
    where the rows have none."""

    account: str
    month: str
    currency: str


@dataclass(frozen=True, slots=True)
class RowSum:
    """The sum of rows: nano-dollars, and billionths of the currency of the invoice. A row without a
    conversion rate has no dollars."""

    rows: int = 0
    cost: int = 0
    credits: int = 0
    local_cost: int = 0
    local_credits: int = 0

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(
            self.rows + other.rows,
            self.cost + other.cost,
            self.credits + other.credits,
            self.local_cost + other.local_cost,
            self.local_credits + other.local_credits,
        )


@dataclass(frozen=True, slots=True)
class InvoicePart:
    """The rows of an invoice with the same verdict, or with the same reason to be set apart.

    Nano-dollars; the amounts in the currency of the invoice are decimals with nine places, as the
    sum of an invoice in a small currency is more than 64 bits hold.
    """

    name: str
    reason: str
    rows: int
    cost: int
    credits: int
    local_cost: str
    local_credits: str
    local_total: str


@dataclass(frozen=True, slots=True)
class Invoice:
    """An invoice with its parts; `total` is of all its rows, and is the sum of the parts."""

    account: str
    month: str
    currency: str
    total: InvoicePart
    parts: tuple[InvoicePart, ...]


def build_invoices(
    compared: Mapping[tuple[InvoiceKey, str], RowSum],
    apart: Mapping[tuple[InvoiceKey, str], RowSum],
    totals: Mapping[InvoiceKey, RowSum],
) -> tuple[Invoice, ...]:
    """Return each invoice of a bill with its parts. These are compared rows by verdict, and rows
    that are set apart by their reason. `totals` are of all rows, added up in another way.

    Raises AssertionError where the parts of an invoice are not its total, to the nano-dollar and in
    its own currency: rows would have been lost, or counted twice.
    """
    parts = dict(compared) | dict(apart)
    assert len(parts) == len(compared) + len(apart), "a row is compared and set apart"
    by_invoice: dict[InvoiceKey, dict[str, RowSum]] = {key: {} for key in totals}
    for (key, name), rows in parts.items():
        by_invoice.setdefault(key, {})[name] = rows
    for key, named in by_invoice.items():
        found = sum(named.values(), RowSum())
        assert found == totals.get(key), (
            f"{key}: its parts are {found}, and it is {totals.get(key)}"
        )
    return tuple(
        Invoice(
            key.account,
            key.month,
            key.currency,
            _build_part("total", "", totals[key]),
            tuple(
                _build_part(name, "" if name in set(Verdict) else reason_of(name), rows)
                for name, rows in sorted(by_invoice[key].items())
            ),
        )
        for key in sorted(by_invoice)
    )


def reason_of(kind: str) -> str:
    """Return why rows of this kind are not compared on an invoice."""
    return REASONS.get(kind, _ELSE)


def _build_part(name: str, reason: str, rows: RowSum) -> InvoicePart:
    return InvoicePart(
        name,
        reason,
        rows.rows,
        rows.cost,
        rows.credits,
        format_usd(rows.local_cost),
        format_usd(rows.local_credits),
        format_usd(rows.local_cost + rows.local_credits),
    )
