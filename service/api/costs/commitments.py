"""Routes of committed-use discounts and their coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import Path, Query, Response
from pydantic import AfterValidator, Field

from service.api.costs.costs import WindowView
from service.api.http.deps import CommitmentsDep
from service.api.http.problems import may_answer
from service.api.http.routing import Router
from service.api.http.schemas import (
    Body,
    Instant,
    Line,
    Name,
    Page,
    PageQuery,
    Time,
    Usd,
    UsdText,
    View,
    WindowText,
    one_line,
    schema_extra,
    time_or_none,
    usd_or_none,
    whole_pattern,
)
from service.application.pricing.commitments import CommitmentReport, CommitmentStatus
from service.domain.clock import parse_instant_or_date, to_rfc3339
from service.domain.commitments.commitment import (
    MAX_CHIPS,
    NAME,
    Commitment,
    CommitmentState,
    Term,
)
from service.domain.commitments.standing import CommitmentStanding, CoverageFigures
from service.domain.money import NANOS, format_usd, half_even, parse_usd

PATH = "/v1/commitments"
router = Router(prefix=PATH, tags=["costs"])

CommitmentId = Annotated[UUID, Path(description="Its id, from the list of commitments.")]
ChipCount = Annotated[int, Field(strict=True, ge=1, le=MAX_CHIPS)]
Fraction = Annotated[
    str,
    Field(description="From 0 to 1, with nine places.", examples=["0.875000000"]),
    schema_extra(pattern=whole_pattern(r"[01]\.[0-9]{9}")),
]
RateOrigin = Literal["list", "contract"]


class CommitmentRequest(Body):
    """A committed-use discount as its buyer knows it."""

    name: Annotated[
        str,
        Field(min_length=1, max_length=80),
        AfterValidator(one_line),
        schema_extra(pattern=whole_pattern(NAME)),
    ] = Field(description="The name of the commitment at Google.", examples=["base-2026"])
    project: Name = Field(
        default="",
        description="The project that pays, whose usage alone is covered. Empty: usage of every"
        " project of the billing account is covered.",
        examples=["lab"],
    )
    region: Name = Field(description="Any zone of it is covered.", examples=["us-west4"])
    generation: Name = Field(examples=["v5e"])
    chips: ChipCount = Field(description="Chips, not cores.", examples=[64])
    term: Term = Field(description="One or three calendar years.", examples=["1y"])
    starts_at: Instant = Field(
        description="The start of the term: a time, or a date in UTC.",
        examples=["2026-11-01T00:00:00Z"],
    )
    usd_per_chip_hour: UsdText | None = Field(
        default=None,
        description="The rate of your contract, as a decimal string; the list price at the start"
        " where it is left out.",
        examples=["0.84"],
    )
    owner: Name = Field(default="", description="Who answers for it.", examples=["ada"])
    team: Name = Field(default="", description="And which team.", examples=["infra"])
    labels: Annotated[dict[Name, Line], Field(max_length=100)] = Field(
        default_factory=dict, description="Tags of its rows in an export.", examples=[{}]
    )

    def to_commitment(self) -> Commitment:
        """The commitment in terms of the domain, without its id and the time of the record."""
        return Commitment(
            id="",
            name=self.name,
            project=self.project,
            region=self.region,
            generation=self.generation,
            chips=self.chips,
            term=self.term,
            start=parse_instant_or_date(self.starts_at),
            contract=None if self.usd_per_chip_hour is None else parse_usd(self.usd_per_chip_hour),
            owner=self.owner,
            team=self.team,
            labels=self.labels,
        )


class WithdrawCommitmentQuery(Body):
    """Why a record is wrong."""

    reason: Annotated[str, Field(min_length=1, max_length=200), AfterValidator(one_line)] = Field(
        description="What was wrong with it; kept with the record.", examples=["bought twice"]
    )


class CommitmentView(View):
    """A commitment and its fee, used or not."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["base-2026"])
    project: str = Field(
        description="The project that pays and is covered; empty for the whole billing account.",
        examples=["lab"],
    )
    region: str = Field(examples=["us-west4"])
    generation: str = Field(examples=["v5e"])
    chips: int = Field(examples=[64])
    term: Term
    starts_at: Time
    ends_at: Time = Field(description="The end of the term, which is not part of it.")
    state: CommitmentState
    owner: str = Field(examples=["ada"])
    team: str = Field(examples=["infra"])
    labels: dict[str, str]
    usd_per_chip_hour: Usd | None = Field(
        description="The rate for all of the term; null when none is known. Without a rate the"
        " commitment is in no figure."
    )
    rate_origin: RateOrigin | None = Field(
        description="Whether the rate is of your contract or of the price list; null without one."
    )
    price_id: str | None = Field(
        description="The list price at the start; null when none is known."
    )
    fee: Usd | None = Field(description="Paid so far, used or not; null without a rate.")
    whole_fee: Usd | None = Field(description="Paid for the whole term; null without a rate.")
    recorded_at: Time
    recorded_by: str = Field(examples=["caller"])
    withdrawn_at: Time | None = Field(description="When the record was found to be wrong.")
    reason: str = Field(description="Why it was withdrawn; empty where it stands.", examples=[""])
    as_of: Time

    @classmethod
    def from_status(cls, shown: CommitmentStatus) -> CommitmentView:
        """The view of a commitment."""
        commitment = shown.commitment
        origin: RateOrigin = "list" if commitment.contract is None else "contract"
        return cls(
            id=commitment.id,
            name=commitment.name,
            project=commitment.project,
            region=commitment.region,
            generation=commitment.generation,
            chips=commitment.chips,
            term=commitment.term,
            starts_at=to_rfc3339(commitment.start),
            ends_at=to_rfc3339(commitment.end),
            state=commitment.state_at(shown.as_of),
            owner=commitment.owner,
            team=commitment.team,
            labels=dict(commitment.labels),
            usd_per_chip_hour=usd_or_none(shown.rate),
            rate_origin=None if shown.rate is None else origin,
            price_id=None if shown.listed is None else shown.listed.id,
            fee=usd_or_none(shown.so_far),
            whole_fee=usd_or_none(shown.whole),
            recorded_at=to_rfc3339(commitment.recorded_at),
            recorded_by=commitment.recorded_by,
            withdrawn_at=time_or_none(commitment.withdrawn_at),
            reason=commitment.reason,
            as_of=to_rfc3339(shown.as_of),
        )


