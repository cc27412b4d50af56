"""What is compared when our ledger is held against a bill, and what can come of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from service.domain.clock import HOUR
from service.domain.metering.reservation import Reservation

PENDING_SECONDS = 48 * HOUR
"""Google may deliver what was used up to so long after it (`metering-idle-dashboard.md` 1.1)."""


class Verdict(StrEnum):
    """The outcome of one comparison."""

    MATCHED = "matched"
    """The same, to a nano-dollar for each row on either side."""

    TOLERATED = "tolerated"
    """Not the same, but within what was said to be of no interest."""

    PENDING = "pending"
    """So young that the bill may still change: it is not held against anybody yet."""

    BILL_WITHOUT_NODE = "bill_without_node"
    """Google bills a TPU that is in none of our records: a leak that was made outside."""

    NODE_WITHOUT_BILL = "node_without_bill"
    """We charge for a node that Google does not bill: a phantom."""

    AMOUNT_DIFFERS = "amount_differs"
    """Both know of it, and they disagree about the price, the seconds, or both."""


DISAGREEING = (Verdict.BILL_WITHOUT_NODE, Verdict.NODE_WITHOUT_BILL, Verdict.AMOUNT_DIFFERS)
"""What somebody has to look at, and what the variance is made of, beside what is tolerated."""


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
    """The amounts agree, and nobody knows what the SKU sells."""

    SKU = "SKU"
    """The amounts agree, and the SKU sells another TPU, or sells it in another way."""

    NO_RATE = "no conversion rate"
    """The bill is in another currency, and its row has no rate."""


class Seen(StrEnum):
    """What our inventory ever saw of a resource."""

    OBSERVED = "observed"
    """The cloud showed it to us as a node of ours."""

    RECORDED = "recorded"
    """We have a record of it; the cloud never showed it to us."""

    ORPHAN = "orphan"
    """The cloud showed it to us, and it was no node of ours."""

    NEVER = "never"


@dataclass(frozen=True, slots=True)
class InvoiceShare:
    """What of a comparison is on one invoice: that of an account, a month (`2026-11`, empty where
    the rows do not say) and a currency. Nano-dollars, and billionths of that currency."""

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
    """What the bill says of one resource, one SKU and one hour, rows that are corrections of each
    other added up. `node_id` is ours, empty where it is no node of ours. `at_list` and
    `chip_seconds` are None where a row did not say; `zone` is where something reserved is, empty
    where its rows do not say, and for all else. Amounts in nano-dollars."""

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
    """The same rows by invoice, without those that are set apart."""

    no_rate: str = ""
    """The currency of rows without a conversion rate: they are set apart, and cost nothing here."""


@dataclass(frozen=True, slots=True)
class Charged:
    """What the ledger says of one node, one provisioning model and one hour. `at_list` is what the
    same costs on demand, None where that is not known. `reservation_id` is the reservation by the
    calendar that it was taken from; where that is the `node_id` too, no node used it."""

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
        """Whether it is what of a reservation no node used."""
        return self.reservation_id != "" and self.node_id == self.reservation_id


@dataclass(frozen=True, slots=True)
class InventorySight:
    """What the inventory says of a resource, and in which words."""

    seen: Seen
    words: str


@dataclass(frozen=True, slots=True)
class Rules:
    """`newest` is the instant of the export's newest row, `tolerance` nano-dollars an hour of a
    node may differ by without being of interest."""

    newest: int
    tolerance: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison. `variance` is the bill less the ledger, of which `by_seconds` is due to the
    seconds, at our price, and the rest to the price; None where the bill does not say.
    `reservation` is by name what was bought, or by several names what cannot be told apart, where
    that is compared and no single node."""

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
    """Whether the ledger agrees with the cost, or with what is left of it after the credits."""

    shares: Sequence[InvoiceShare] = ()
    """What of it is on which invoice; not kept with it."""

    @property
    def net(self) -> int:
        """What is to be paid: the cost with its credits."""
        return self.billed + self.credits


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """Both sides of one comparison; either may be empty, and not both. `bought` is what it is of
    where that are reservations, and not one node."""

    billed: Sequence[Billed]
    charged: Sequence[Charged]
    bought: Sequence[Reservation] = ()

    @property
    def cost(self) -> int:
        """What the bill says."""
        return sum(one.cost for one in self.billed)

    @property
    def credit_kinds(self) -> Mapping[str, int]:
        """The credits of the bill by Google's `credits.type`, in the order of the kinds."""
        found: Counter[str] = Counter()
        for one in self.billed:
            found.update(one.credit_kinds)
        return dict(sorted(found.items()))

    @property
    def credits(self) -> int:
        """The credits of the bill; negative."""
        return sum(one.credits for one in self.billed)

    @property
    def no_rate(self) -> str:
        """The currency of rows of the bill that have no conversion rate; empty without any."""
        return next((one.no_rate for one in self.billed if one.no_rate), "")

    @property
    def amount(self) -> int:
        """What the ledger says."""
        return sum(one.amount for one in self.charged)

    @property
    def hour(self) -> int:
        """The first second of the hour."""
        return self.billed[0].hour if self.billed else self.charged[0].hour

    def is_exact(self, variance: int) -> bool:
        """Whether so much is due to the rounding of each row alone."""
        if not variance:
            return True
        rows = sum(one.rows for one in self.billed) + sum(one.rows for one in self.charged)
        return abs(variance) <= rows
