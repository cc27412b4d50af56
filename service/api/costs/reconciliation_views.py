"""Response models of a bill that was reconciled with the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from service.api.costs.billed_commitment_views import BilledCommitmentView
from service.api.http.schemas import (
    Month,
    Page,
    Time,
    Usd,
    View,
    schema_extra,
    time_or_none,
    usd_or_none,
    whole_pattern,
)
from service.application.reconciliations import NumberedComparison, Reconciliation
from service.domain.clock import to_rfc3339
from service.domain.money import format_usd
from service.domain.reconciliation.bill import Bill, BillTally, why_no_commitments
from service.domain.reconciliation.bill_file import Shape
from service.domain.reconciliation.invoice import Invoice, InvoicePart
from service.domain.reconciliation.variance import Difference, Seen, Verdict


class TallyView(View):
    """Comparisons together. The variance is the bill less the ledger."""

    lines: int = Field(description="Hours of a node, by SKU.")
    billed: Usd
    credits: Usd = Field(description="What Google takes off; never more than zero.")
    net: Usd = Field(description="What is billed, with its credits.")
    charged: Usd = Field(description="What our ledger says.")
    variance: Usd
    more: Usd = Field(description="What the bill says more, over all hours in which it does.")
    less: Usd = Field(description="What the bill says less; never more than zero.")
    variance_percent: (
        Annotated[str, schema_extra(pattern=whole_pattern(r"-?[0-9]+\.[0-9]{4}"))] | None
    ) = Field(description="Of what matched; null where nothing did.", examples=["0.0213"])
    credits_by_kind: dict[str, Usd] = Field(
        description="`credits` by Google's `credits.type`; `CREDIT_TYPE_UNSPECIFIED` where the bill"
        " names none.",
        examples=[{"COMMITTED_USAGE_DISCOUNT": "-1.600000000"}],
    )
    explained: bool = Field(
        description="Whether in each hour the ledger agrees with `billed`, or with `net`: then"
        " credits account for the whole difference between `net` and `charged`."
    )
    explanation: str = Field(
        description="The same in words.",
        examples=["credits explain the whole of -$1.60: COMMITTED_USAGE_DISCOUNT -$1.60"],
    )

    @classmethod
    def from_tally(cls, tally: BillTally) -> TallyView:
        """The view of a sum."""
        return cls(**_tally_fields(tally))


class SkuView(TallyView):
    """The comparisons of one SKU; the id is empty where nothing of it is on the bill."""

    sku_id: str = Field(examples=["2549-F208-72FA"])
    generation: str = Field(examples=["v6e"])
    provisioning_model: str = Field(examples=["on_demand"])


class ProjectTallyView(TallyView):
    """The comparisons of one project."""

    project: str = Field(examples=["lab"])


class ApartView(View):
    """Rows that are compared with nothing, by cost type, or because they have no conversion rate:
    in none of the sums. `cost` is with credits, and 0 for what has no rate."""

    rows: int
    cost: Usd
    reason: str
    local: dict[str, str] = Field(
        description="The same in the currency of the rows, by currency.",
        examples=[{"EUR": "8.830000000"}],
    )


class PartView(View):
    """Rows of an invoice with one outcome. The local amounts are in its currency; those in
    dollars are without the rows that have no conversion rate."""

    name: str = Field(
        description="A verdict, or the kind of what was set apart: `tax`, `adjustment`,"
        " `rounding_error`, `commitment`, `no_conversion_rate`, `other_project`, `not_tpu`.",
        examples=["matched"],
    )
    reason: str = Field(description="Why it was set apart; empty for a verdict.")
    rows: int
    cost: Usd
    credits: Usd
    local_cost: str = Field(examples=["8.806080000"])
    local_credits: str
    local_total: str

    @classmethod
    def from_part(cls, part: InvoicePart) -> PartView:
        """The view of a part."""
        return cls(
            name=part.name,
            reason=part.reason,
            rows=part.rows,
            cost=format_usd(part.cost),
            credits=format_usd(part.credits),
            local_cost=part.local_cost,
            local_credits=part.local_credits,
            local_total=part.local_total,
        )


class InvoiceView(View):
    """One invoice. `total` is of all rows that were sent of it, ours or not, and is the sum of the
    parts to the nano-dollar."""

    month: Month | None = Field(description="`invoice.month`; null where the rows name none.")
    billing_account: str = Field(examples=["012345-6789AB-CDEF01"])
    currency: str = Field(examples=["EUR"])
    total: PartView
    parts: tuple[PartView, ...]

    @classmethod
    def from_invoice(cls, invoice: Invoice) -> InvoiceView:
        """The view of an invoice."""
        return cls(
            month=invoice.month or None,
            billing_account=invoice.account,
            currency=invoice.currency,
            total=PartView.from_part(invoice.total),
            parts=tuple(map(PartView.from_part, invoice.parts)),
        )


class JoinedView(View):
    """An earlier file whose rows of the same months are part of this."""

    id: str
    name: str
    rows: int = Field(description="Its rows of these months.")
    again: int = Field(description="Those that the later file has too: they count once.")


class RowsView(View):
    """The rows of the file. A duplicate is one row of the export that the file has twice: it has
    the resource, the batch (`export_time`) and all else of another row, and counts once."""

    read: int
    duplicates: int
    other_projects: int = Field(description="Ignored: not of a project of this service.")
    not_tpu: int = Field(description="Ignored: no TPU.")


class MachinesView(View):
    """What our ledger says, in the hours of the bill, of the machines with which users drive their
    TPU Nodes. Google bills those as any machine of Compute Engine: they are compared with nothing
    and in none of the sums."""

    entries: int = Field(description="Lines of the ledger.")
    charged: Usd


class ReconciliationView(View):
    """A bill compared with the ledger. `pending` is in none of the sums but its own."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["november.csv"])
    known: bool = Field(description="Whether the identical file had been sent before.")
    alone: bool = Field(description="Whether no other file joins it, as was asked.")
    shape: Shape
    created_at: Time
    start: Time | None = Field(description="The first hour that the bill speaks of.")
    end: Time | None
    newest: Time | None = Field(description="When its newest row was written.")
    tolerance: Usd
    rows: RowsView
    apart: dict[str, ApartView] = Field(description="Tax, adjustments, commitments and the like.")
    machines: MachinesView
    total: TallyView
    verdicts: dict[Verdict, TallyView]
    skus: tuple[SkuView, ...]
    projects: tuple[ProjectTallyView, ...]
    currency: str = Field(
        description="Of the ledger. What is billed in another currency is divided by the"
        " `currency_conversion_rate` of its own row, and rounded half to even to the nano-dollar.",
        examples=["USD"],
    )
    invoices: tuple[InvoiceView, ...]
    joined: tuple[JoinedView, ...] = Field(
        description="Earlier files of the same months. Their rows are part of all figures but"
        " `rows`, which are of this file alone."
    )
    joined_into: str | None = Field(
        description="The id of a later file of the same months, which has these rows too."
    )
    commitments: tuple[BilledCommitmentView, ...] = Field(
        description="Committed-use discounts by month, generation, region and term. A FOCUS"
        " export does not name them."
    )
    commitments_reason: str = Field(
        description="Why `commitments` is empty though the bill has some; else empty.",
        examples=[""],
    )

    @classmethod
    def from_reconciliation(cls, outcome: Reconciliation) -> ReconciliationView:
        """The view of an outcome."""
        bill, found = outcome.bill, outcome.headline
        counts = bill.counts
        return cls(
            id=bill.id,
            name=bill.name,
            known=outcome.known,
            alone=bill.is_alone,
            shape=bill.shape,
            created_at=to_rfc3339(bill.created_at),
            start=time_or_none(counts.start),
            end=time_or_none(counts.end),
            newest=time_or_none(counts.newest),
            tolerance=format_usd(bill.tolerance),
            rows=RowsView(
                read=counts.rows,
                duplicates=bill.duplicates,
                other_projects=counts.other_projects,
                not_tpu=counts.not_tpu,
            ),
            apart={
                kind: ApartView(
                    rows=apart.rows,
                    cost=format_usd(apart.cost),
                    reason=apart.reason,
                    local=dict(apart.local),
                )
                for kind, apart in bill.apart.items()
            },
            machines=MachinesView(
                entries=counts.machine_entries, charged=format_usd(counts.machine_nanos)
            ),
            total=TallyView.from_tally(found.total),
            verdicts={
                verdict: TallyView.from_tally(tally) for verdict, tally in found.verdicts.items()
            },
            skus=tuple(
                SkuView(
                    sku_id=key[0],
                    generation=key[1],
                    provisioning_model=key[2],
                    **_tally_fields(tally),
                )
                for key, tally in found.skus.items()
            ),
            projects=tuple(
                ProjectTallyView(project=project, **_tally_fields(tally))
                for project, tally in found.projects.items()
            ),
            currency="USD",
            invoices=tuple(map(InvoiceView.from_invoice, bill.invoices)),
            joined=tuple(
                JoinedView(id=file.id, name=file.name, rows=file.rows, again=file.again)
                for file in bill.joined
            ),
            joined_into=bill.joined_into or None,
            commitments=tuple(map(BilledCommitmentView.from_commitment, bill.commitments or ())),
            commitments_reason=why_no_commitments(bill),
        )


