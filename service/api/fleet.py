"""Routes of the fleet: what runs now with its cost an hour, what is wasted, and what is next."""

from __future__ import annotations

from pydantic import Field

from service.api.http.deps import AttentionDep, HealthDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import Time, Usd, View, time_or_none
from service.application.health import FleetHealth
from service.domain.attention.agenda import Agenda, AgendaEntry, AgendaKind
from service.domain.attention.waste import WasteKind, WasteReport, WasteSource, WasteSum
from service.domain.clock import to_rfc3339
from service.domain.money import format_usd

router = Router(prefix="/v1/fleet", tags=["nodes"])

MOST_SOURCES = 200


class FleetView(View):
    """The fleet as of now. The dashboard, the command line and `/metrics` show the same figures."""

    ready_nodes: int = Field(description="Nodes that are billed.", examples=[4])
    ready_chips: int = Field(description="Their chips.", examples=[32])
    hourly_cost: Usd = Field(
        description="What everything that is billed costs an hour, as far as prices are known:"
        " nodes, the VMs of their users, and reservations whether anything runs in them or not."
    )
    unused_reservations_hourly_cost: Usd = Field(
        description="The part of `hourly_cost` that is paid for reserved chips which no node uses."
    )
    reservations: int = Field(description="Reservations that are paid for now.", examples=[1])
    unpriced_nodes: int = Field(
        description="Billed nodes whose price is not known: they are not in `hourly_cost`.",
        examples=[0],
    )
    coming_nodes: int = Field(
        description="Nodes that are requested or starting, and not billed yet.", examples=[2]
    )
    coming_hourly_cost: Usd = Field(
        description="What they add to `hourly_cost` once they are READY, as far as their prices are"
        " known. Reserved capacity adds nothing, because it is paid already."
    )
    coming_unpriced_nodes: int = Field(
        description="Such nodes whose price is not known: they are not in `coming_hourly_cost`.",
        examples=[0],
    )
    as_of: Time

    @classmethod
    def from_health(cls, fleet: FleetHealth) -> FleetView:
        """The view of the fleet."""
        return cls(
            ready_nodes=fleet.ready,
            ready_chips=fleet.chips,
            hourly_cost=format_usd(fleet.burn),
            unused_reservations_hourly_cost=format_usd(fleet.unused),
            reservations=fleet.reserved,
            unpriced_nodes=fleet.unpriced,
            coming_nodes=fleet.coming.nodes,
            coming_hourly_cost=format_usd(fleet.coming.burn),
            coming_unpriced_nodes=fleet.coming.unpriced,
            as_of=to_rfc3339(fleet.as_of),
        )


class WasteSumView(View):
    """The sum of several sources of waste."""

    number: int = Field(description="The number of sources.", examples=[2])
    hourly_cost: Usd = Field(description="What they cost an hour, as far as prices are known.")
    unpriced: int = Field(description="Sources whose price is not known.", examples=[0])

    @classmethod
    def from_sum(cls, total: WasteSum) -> WasteSumView:
        """The view of a sum."""
        return cls(
            number=total.number, hourly_cost=format_usd(total.hourly), unpriced=total.unpriced
        )


class WasteKindView(WasteSumView):
    """The sum of one kind of waste."""

    kind: WasteKind = Field(description="The kind of waste.")


class WasteSourceView(View):
    """One thing that is paid for and does no work."""

    kind: WasteKind = Field(description="Why it is waste.")
    name: str = Field(
        description="The name of the node; empty for orphans and unused reservations, which are one"
        " source each.",
        examples=["train-7"],
    )
    node_id: str | None = Field(description="The id of the node; null for what is no node.")
    hourly_cost: Usd | None = Field(description="Its cost an hour; null if no price is known.")
    since: Time | None = Field(description="Since when it does no work; null if unknown.")
    kept_until: Time | None = Field(description="The end of the keep that holds it, if any.")

    @classmethod
    def from_source(cls, source: WasteSource) -> WasteSourceView:
        """The view of one source."""
        return cls(
            kind=source.kind,
            name=source.name,
            node_id=source.node_id or None,
            hourly_cost=None if source.hourly is None else format_usd(source.hourly),
            since=time_or_none(source.since),
            kept_until=time_or_none(source.kept_until),
        )


