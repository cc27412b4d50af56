"""Response models of nodes. The store makes the documents of nodes; the models describe them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from service.api.cleanup.policies import AppliedView
from service.api.http.schemas import Month, Page, Time, Usd, View, usd_or_none
from service.application.costs.accruals import Accrual
from service.application.nodes.cost import CostLine, NodeCost
from service.domain.billing_period import period_of
from service.domain.catalog.provisioning import Architecture, ProvisioningModel
from service.domain.clock import to_rfc3339
from service.domain.jobs.occupancy import Occupancy
from service.domain.money import format_usd
from service.domain.nodes.node import Asked
from service.domain.nodes.placement import Outcome
from service.store.ledger import PostedLine


class EndpointView(View):
    """Where one worker is reached."""

    worker: int = Field(examples=[0])
    ip: str = Field(examples=["10.164.0.7"])
    port: int = Field(examples=[8470])
    external_ip: str = Field(description="Empty when it has none.", examples=[""])


class PlacementView(View):
    """One attempt to get the node in one zone."""

    attempt: int = Field(examples=[1])
    zone: str = Field(examples=["us-west4-a"])
    accelerator_type: str = Field(examples=["v5litepod-16"])
    provisioning_model: ProvisioningModel
    cloud_id: str = Field(examples=["trainer-a1b2c3d4"])
    started_at: Time
    ended_at: Time | None
    outcome: Outcome
    reason: str = Field(description="What the cloud said.", examples=[""])


class IdleView(View):
    """When it counts as idle, and what then."""

    after_seconds: int
    grace_seconds: int
    action: str
    also: tuple[str, ...] = Field(
        description="What else is stopped or deleted, although it looks busy.", examples=[[]]
    )


class KeepView(View):
    """Until when the node is kept, and why; also once that is over."""

    until: Time | None = Field(
        description="Null for a label `keep-until` that cannot be read: it protects the node."
    )
    reason: str = Field(examples=["a demo on Friday"])


class UserVmView(View):
    """The user's own virtual machine that drives a legacy TPU Node."""

    machine_type: str = Field(examples=["n1-standard-8"])
    provisioning_model: ProvisioningModel


class SliceView(View):
    """What was seen of one slice of a node that is made of several."""

    slice: int
    cloud_id: str
    state: str
    health: str


class DeletionFailureView(View):
    """A deletion that failed at least once, or is overdue, and has not ended."""

    since: Time = Field(description="When the deletion was requested.")
    call: str = Field(description="The method that is tried.", examples=["nodes.delete"])
    tries: int = Field(description="Tries in a row that failed.", examples=[2])
    error: str = Field(description="The last error.", examples=["the service is unavailable"])
    next_try_at: Time | None = Field(description="When the deletion is tried again.")