class RemovedReconciliationView(View):
    """A file that is no longer reconciled."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["november.csv"])
    created_at: Time


class RemovedReconciliationsView(View):
    """What was deleted."""

    removed: tuple[RemovedReconciliationView, ...] = Field(
        description="The named one first, then the earlier files that had joined it."
    )

    @classmethod
    def from_bills(cls, bills: Sequence[Bill]) -> RemovedReconciliationsView:
        """The view of bills that were forgotten."""
        removed = (
            RemovedReconciliationView(
                id=bill.id, name=bill.name, created_at=to_rfc3339(bill.created_at)
            )
            for bill in bills
        )
        return cls(removed=tuple(removed))


class ReconciliationPage(Page):
    """A page of reconciliations, the newest first."""

    reconciliations: tuple[ReconciliationView, ...]


class ComparisonView(View):
    """One hour of one resource, by SKU: what the bill says, what the ledger says, who saw it."""

    id: int
    verdict: Verdict
    project: str = Field(examples=["lab"])
    resource: str = Field(
        description="The bill's name of it; empty where the bill has none.",
        examples=["//tpu.googleapis.com/projects/lab/locations/us-west4-a/nodes/somebodys"],
    )
    node_id: str = Field(description="Empty where it is no node of ours.")
    reservation: str = Field(
        description="The calendar-mode reservation that is compared, with what ran in it and what"
        " nobody used; several with commas where the bill does not tell them apart; else empty.",
        examples=["march"],
    )
    sku_id: str = Field(examples=["2549-F208-72FA"])
    description: str = Field(examples=["TpuV6e running in Dallas"])
    generation: str = Field(examples=["v6e"])
    provisioning_model: str = Field(examples=["on_demand"])
    hour: Time
    billed: Usd
    credits: Usd
    billed_at_list: Usd | None
    billed_chip_seconds: int | None
    charged: Usd
    charged_at_list: Usd | None = Field(description="On demand, at list price.")
    charged_chip_seconds: int
    variance: Usd
    variance_by_seconds: Usd | None = Field(
        description="What the seconds account for, at our price; the rest is the price. Null where"
        " the bill does not say how long."
    )
    difference: Difference
    seen: Seen = Field(description="Whether our inventory ever saw it, and as what.")
    reason: str
    net: Usd = Field(description="What is billed, with its credits.")
    credits_by_kind: dict[str, Usd] = Field(description="`credits` by Google's `credits.type`.")
    explained: bool = Field(description="Whether the ledger agrees with `billed` or with `net`.")

    @classmethod
    def from_comparison(cls, kept: NumberedComparison) -> ComparisonView:
        """The view of a comparison."""
        line = kept.line
        return cls(
            id=kept.id,
            verdict=line.verdict,
            project=line.project,
            resource=line.resource,
            node_id=line.node_id,
            reservation=line.reservation,
            sku_id=line.sku_id,
            description=line.description,
            generation=line.generation,
            provisioning_model=line.model,
            hour=to_rfc3339(line.hour),
            billed=format_usd(line.billed),
            credits=format_usd(line.credits),
            billed_at_list=usd_or_none(line.billed_at_list),
            billed_chip_seconds=line.billed_chip_seconds,
            charged=format_usd(line.charged),
            charged_at_list=usd_or_none(line.charged_at_list),
            charged_chip_seconds=line.charged_chip_seconds,
            variance=format_usd(line.variance),
            variance_by_seconds=usd_or_none(line.by_seconds),
            difference=line.difference,
            seen=line.seen,
            reason=line.reason,
            net=format_usd(line.net),
            credits_by_kind=_format_kinds(line.credit_kinds),
            explained=line.is_explained,
        )


class ComparisonPage(Page):
    """A page of comparisons."""

    lines: tuple[ComparisonView, ...]


def _tally_fields(tally: BillTally) -> dict[str, Any]:
    return {
        "lines": tally.lines,
        "billed": format_usd(tally.billed),
        "credits": format_usd(tally.credits),
        "net": format_usd(tally.net),
        "charged": format_usd(tally.charged),
        "variance": format_usd(tally.variance),
        "more": format_usd(tally.more),
        "less": format_usd(tally.less),
        "variance_percent": tally.percent,
        "credits_by_kind": _format_kinds(tally.credit_kinds),
        "explained": tally.explained == tally.lines,
        "explanation": tally.explanation,
    }


def _format_kinds(kinds: Mapping[str, int]) -> dict[str, str]:
    return {kind: format_usd(nanos) for kind, nanos in kinds.items()}
