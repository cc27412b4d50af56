"""Reservations by the calendar over HTTP: record what was bought, and show what its used and its
unused part cost."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query, Response
from pydantic import AfterValidator, Field

from service.api.http.deps import ExplanationsDep, ReservationsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Body,
    Instant,
    Line,
    Name,
    NumberedQuery,
    Page,
    PageQuery,
    Time,
    Usd,
    View,
    one_line,
    time_or_none,
    usd_or_none,
)
from service.api.nodes.explanations import ExplanationView
from service.api.nodes.node_views import EntryPage, EntryView
from service.application.pricing.reservations import ReservationStatus
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.metering.reservation import MAX_CHIPS, Reservation, ReservationState
from service.domain.money import format_usd

PATH = "/v1/reservations"
router = Router(prefix=PATH, tags=["costs"])

ReservationId = Annotated[
    str, Path(pattern=r"^[0-9a-f-]{36}$", description="Its id, from the list of reservations.")
]
Count = Annotated[int, Field(strict=True, ge=1, le=MAX_CHIPS)]


class ReservationRequest(Body):
    """A calendar-mode reservation that was bought from Google, as its buyer knows it."""

    name: Annotated[str, Field(min_length=1, max_length=80), AfterValidator(one_line)] = Field(
        description="That of the reservation at Google, which a node names to run in it.",
        examples=["autumn"],
    )
    project: Name = Field(
        default="", description="The first of this service's by default.", examples=["lab"]
    )
    zone: Name = Field(examples=["us-west4-a"])
    generation: Name = Field(description="v5e or later: what Google sells so.", examples=["v5e"])
    chips: Count = Field(description="Chips, not cores.", examples=[64])
    starts_at: Instant = Field(
        description="It is paid for from this time or date on.",
        examples=["2026-12-01T00:00:00Z"],
    )
    ends_at: Instant = Field(
        description="When it ends, exclusive; 1 to 90 days after its start.",
        examples=["2026-12-15T00:00:00Z"],
    )
    owner: Name = Field(
        default="", description="Who is charged for what nobody uses.", examples=["ada"]
    )
    team: Name = Field(default="", description="And which team.", examples=["infra"])
    labels: Annotated[dict[Name, Line], Field(max_length=100)] = Field(
        default_factory=dict, description="By which its costs can be grouped.", examples=[{}]
    )

    def to_reservation(self) -> Reservation:
        """The reservation in terms of the domain, without its id and the time of the record."""
        return Reservation(
            id="",
            name=self.name,
            project=self.project,
            zone=self.zone,
            generation=self.generation,
            chips=self.chips,
            start=parse_instant_or_date(self.starts_at),
            end=parse_instant_or_date(self.ends_at),
            owner=self.owner,
            team=self.team,
            labels=self.labels,
        )


class WithdrawQuery(Body):
    """Why a record is wrong."""

    reason: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)] = Field(
        description="What was wrong with it; kept with the record.", examples=["bought twice"]
    )


class ReservationView(View):
    """A reservation with its cost, used by nodes and unused."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["autumn"])
    project: str = Field(examples=["lab"])
    zone: str = Field(examples=["us-west4-a"])
    generation: str = Field(examples=["v5e"])
    chips: int = Field(examples=[64])
    starts_at: Time
    ends_at: Time
    state: ReservationState
    owner: str = Field(examples=["ada"])
    team: str = Field(examples=["infra"])
    labels: dict[str, str]
    usd_per_chip_hour: Usd | None = Field(
        description="What is paid now, or was or will be at its nearest end; null when not known."
    )
    price_id: str | None = Field(description="Which price that is; null when none is known.")
    cost: Usd = Field(description="So far, of all of it.")
    unused: Usd = Field(description="The part of `cost` that no node is charged for.")
    whole: Usd | None = Field(
        description="Its cost at its end; null where the price of some of it is not known."
    )
    chip_seconds: int = Field(description="Reserved so far.", examples=[230_400])
    unused_chip_seconds: int = Field(description="Of these, those of no node.", examples=[115_200])
    unpriced_seconds: int = Field(
        description="Seconds so far that are in no figure, because their price is unknown."
    )
    recorded_at: Time
    recorded_by: str = Field(examples=["caller"])
    withdrawn_at: Time | None = Field(description="When the record was found to be wrong.")
    reason: str = Field(description="Why it was withdrawn; empty where it stands.", examples=[""])
    as_of: Time

    @classmethod
    def from_status(cls, shown: ReservationStatus) -> ReservationView:
        """The view of a reservation."""
        reservation, price = shown.reservation, shown.price
        return cls(
            id=reservation.id,
            name=reservation.name,
            project=reservation.project,
            zone=reservation.zone,
            generation=reservation.generation,
            chips=reservation.chips,
            starts_at=to_rfc3339(reservation.start),
            ends_at=to_rfc3339(reservation.end),
            state=reservation.state_at(shown.as_of),
            owner=reservation.owner,
            team=reservation.team,
            labels=dict(reservation.labels),
            usd_per_chip_hour=None if price is None else format_usd(price.per_chip_hour),
            price_id=None if price is None else price.id,
            cost=format_usd(shown.cost),
            unused=format_usd(shown.unused),
            whole=usd_or_none(shown.whole),
            chip_seconds=shown.chip_seconds,
            unused_chip_seconds=shown.unused_chip_seconds,
            unpriced_seconds=shown.unpriced_seconds,
            recorded_at=to_rfc3339(reservation.recorded_at),
            recorded_by=reservation.recorded_by,
            withdrawn_at=time_or_none(reservation.withdrawn_at),
            reason=reservation.reason,
            as_of=to_rfc3339(shown.as_of),
        )


