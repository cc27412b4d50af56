"""The inputs and outcomes of the comparison of our ledger with a bill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.clock import HOUR
from service.domain.metering.reservation import Reservation

PENDING_SECONDS = 48 * HOUR
"""Google may deliver usage as late as this (`metering-idle-dashboard.md` 1.1)."""


class Verdict(StrEnum):
    """The outcome of one comparison."""

    MATCHED = "matched"
    """Equal, to a nano-dollar for each row on either side."""

    TOLERATED = "tolerated"
    """Different within the tolerance."""

    PENDING = "pending"
    """Too recent: the bill may still change."""

    BILL_WITHOUT_NODE = "bill_without_node"
    """Google bills a TPU that was created outside of this service: a leak."""

    NODE_WITHOUT_BILL = "node_without_bill"
    """We charge for a node that Google does not bill: a phantom."""

    AMOUNT_DIFFERS = "amount_differs"
    """Both sides have the node, with another price, other seconds, or both."""


DISAGREEING = (Verdict.BILL_WITHOUT_NODE, Verdict.NODE_WITHOUT_BILL, Verdict.AMOUNT_DIFFERS)
"""The verdicts that need attention. They and TOLERATED make up the variance."""


class Difference(StrEnum):
    """What two amounts differ by."""

    NONE = ""
    PRICE = "price"
    SECONDS = "seconds"
    BOTH = "price and seconds"
    LIST_PRICE = "list price"
    UNKNOWN = "not known"
    """The bill does not say how long it was used."""

    UNKNOWN_SKU = "unknown SKU"
    """The amounts agree, and the product of the SKU is unknown."""

    SKU = "SKU"
    """The amounts agree, and the SKU sells another TPU or provisioning model."""

    NO_RATE = "no conversion rate"
    """The bill is in another currency, and its row has no rate."""


class Seen(StrEnum):
    """What our inventory ever saw of a resource."""

    OBSERVED = "observed"
    """The cloud listed the resource as a node of ours."""

    RECORDED = "recorded"
    """We have a record of the resource, which the cloud never listed."""

    ORPHAN = "orphan"
    """The cloud listed the resource, and it was no node of ours."""

    NEVER = "never"


@dataclass(frozen=True, slots=True)
class InvoiceShare:
    """The part of a comparison on one invoice, which is of an account, a month (`2026-11`, empty
    where the rows have none) and a currency. Nano-dollars, and billionths of that currency."""

    account: str
    invoice: str
    currency: str
    rows: int
    cost: int
    credits: int
    local_cost: int
    local_credits: int


@dataclass(frozen=True, slots=True)
class Billed:
    """The sum of the bill's rows of one resource, one SKU and one hour, with corrections. `node_id`
    is empty for a resource that is not a node of ours. `at_list` and `chip_seconds` are None where
    a row has none; `zone` is the zone of a reserved resource, empty where its rows have none, and
    for other resources. Amounts in nano-dollars."""

    project: str
    resource: str
    node_id: str
    sku_id: str
    description: str
    generation: str
    model: str
    hour: int
    rows: int
    cost: int
    credits: int
    at_list: int | None
    chip_seconds: int | None
    zone: str = ""
    credit_kinds: Mapping[str, int] = field(default_factory=dict)
    """The credits by Google's `credits.type`."""

    shares: Sequence[InvoiceShare] = ()
    """The same rows by invoice, without rows that are set apart."""

    no_rate: str = ""
    """The currency of rows without a conversion rate, which are set apart and cost 0 here."""


@dataclass(frozen=True, slots=True)
class Charged:
    """The ledger's charge for one node, one provisioning model and one hour. `at_list` is the price
    of the same usage on demand, None where the price is unknown. `reservation_id` is the
    calendar-mode reservation of the node; an equal `node_id` means the unused part."""

    project: str
    node_id: str
    generation: str
    model: str
    hour: int
    rows: int
    amount: int
    at_list: int | None
    chip_seconds: int
    reservation_id: str = ""

    @property
    def is_unused(self) -> bool:
        """Whether the charge is for the unused part of a reservation."""
        return self.reservation_id != "" and self.node_id == self.reservation_id


@dataclass(frozen=True, slots=True)
class InventorySight:
    """What the inventory knows of a resource, with a text for the reason."""

    seen: Seen
    words: str


@dataclass(frozen=True, slots=True)
class Rules:
    """`newest` is the instant of the export's newest row, `tolerance` the nano-dollars by which an
    hour of a node may differ."""

    newest: int
    tolerance: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison. `variance` is the bill less the ledger. `by_seconds` is the part that is due
    to the seconds, at our price, and the rest is due to the price; None where the bill has no
    seconds. `reservation` has the names of the reservations, where these are compared instead of a
    single node."""

    verdict: Verdict
    project: str
    resource: str
    node_id: str
    sku_id: str
    description: str
    generation: str
    model: str
    hour: int
    billed: int
    credits: int
    billed_at_list: int | None
    billed_chip_seconds: int | None
    charged: int
    charged_at_list: int | None
    charged_chip_seconds: int
    variance: int
    by_seconds: int | None
    difference: Difference
    seen: Seen
    reason: str
    reservation: str = ""
    credit_kinds: Mapping[str, int] = field(default_factory=dict)
    is_explained: bool = False
    """Whether the ledger agrees with the cost, before or after the credits."""

    shares: Sequence[InvoiceShare] = ()
    """The parts by invoice; not stored with the comparison."""

    @property
    def net(self) -> int:
        """The cost with its credits."""
        return self.billed + self.credits


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Both sides of one comparison, of which at most one is empty. `bought` are the reservations,
    where these are compared instead of a node."""

    billed: Sequence[Billed]
    charged: Sequence[Charged]
    bought: Sequence[Reservation] = ()

    @property
    def cost(self) -> int:
        """The cost of the bill's rows."""
        return sum(row.cost for row in self.billed)

    @property
    def credit_kinds(self) -> Mapping[str, int]:
        """The credits of the bill by Google's `credits.type`, in the order of the kinds."""
        found: Counter[str] = Counter()
        for row in self.billed:
            found.update(row.credit_kinds)
        return dict(sorted(found.items()))

    @property
    def credits(self) -> int:
        """The credits of the bill; negative."""
        return sum(row.credits for row in self.billed)

    @property
    def no_rate(self) -> str:
        """The currency of the bill's first row without a conversion rate; empty without one."""
        return next((row.no_rate for row in self.billed if row.no_rate), "")

    @property
    def amount(self) -> int:
        """The ledger's charge."""
        return sum(entry.amount for entry in self.charged)

    @property
    def hour(self) -> int:
        """The first second of the hour."""
        return self.billed[0].hour if self.billed else self.charged[0].hour

    def is_exact(self, variance: int) -> bool:
        """Whether the variance is due to the rounding of each row alone."""
        if not variance:
            return True
        rows = sum(row.rows for row in self.billed) + sum(entry.rows for entry in self.charged)
        return abs(variance) <= rows