class CommitmentPage(Page):
    """A page of commitments, the latest to begin first."""

    commitments: tuple[CommitmentView, ...]


class CommitmentUsageQuery(Body):
    """Which time is asked for."""

    window: WindowText = Field(
        default="mtd",
        description="`7d`, `24h`, `today`, `mtd`, or two instants or dates: `A,B`.",
        examples=["mtd"],
    )
    tz: str = Field(default="UTC", max_length=80, description="The IANA time zone of the calendar.")


class CoveredNodeView(View):
    """What a commitment covers of a node."""

    node_id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(description="The name of the node.", examples=["train"])
    team: str = Field(examples=["vision"])
    chip_seconds: int = Field(description="Covered.", examples=[28_800])
    avoided: Usd = Field(description="What these were charged without the commitment.")
    cost: Usd = Field(description="Their part of the fee.")


class CommitmentStandingView(View):
    """What a commitment covers in the window, and what that is worth."""

    id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(examples=["base-2026"])
    fee: Usd = Field(description="Paid for the window, used or not.")
    used: Usd = Field(description="The part of the fee that covers usage.")
    unused: Usd = Field(description="The part of the fee that covers nothing.")
    avoided: Usd = Field(description="What covered usage was charged without the commitment.")
    net_saving: Usd = Field(
        description="`avoided` less `fee`; negative where the commitment loses money."
    )
    committed_chip_seconds: int = Field(examples=[230_400])
    covered_chip_seconds: int = Field(examples=[115_200])
    unused_chip_seconds: int = Field(examples=[115_200])
    eligible_chip_seconds: int = Field(
        description="On-demand usage that it may cover, in its term.", examples=[115_200]
    )
    utilisation: Fraction | None = Field(
        description="Covered over committed chip-seconds: how much of what is paid is used."
    )
    coverage: Fraction | None = Field(
        description="Covered over eligible chip-seconds; null where nothing eligible ran."
    )
    nodes: tuple[CoveredNodeView, ...] = Field(description="The largest part first.")

    @classmethod
    def from_standing(
        cls, standing: CommitmentStanding, names: Mapping[str, str]
    ) -> CommitmentStandingView:
        """The view of a commitment in a window."""
        its, covered = standing.priced.commitment, standing.total_covered
        return cls(
            id=its.id,
            name=its.name,
            fee=format_usd(standing.fee),
            used=format_usd(covered.cost),
            unused=format_usd(standing.unused_fee),
            avoided=format_usd(covered.avoided),
            net_saving=format_usd(standing.saving),
            committed_chip_seconds=standing.committed,
            covered_chip_seconds=covered.chip_seconds,
            unused_chip_seconds=standing.unused_chip_seconds,
            eligible_chip_seconds=standing.eligible,
            utilisation=_format_fraction(covered.chip_seconds, standing.committed),
            coverage=_format_fraction(covered.chip_seconds, standing.eligible),
            nodes=tuple(
                CoveredNodeView(
                    node_id=node_id,
                    name=names.get(node_id, ""),
                    team=team,
                    chip_seconds=part.chip_seconds,
                    avoided=format_usd(part.avoided),
                    cost=format_usd(part.cost),
                )
                for (node_id, team), part in sorted(
                    standing.users.items(), key=lambda item: (-item[1].cost, item[0])
                )
            ),
        )