class ReservationPage(Page):
    """A page of reservations, the latest to begin first."""

    reservations: tuple[ReservationView, ...]


_RECORDED: dict[int | str, dict[str, Any]] = {
    status: {
        "model": ReservationView,
        "description": said,
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
    for status, said in ((200, "Already recorded"), (201, "Recorded"))
}


@router.post(
    "",
    status_code=201,
    operation_id="record_reservation",
    responses=_RECORDED | may_answer(400, 409, 413, 415, 422),
)
def record_reservation(
    body: ReservationRequest, reservations: ReservationsDep, response: Response
) -> ReservationView:
    """Record a reservation. The past counts as well.

    Nodes on reserved capacity of the generation in its zone, which name it or none, are charged its
    price; what they leave is charged to its owner and team. An identical request changes nothing,
    and is answered with 200.
    """
    done = reservations.record(body.to_reservation())
    response.headers["Location"] = f"{PATH}/{done.shown.reservation.id}"
    if not done.created:
        response.status_code = 200
    return ReservationView.from_status(done.shown)


@router.get("", operation_id="list_reservations", responses=may_answer(422, 503))
def list_reservations(
    reservations: ReservationsDep, query: Annotated[PageQuery, Query()]
) -> ReservationPage:
    """Every reservation that was ever recorded, with its cost."""
    page, token = query.cut_page(reservations.list_all())
    return ReservationPage(
        reservations=tuple(map(ReservationView.from_status, page)), next_page_token=token
    )


@router.get(
    "/{reservation_id}", operation_id="get_reservation", responses=may_answer(404, 422, 503)
)
def get_reservation(
    reservation_id: ReservationId, reservations: ReservationsDep
) -> ReservationView:
    """One reservation, with its cost."""
    return ReservationView.from_status(reservations.get(reservation_id))


@router.delete(
    "/{reservation_id}", operation_id="withdraw_reservation", responses=may_answer(404, 422)
)
def withdraw_reservation(
    reservation_id: ReservationId,
    reservations: ReservationsDep,
    query: Annotated[WithdrawQuery, Query()],
) -> ReservationView:
    """Withdraw a wrong record. The record is kept with the reason, and charges nothing from now on.

    Its charges are reversed in months that are open, and corrected for months that are closed. A
    second withdrawal changes nothing. The reservation at Google stays as it is.
    """
    return ReservationView.from_status(reservations.withdraw(reservation_id, query.reason))


@router.get(
    "/{reservation_id}/ledger",
    operation_id="list_reservation_ledger",
    responses=may_answer(404, 422),
)
def list_reservation_ledger(
    reservation_id: ReservationId,
    reservations: ReservationsDep,
    query: Annotated[NumberedQuery, Query()],
) -> EntryPage:
    """List the ledger entries for the unused part of a reservation, oldest first."""
    found = reservations.list_ledger_lines(reservation_id, query.after_number, query.one_more)
    page, token = query.cut_page(found, [line.id for line in found])
    return EntryPage(entries=tuple(map(EntryView.from_line, page)), next_page_token=token)


@router.get(
    "/{reservation_id}/ledger/{number}",
    operation_id="explain_reservation_entry",
    responses=may_answer(404, 422),
)
def explain_reservation_entry(
    reservation_id: ReservationId,
    number: Annotated[int, Path(ge=1, le=2**62)],
    reservations: ReservationsDep,
    explanations: ExplanationsDep,
) -> ExplanationView:
    """One line of its ledger, down to its price and to what of it nodes used."""
    reservations.get_record(reservation_id)
    return ExplanationView.from_explanation(explanations.explain_line(reservation_id, number))
