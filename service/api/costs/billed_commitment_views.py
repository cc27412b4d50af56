"""Response models of the commitments on a bill."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.api.http.schemas import Month, Usd, View, schema_extra, usd_or_none, whole_pattern
from service.domain.money import format_usd
from service.domain.reconciliation.commitments import BilledCommitment, CoveredNode

Share = Annotated[str, schema_extra(pattern=whole_pattern(r"[0-9]+\.[0-9]{4}"))]


class BilledNodeView(View):
    """What a commitment covered of one resource of the bill."""

    project: str = Field(examples=["lab"])
    resource: str = Field(
        description="The bill's name of it; empty for the rest of a long list.",
        examples=["//tpu.googleapis.com/projects/lab/locations/us-east5-a/nodes/run-1"],
    )
    node_id: str = Field(description="Empty where it is no node of ours.")
    covered_chip_seconds: int = Field(examples=[115_200])
    amortised: Usd | None = Field(
        description="Its part of the fee: its covered chip-seconds at the fee's rate."
    )
    nodes: int = Field(description="1; more for the rest of a long list, as one.", examples=[1])

    @classmethod
    def from_node(cls, node: CoveredNode) -> BilledNodeView:
        """The view of a node."""
        return cls(
            project=node.project,
            resource=node.resource,
            node_id=node.node_id,
            covered_chip_seconds=node.covered,
            amortised=usd_or_none(node.amortised),
            nodes=node.nodes,
        )


class BilledCommitmentView(View):
    """The commitments of one generation, region and term on the bill of one month. What is null is
    not known, and `reasons` say why. `amortised` and `unused` add up to `fee`, and the amortised
    cost of the nodes to `amortised`, to the nano-dollar."""

    month: Month = Field(
        description="`invoice.month`, or the UTC month of the usage where the rows name none."
    )
    billing_account: str = Field(examples=["012345-6789AB-CDEF01"])
    generation: str = Field(examples=["v6e"])
    region: str = Field(
        description="A continent where the SKU is sold for one, such as `Americas`.",
        examples=["us-east5"],
    )
    term_years: int | None = Field(
        description="1 or 3; null where the bill has no fee and does not say.", examples=[1]
    )
    fee: Usd | None = Field(
        description="The fee of the month as it is billed, used or not, with its credits other than"
        " `fee_offset`."
    )
    fee_offset: Usd = Field(
        description="FEE_UTILIZATION_OFFSET: what is taken off the fee where covered usage is"
        " billed at a lower price instead; never more than zero."
    )
    committed_chip_seconds: int | None = Field(examples=[115_200])
    covered_chip_seconds: int | None = Field(
        description="Usage that a credit or a consumption model of the commitment covers. Where the"
        " bill has several terms, it is divided by their committed hours, as no row says which.",
        examples=[115_200],
    )
    eligible_chip_seconds: int | None = Field(
        description="All on-demand usage of the generation and region, covered or not.",
        examples=[144_000],
    )
    utilisation_percent: Share | None = Field(
        description="Covered of committed. Usage of projects that are none of this service is not"
        " known, and counts as unused.",
        examples=["100.0000"],
    )
    coverage_percent: Share | None = Field(description="Covered of eligible.", examples=["80.0000"])
    amortised: Usd | None = Field(description="The used part of the fee.")
    unused: Usd | None = Field(description="The fee less `amortised`.")
    list_cost: Usd | None = Field(description="What the covered usage costs on demand, at list.")
    saving: Usd | None = Field(
        description="`list_cost` less the fee, its offset, and what covered usage still costs."
        " Negative where the commitment costs more than it saves."
    )
    nodes: tuple[BilledNodeView, ...] = Field(description="The most covered hours first.")
    reasons: tuple[str, ...] = Field(
        description="Why what is null is not known.",
        examples=[["no on-demand use that the commitment could cover"]],
    )

    @classmethod
    def from_commitment(cls, commitment: BilledCommitment) -> BilledCommitmentView:
        """The view of a commitment."""
        return cls(
            month=commitment.month,
            billing_account=commitment.account,
            generation=commitment.generation,
            region=commitment.region,
            term_years=commitment.term or None,
            fee=usd_or_none(commitment.fee),
            fee_offset=format_usd(commitment.offset),
            committed_chip_seconds=commitment.committed,
            covered_chip_seconds=commitment.covered,
            eligible_chip_seconds=commitment.eligible,
            utilisation_percent=commitment.utilisation,
            coverage_percent=commitment.coverage,
            amortised=usd_or_none(commitment.amortised),
            unused=usd_or_none(commitment.unused),
            list_cost=usd_or_none(commitment.list_cost),
            saving=usd_or_none(commitment.saving),
            nodes=tuple(map(BilledNodeView.from_node, commitment.nodes)),
            reasons=commitment.reasons,
        )