class AmortisedView(View):
    """Usage that commitments may cover, before and after them."""

    charged: Usd = Field(description="Without commitments, as the ledger says.")
    avoided: Usd = Field(description="The part of `charged` that commitments cover.")
    covered_cost: Usd = Field(description="The part of the fees for what they cover.")
    amortised: Usd = Field(description="`charged` less `avoided` plus `covered_cost`.")
    eligible_chip_seconds: int = Field(examples=[115_200])
    covered_chip_seconds: int = Field(examples=[115_200])


class AmortisedNodeView(AmortisedView):
    """A node before and after commitments, for one team."""

    node_id: str = Field(examples=["019a9f3e-7a40-7cc1-9e41-0b5f3d6c2a11"])
    name: str = Field(description="The name of the node.", examples=["train"])
    team: str = Field(examples=["vision"])


class AmortisedTeamView(AmortisedView):
    """A team before and after commitments."""

    team: str = Field(description="Empty for usage of no team.", examples=["vision"])


class CommitmentUsageView(View):
    """What commitments cover in a window. `amortised` of all nodes and `unused` together are `fee`
    and what is left to pay, to the nano-dollar."""

    window: WindowView
    fee: Usd = Field(description="Paid for all commitments in the window, used or not.")
    unused: Usd = Field(description="The part of `fee` that covers nothing.")
    net_saving: Usd = Field(description="`avoided` less `fee`; negative where money is lost.")
    total: AmortisedView
    coverage: Fraction | None = Field(description="Covered over eligible chip-seconds of all.")
    commitments: tuple[CommitmentStandingView, ...]
    nodes: tuple[AmortisedNodeView, ...]
    teams: tuple[AmortisedTeamView, ...]
    unpriced: tuple[str, ...] = Field(
        description="Ids of commitments without a known rate: they are in no figure, and not free."
    )
    as_of: Time

    @classmethod
    def from_report(cls, report: CommitmentReport) -> CommitmentUsageView:
        """The view of a report."""
        found, names = report.usage, report.names
        window = WindowView(start=to_rfc3339(found.window.start), end=to_rfc3339(found.window.end))
        total = found.total_figures
        return cls(
            window=window,
            fee=format_usd(found.fee),
            unused=format_usd(found.unused_fee),
            net_saving=format_usd(found.saving),
            total=AmortisedView(**_amortised_fields(total)),
            coverage=_format_fraction(total.covered.chip_seconds, total.eligible),
            commitments=tuple(
                CommitmentStandingView.from_standing(standing, names)
                for standing in found.standings
            ),
            nodes=tuple(
                AmortisedNodeView(
                    node_id=node_id,
                    name=names.get(node_id, ""),
                    team=team,
                    **_amortised_fields(figures),
                )
                for (node_id, team), figures in sorted(found.users.items())
            ),
            teams=tuple(
                AmortisedTeamView(team=team, **_amortised_fields(figures))
                for team, figures in sorted(found.by_team().items())
            ),
            unpriced=tuple(commitment.id for commitment in found.unpriced),
            as_of=to_rfc3339(report.as_of),
        )