class NodeView(View):
    """One node: what was requested, what was observed, and its cost so far."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["trainer"])
    cloud_id: str = Field(description="The cloud's name for it, or for its present attempt.")
    project: str = Field(examples=["lab"])
    zone: str = Field(examples=["us-west4-a"])
    zones: tuple[str, ...] = Field(description="Where it is tried, in this order.")
    accelerator_type: str = Field(
        description="What it is made of, or tried as now.", examples=["v5litepod-16"]
    )
    accelerator_types: tuple[str, ...] = Field(
        description="Every type that will do, the first to be tried first.",
        examples=[["v5litepod-16"]],
    )
    generation: str = Field(examples=["v5e"])
    topology: str = Field(examples=["4x4"])
    chips: int = Field(examples=[16])
    hosts: int = Field(examples=[4])
    runtime_version: str = Field(examples=["v2-alpha-tpuv5-lite"])
    provisioning_model: ProvisioningModel
    queued: bool = Field(description="Whether it is requested through a queued resource.")
    queue_state: str = Field(
        description="What was last seen of that, in Google's words; empty until it was seen.",
        examples=[""],
    )
    slices: int = Field(description="Of how many equal slices it is made.", examples=[1])
    slice_states: tuple[SliceView, ...] = Field(
        description="Each slice where there are several.", examples=[[]]
    )
    reservation: str = Field(examples=[""])
    architecture: Architecture
    vm: UserVmView | None = Field(
        description="Your VM that drives a legacy TPU Node, where that was said.", examples=[None]
    )
    asked: Asked
    state: str = Field(description="Google's name of it, or one of ours.", examples=["READY"])
    state_since: Time
    health: str = Field(examples=["HEALTHY"])
    endpoints: tuple[EndpointView, ...]
    created_at: Time
    ready_at: Time | None
    ended_at: Time | None
    deletes_at: Time | None = Field(
        description="When its time to live ends; later where it is kept until then."
    )
    keep: KeepView | None = Field(description="Null where nobody ever kept it.")
    ends_after_keep: str = Field(
        description="Why it goes once nobody keeps it any more; empty while nothing waits for"
        " that.",
        examples=[""],
    )
    delete_requested_at: Time | None = Field(description="When its deletion was requested.")
    delete_reason: str
    replacing_since: Time | None = Field(
        description="Since when what is in the cloud is deleted so that another can be made."
    )
    overdue_since: Time | None = Field(
        description="Since when its deletion should have been over and is not: an alarm was given."
    )
    deletion_failure: DeletionFailureView | None = Field(
        description="Null unless its deletion fails.", examples=[None]
    )
    ttl_seconds: int | None
    max_wait_seconds: int | None
    valid_until: Time | None = Field(description="Given up when it was not READY by then.")
    recreate_on_preemption: bool
    idle: IdleView | None
    placements: tuple[PlacementView, ...]
    last_error: str = Field(description="The last thing that went wrong.", examples=[""])
    labels: dict[str, str]
    owner: str = Field(examples=["ada"])
    team: str = Field(examples=["vision"])
    version: int = Field(description="Its ETag.", examples=[3])
    hourly_cost: Usd | None = Field(
        description="What it costs an hour once it is READY, its `vm` included; null when a price"
        " is not known."
    )
    cost: Usd = Field(description="So far, in dollars.")
    unpriced_seconds: int = Field(
        description="Seconds that `cost` leaves out, because their price is unknown."
    )


class RequestedView(NodeView):
    """A node that was requested, with warnings for its owner."""

    warnings: tuple[str, ...] = Field(examples=[[]])
    policy: AppliedView = Field(description="The idle policy that applies, and what is done.")


class UpdatedView(NodeView):
    """A node that was changed, and the idle policy that applies to it now."""

    warnings: tuple[str, ...] = Field(examples=[[]])
    policy: AppliedView = Field(description="The idle policy that applies, and what is done.")


class ChangedView(NodeView):
    """A node that a caller ends, stops or keeps, with warnings."""

    warnings: tuple[str, ...] = Field(
        description="A keep that ended with it, or that lasts longer than was requested.",
        examples=[[]],
    )


class NodePage(Page):
    """A page of nodes, the newest first."""

    nodes: tuple[NodeView, ...]


class EventView(View):
    """One event of a node."""

    number: int = Field(examples=[1])
    at: Time
    kind: str = Field(examples=["asked"])
    message: str = Field(examples=["deletion asked for"])
    actor: str = Field(examples=["caller"])
    facts: dict[str, object]


class EventPage(Page):
    """A page of the events of a node, the oldest first."""

    events: tuple[EventView, ...]


class CostLineView(View):
    """The cost of one thing: the TPU, or the VM that drives it."""

    what: str = Field(description="Its accelerator type or machine type.", examples=["v2-8"])
    kind: Literal["tpu", "vm"]
    cost: Usd
    list_cost: Usd | None = Field(description="The same on demand; null when that is not known.")
    seconds: int = Field(description="How long it was charged, or has no price.", examples=[3_600])
    unpriced_seconds: int = Field(description="Of these, with unknown price; in no figure.")

    @classmethod
    def from_line(cls, line: CostLine) -> CostLineView:
        """The view of a line."""
        return cls(
            what=line.what,
            kind="vm" if line.is_vm else "tpu",
            cost=format_usd(line.cost),
            list_cost=usd_or_none(line.list_cost),
            seconds=line.seconds,
            unpriced_seconds=line.unpriced_seconds,
        )


class UnpostedView(View):
    """A stretch of seconds that is in the cost, and in no line of the ledger yet."""

    what: str = Field(description="Its accelerator type or machine type.", examples=["v2-8"])
    kind: Literal["tpu", "vm"]
    start: Time
    end: Time = Field(description="The first second after it.")
    chip_seconds: int = Field(description="None of a VM.")
    vm_seconds: int = Field(description="Those of the VM, where it is of that.")
    price_id: str | None = Field(description="Null where no price is known.")
    usd_per_chip_hour: Usd | None = Field(description="Of a VM: per hour of that.")
    amount: Usd | None
    explanation: tuple[str, ...] = Field(
        description="In words, as of a line of the ledger: the sum, the price and its source, how"
        " both ends of its interval are known, and who is charged."
    )

    @classmethod
    def from_accrual(cls, accrual: Accrual) -> UnpostedView:
        """The view of a stretch."""
        return cls(
            what=accrual.what,
            kind="vm" if accrual.is_vm else "tpu",
            start=to_rfc3339(accrual.start),
            end=to_rfc3339(accrual.end),
            chip_seconds=0 if accrual.is_vm else accrual.quantity,
            vm_seconds=accrual.quantity if accrual.is_vm else 0,
            price_id=None if accrual.price is None else accrual.price.id,
            usd_per_chip_hour=None
            if accrual.price is None
            else format_usd(accrual.price.per_chip_hour),
            amount=usd_or_none(accrual.amount),
            explanation=accrual.sentences,
        )


class OccupancyView(View):
    """What one job took of the node, or the node itself without a job."""

    occupant: Literal["job", "before_first_job", "between_jobs", "idle_tail"]
    job_id: str = Field(description="Empty where the node had no job.")
    seconds: int
    chip_seconds: int
    cost: Usd

    @classmethod
    def from_occupancy(cls, part: Occupancy) -> OccupancyView:
        """The view of one part."""
        return cls(
            occupant=part.occupant.value,
            job_id=part.job_id,
            seconds=part.seconds,
            chip_seconds=part.chip_seconds,
            cost=format_usd(part.cost),
        )


class NodeCostView(View):
    """What a node cost so far, in dollars."""

    cost: Usd
    list_cost: Usd | None = Field(description="The same on demand; null when that is not known.")
    chip_seconds: int = Field(examples=[57_600])
    uncertainty: Usd = Field(description="How much of the cost may not be true.")
    estimated: bool = Field(description="Whether it is still growing, or may be corrected.")
    unpriced_seconds: int = Field(description="Used with unknown price; in no figure.")
    not_included: tuple[str, ...] = Field(
        description="What it costs elsewhere, and is in no figure here.", examples=[[]]
    )
    free: tuple[str, ...] = Field(
        description="By which rules some of its time cost nothing.",
        examples=[["preempted in its first minute"]],
    )
    lines: tuple[CostLineView, ...] = Field(
        description="What the figures are the sums of: the TPU, and your VM where it was said."
    )
    unposted: tuple[UnpostedView, ...] = Field(
        description="What of it is not in the ledger yet, explained; posted is every full hour."
    )
    occupancy: tuple[OccupancyView, ...] = Field(
        description="What its seconds were spent on, every second once: each job, and the node"
        " before the first, between jobs and after the last. Empty where no job ever ran on it."
    )
    as_of: Time

    @classmethod
    def from_cost(cls, cost: NodeCost) -> NodeCostView:
        """The view of what a node cost."""
        return cls(
            cost=format_usd(cost.cost),
            list_cost=usd_or_none(cost.list_cost),
            chip_seconds=cost.chip_seconds,
            uncertainty=format_usd(cost.uncertainty),
            estimated=cost.estimated,
            unpriced_seconds=cost.unpriced_seconds,
            not_included=cost.not_included,
            free=cost.free,
            lines=tuple(map(CostLineView.from_line, cost.lines)),
            unposted=tuple(map(UnpostedView.from_accrual, cost.unposted)),
            occupancy=tuple(map(OccupancyView.from_occupancy, cost.occupancy)),
            as_of=to_rfc3339(cost.as_of),
        )


class EntryView(View):
    """One line of the ledger, as it was posted; it is never changed."""

    number: int = Field(examples=[1])
    what: str = Field(
        description="Whose seconds they are: an accelerator type, the machine type of the VM that"
        " drives it, or the generation that was reserved.",
        examples=["v2-8"],
    )
    usage_id: str
    kind: str = Field(description="`usage`, or `adjustment` of an earlier line.")
    corrects: int | None = Field(description="The number of the line that this one adjusts.")
    start: Time
    end: Time
    period: Month = Field(
        description="The month that it is billed in; not that of `start` where it corrects a month"
        " that was closed."
    )
    chip_seconds: int = Field(description="None of a VM.")
    vm_seconds: int = Field(description="Those of the VM, where it is a line of that.")
    unit: Literal["chip_hour", "vm_hour"] = Field(description="What the price is for.")
    price_id: str
    reservation_id: str | None = Field(
        description="The reservation that it was used in, or that nobody used.", examples=[None]
    )
    usd_per_chip_hour: Usd = Field(description="Of a VM: per hour of that.")
    list_usd_per_chip_hour: Usd | None = Field(
        description="On demand at list price; null where that was not known."
    )
    amount: Usd
    list_amount: Usd | None
    currency: str = Field(examples=["USD"])
    posted_at: Time

    @classmethod
    def from_line(cls, line: PostedLine) -> EntryView:
        """The view of a line."""
        billed = line.charge_start if line.period is None else line.period
        return cls(
            number=line.id,
            what=line.accelerator_type,
            usage_id=line.usage_id,
            kind=line.kind,
            corrects=line.corrects_id,
            start=to_rfc3339(line.charge_start),
            end=to_rfc3339(line.charge_end),
            period=period_of(billed).name,
            chip_seconds=line.chip_seconds,
            vm_seconds=line.vm_seconds,
            unit="vm_hour" if line.is_vm else "chip_hour",
            price_id=line.price_id,
            reservation_id=line.reservation_id,
            usd_per_chip_hour=format_usd(line.price_nanos),
            list_usd_per_chip_hour=usd_or_none(line.list_price_nanos),
            amount=format_usd(line.amount_nanos),
            list_amount=usd_or_none(line.list_nanos),
            currency=line.currency,
            posted_at=to_rfc3339(line.posted_at),
        )


class EntryPage(Page):
    """A page of a node's ledger, in the order in which it was posted."""

    entries: tuple[EntryView, ...]