class WasteView(View):
    """What is paid for now and does no work. `unknown` are the nodes of which it is unknown whether
    they work; they are not in `total`."""

    total: WasteSumView
    by_kind: list[WasteKindView] = Field(description="The sum of each kind, also of none.")
    unknown: WasteSumView
    sources: list[WasteSourceView] = Field(
        description="The single sources, the most expensive first, at most 200."
    )
    as_of: Time

    @classmethod
    def from_report(cls, report: WasteReport) -> WasteView:
        """The view of the waste."""
        return cls(
            total=WasteSumView.from_sum(report.total),
            by_kind=[
                WasteKindView(kind=kind, **WasteSumView.from_sum(total).model_dump())
                for kind, total in report.by_kind.items()
            ],
            unknown=WasteSumView.from_sum(report.unknown),
            sources=[
                WasteSourceView.from_source(source) for source in report.sources[:MOST_SOURCES]
            ],
            as_of=to_rfc3339(report.as_of),
        )


class AgendaEntryView(View):
    """One line of the agenda."""

    kind: AgendaKind = Field(description="The subject of the line.")
    subject: str = Field(
        description="The name of the node, budget or project; empty for several.",
        examples=["train-7"],
    )
    subject_id: str | None = Field(description="The id of the node or budget; null for others.")
    text: str = Field(
        description="What it is, in one sentence.",
        examples=["The node is idle, and will be deleted"],
    )
    at: Time | None = Field(
        description="When it happens; null if nothing happens by itself, or while its end waits."
    )
    since: Time | None = Field(description="Since when it has been so; null if unknown.")
    hourly_cost: Usd | None = Field(
        description="The cost an hour that depends on it; null if there is none, or if no price is"
        " known."
    )

    @classmethod
    def from_entry(cls, entry: AgendaEntry) -> AgendaEntryView:
        """The view of one entry."""
        return cls(
            kind=entry.kind,
            subject=entry.subject,
            subject_id=entry.subject_id or None,
            text=entry.text,
            at=time_or_none(entry.at),
            since=time_or_none(entry.since),
            hourly_cost=None if entry.hourly is None else format_usd(entry.hourly),
        )


class AgendaView(View):
    """What a person has to decide, and what happens by itself within a day."""

    needs_person: list[AgendaEntryView] = Field(
        description="What a person has to look at: first what happens at a known time, then the"
        " most expensive. At most 50."
    )
    next: list[AgendaEntryView] = Field(
        description="What happens by itself within 24 hours, the earliest first, then idle nodes"
        " whose end waits. At most 50."
    )
    left_out: int = Field(description="Entries beyond these limits.", examples=[0])
    as_of: Time

    @classmethod
    def from_agenda(cls, agenda: Agenda) -> AgendaView:
        """The view of the agenda."""
        return cls(
            needs_person=[AgendaEntryView.from_entry(entry) for entry in agenda.needs_person],
            next=[AgendaEntryView.from_entry(entry) for entry in agenda.next],
            left_out=agenda.left_out,
            as_of=to_rfc3339(agenda.as_of),
        )


@router.get("", operation_id="get_fleet", responses=may_answer(503))
def get_fleet(health: HealthDep) -> FleetView:
    """What runs now, in all, and what it costs an hour."""
    return FleetView.from_health(health.read_fleet())


@router.get("/waste", operation_id="get_waste", responses=may_answer(503))
def get_waste(attention: AttentionDep) -> WasteView:
    """What is paid for now and does no work: idle nodes, crash loops, unused reservations, failing
    deletions and orphans."""
    return WasteView.from_report(attention.read_waste())


@router.get("/agenda", operation_id="get_agenda", responses=may_answer(503))
def get_agenda(attention: AttentionDep) -> AgendaView:
    """What a person has to decide now, and what happens next by itself."""
    return AgendaView.from_agenda(attention.read_agenda())