def _format_fraction(part: int, whole_: int) -> str | None:
    return None if not whole_ else format_usd(half_even(part * NANOS, whole_))


def _amortised_fields(figures: CoverageFigures) -> dict[str, Any]:
    return {
        "charged": format_usd(figures.charged),
        "avoided": format_usd(figures.covered.avoided),
        "covered_cost": format_usd(figures.covered.cost),
        "amortised": format_usd(figures.amortised_cost),
        "eligible_chip_seconds": figures.eligible,
        "covered_chip_seconds": figures.covered.chip_seconds,
    }


_RECORDED: dict[int | str, dict[str, Any]] = {
    status: {
        "model": CommitmentView,
        "description": said,
        "headers": {"Location": {"schema": {"type": "string"}}},
    }
    for status, said in ((200, "Already recorded"), (201, "Recorded"))
}


@router.post(
    "",
    status_code=201,
    operation_id="record_commitment",
    responses=_RECORDED | may_answer(400, 409, 413, 415, 422),
)
def record_commitment(
    body: CommitmentRequest, commitments: CommitmentsDep, response: Response
) -> CommitmentView:
    """Record a committed-use discount: the TPU API does not list them. The past counts as well.

    On-demand usage of the generation in the region is covered from the first second of the term on.
    The ledger is unchanged: it says what usage costs without commitments. An identical request
    changes nothing, and is answered with 200.
    """
    done = commitments.record(body.to_commitment())
    response.headers["Location"] = f"{PATH}/{done.shown.commitment.id}"
    if not done.created:
        response.status_code = 200
    return CommitmentView.from_status(done.shown)


@router.get("", operation_id="list_commitments", responses=may_answer(422, 503))
def list_commitments(
    commitments: CommitmentsDep, query: Annotated[PageQuery, Query()]
) -> CommitmentPage:
    """List every commitment that was ever recorded, the latest to begin first."""
    page, token = query.cut_page(commitments.list_all())
    return CommitmentPage(
        commitments=tuple(map(CommitmentView.from_status, page)), next_page_token=token
    )


@router.get("/usage", operation_id="report_commitment_usage", responses=may_answer(422, 503))
def report_commitment_usage(
    commitments: CommitmentsDep, query: Annotated[CommitmentUsageQuery, Query()]
) -> CommitmentUsageView:
    """Report what commitments cover in a window, what usage costs after them, and what is unused.

    Usage is covered second by second: the earliest commitment first, each in proportion to the
    chips that run, in whole chips.
    """
    return CommitmentUsageView.from_report(commitments.report_usage(query.window, query.tz))


@router.get(
    "/{commitment_id:uuid}", operation_id="get_commitment", responses=may_answer(404, 422, 503)
)
def get_commitment(commitment_id: CommitmentId, commitments: CommitmentsDep) -> CommitmentView:
    """Get one commitment and its fee."""
    return CommitmentView.from_status(commitments.get(str(commitment_id)))


@router.delete(
    "/{commitment_id:uuid}", operation_id="withdraw_commitment", responses=may_answer(404, 422)
)
def withdraw_commitment(
    commitment_id: CommitmentId,
    commitments: CommitmentsDep,
    query: Annotated[WithdrawCommitmentQuery, Query()],
) -> CommitmentView:
    """Withdraw a wrong record: it is kept with the reason, and counts in no figure any more.

    The second time changes nothing. Nothing is cancelled at Google.
    """
    return CommitmentView.from_status(commitments.withdraw(str(commitment_id), query.reason))
