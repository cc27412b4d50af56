"""A bill by the invoices that it is of: each row is on exactly one, and all parts add up to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.money import usd
from service.domain.reconciliation.bill_row import SkipReason
from service.domain.reconciliation.bill_sku import COMMITMENT
from service.domain.reconciliation.variance import Verdict

NO_RATE = "no_conversion_rate"
"""The part of rows in another currency that have no rate, whatever else they are."""

REASONS: Mapping[str, str] = {
    COMMITMENT: "the fee of a committed-use discount: it is paid for a term, used or not",
    "tax": "a tax is no use of a node",
    "adjustment": "a correction by Google that names no use of a node",
    "rounding_error": "what the invoice is rounded by",
    NO_RATE: "in another currency, without a currency_conversion_rate above zero",
    SkipReason.OTHER_PROJECT: "not of a project of this service",
    SkipReason.NOT_TPU: "no TPU",
}
"""Why rows are in none of the comparisons, by what they are."""

_ELSE = "a cost type that is no use of a node"


@dataclass(frozen=True, slots=True, order=True)
class InvoiceKey:
    """One invoice: who is billed, its month (`2026-11`) and its currency. The first two are empty
    where the rows do not say."""

    account: str
    month: str
    currency: str


@dataclass(frozen=True, slots=True)
class RowSum:
    """Rows together: nano-dollars, and billionths of the currency of the invoice. What has no
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
    """The rows of an invoice that one thing became of: a verdict, or why they were set apart.

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
    """An invoice with its parts; `total` is of all rows of it, and is the sum of the parts."""

    account: str
    month: str
    currency: str
    total: InvoicePart
    parts: tuple[InvoicePart, ...]


def invoices(
    compared: Mapping[tuple[InvoiceKey, str], RowSum],
    apart: Mapping[tuple[InvoiceKey, str], RowSum],
    totals: Mapping[InvoiceKey, RowSum],
) -> tuple[Invoice, ...]:
    """Each invoice with what became of its rows: what was compared, by verdict, and what was set
    apart, by its reason. `totals` are of all rows, added up in another way.

    Raises AssertionError where the parts of one are not its total, to the nano-dollar and in its
    own currency: rows would have been lost, or counted twice.
    """
    parts = dict(compared) | dict(apart)
    assert len(parts) == len(compared) + len(apart), "a row is compared and set apart"
    of: dict[InvoiceKey, dict[str, RowSum]] = {key: {} for key in totals}
    for (key, name), some in parts.items():
        of.setdefault(key, {})[name] = some
    for key, named in of.items():
        found = sum(named.values(), RowSum())
        assert found == totals.get(key), (
            f"{key}: its parts are {found}, and it is {totals.get(key)}"
        )
    return tuple(
        Invoice(
            key.account,
            key.month,
            key.currency,
            _part("total", "", totals[key]),
            tuple(_part(name, _reason(name), some) for name, some in sorted(of[key].items())),
        )
        for key in sorted(of)
    )


def _reason(name: str) -> str:
    return "" if name in set(Verdict) else reason_of(name)


def reason_of(kind: str) -> str:
    """Why rows of that kind are compared with nothing."""
    return REASONS.get(kind, _ELSE)


def _part(name: str, reason: str, some: RowSum) -> InvoicePart:
    return InvoicePart(
        name,
        reason,
        some.rows,
        some.cost,
        some.credits,
        usd(some.local_cost),
        usd(some.local_credits),
        usd(some.local_cost + some.local_credits),
    )
