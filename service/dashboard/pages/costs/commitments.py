"""The page of committed-use discounts: the used part of each, its nodes, and the savings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from service.application.pricing.commitments import CommitmentStatus
from service.application.services import Services
from service.dashboard.kit.amounts import format_chip_hours
from service.dashboard.kit.cost_query import last_month
from service.dashboard.kit.figures import (
    Moment,
    format_count,
    format_exact,
    format_money,
    to_moment,
)
from service.dashboard.kit.links import node_address
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.pages.costs.reservations import describe_term
from service.dashboard.pages.costs.spend_chart import format_share
from service.domain.commitments.commitment import CommitmentState
from service.domain.commitments.standing import CommitmentStanding, CoverageFigures
from service.domain.errors import Rejected

SHOWN = 100
"""The most commitments on the page; the command line lists all."""

USERS_SHOWN = 10
"""The most nodes that are named of one commitment; the API lists all."""

WIDTH = 1_000
"""Units of a bar: its whole width is all that was committed in the window."""

DEFAULT = "mtd"
_WINDOWS = ("24h", "24 hours"), ("7d", "7 days"), (DEFAULT, "month to date")

_ORDER = tuple(CommitmentState[name] for name in ("RUNNING", "PLANNED", "OVER", "WITHDRAWN"))


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """A window that a visitor can choose; `chosen` is True for the one that is shown."""

    name: str
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class CoveredRow:
    """The part of a commitment that covers one node. `href` is the page of the node."""

    name: str
    href: str
    team: str
    chip_hours: str
    share: str
    cost: str


@dataclass(frozen=True, slots=True)
class CommitmentFigures:
    """A commitment in the window. `used` is the filled part of the bar, in parts of WIDTH. `loss`
    is empty if the commitment saves money."""

    fee: str
    used: int
    used_share: str
    used_cost: str
    unused: str
    unused_share: str
    coverage: str
    saving: str
    bar_words: str
    loss: str
    users: tuple[CoveredRow, ...]
    more_users: int


@dataclass(frozen=True, slots=True)
class CommitmentRow:
    """One commitment in words. `figures` is None if nothing of its term is in the window, or if no
    rate is known."""

    id: str
    name: str
    what: str
    whose: str
    tone: str
    verdict: str
    start: Moment
    end: Moment
    rate: str
    whole: str
    figures: CommitmentFigures | None
    withdrawn: Moment | None
    reason: str
    doubt: str


@dataclass(frozen=True, slots=True)
class TeamRow:
    """The charges of a team, and the cost of its usage after commitments."""

    name: str
    charged: str
    avoided: str
    covered: str
    amortised: str
    coverage: str


@dataclass(frozen=True, slots=True)
class CommitmentsPage:
    """Everything on the page. `problem` says what is wrong with the requested window."""

    windows: tuple[WindowChoice, ...]
    start: Moment
    end: Moment
    rows: tuple[CommitmentRow, ...]
    left_out: int
    teams: tuple[TeamRow, ...]
    total: TeamRow
    fee: str
    unused: str
    saving: str
    sums: tuple[str, ...]
    problem: str
    json: str
    as_of: Moment


def build_commitments_page(services: Services, window: str) -> CommitmentsPage:
    """The page of a window, up to now. The month to date stands in for a window that is invalid."""
    problem = ""
    try:
        report = services.commitments.report_usage(window)
    except Rejected as error:
        problem, window = f"{error}.", DEFAULT
        report = services.commitments.report_usage(window)
    found, total = report.usage, report.usage.total_figures
    known = sorted(
        services.commitments.list_all(),
        key=lambda shown: _ORDER.index(shown.commitment.state_at(shown.as_of)),
    )
    standings = {standing.priced.commitment.id: standing for standing in found.standings}
    teams = sorted(found.by_team().items(), key=lambda item: (-item[1].amortised_cost, item[0]))
    # The value of all commitments together, in sentences that can be checked by hand.
    sums = []
    if found.standings:
        word = "saved" if found.saving >= 0 else "lost"
        sums.append(
            f"Together they {word} {format_money(abs(found.saving))}: what they cover was charged"
            f" {format_money(total.covered.avoided)}, and the fees are {format_money(found.fee)}."
        )
    if found.unused_fee > 0 and any(standing.unused_chip_seconds for standing in found.standings):
        sums.append(f"Of the fees {format_money(found.unused_fee)} covers nothing.")
    return CommitmentsPage(
        windows=tuple(
            WindowChoice(name, f"/commitments?window={choice}", window == choice)
            for choice, name in (*_WINDOWS, last_month(report.as_of))
        ),
        start=to_moment(found.window.start),
        end=to_moment(found.window.end),
        rows=tuple(
            build_commitment_row(shown, standings.get(shown.commitment.id), report.names)
            for shown in known[:SHOWN]
        ),
        left_out=max(0, len(known) - SHOWN),
        teams=tuple(_build_team_row(name or "no team", figures) for name, figures in teams),
        total=_build_team_row("Total", total),
        fee=format_money(found.fee),
        unused=format_money(found.unused_fee),
        saving=format_money(found.saving),
        sums=tuple(sums),
        problem=problem,
        json=f"/v1/commitments/usage?window={quote(window, safe=',:')}",
        as_of=to_moment(report.as_of),
    )


def build_commitment_row(
    shown: CommitmentStatus, standing: CommitmentStanding | None, names: Mapping[str, str]
) -> CommitmentRow:
    """The row of a commitment."""
    commitment = shown.commitment
    is_loss = standing is not None and standing.saving < 0
    is_trouble = shown.rate is None or is_loss
    tone, verdict = describe_term(commitment, shown.as_of, is_trouble=is_trouble)
    chips = format_count(commitment.chips, f"{commitment.generation} chip")
    scope = "every project of the billing account"
    if commitment.project:
        scope = f"project {commitment.project}"
    is_gone = commitment.withdrawn_at is not None
    return CommitmentRow(
        id=commitment.id,
        name=commitment.name,
        what=f"{chips} in {commitment.region} for {scope}",
        whose=", ".join(name for name in (commitment.team, commitment.owner) if name),
        tone=tone,
        verdict=verdict,
        start=to_moment(commitment.start),
        end=to_moment(commitment.end),
        rate=NOT_KNOWN if shown.rate is None else format_exact(shown.rate),
        whole=NOT_KNOWN if shown.whole is None else format_money(shown.whole),
        figures=None if standing is None else _build_figures(standing, names),
        withdrawn=None if commitment.withdrawn_at is None else to_moment(commitment.withdrawn_at),
        reason=commitment.reason,
        doubt=_UNPRICED if shown.rate is None and not is_gone else "",
    )


_UNPRICED = (
    "No rate is known for the first second of its term, so it is in no figure here. It is not free:"
    " withdraw the record and add it again with the rate of your contract."
)


def _build_figures(standing: CommitmentStanding, names: Mapping[str, str]) -> CommitmentFigures:
    covered, committed = standing.total_covered, standing.committed
    users = sorted(standing.users.items(), key=lambda item: (-item[1].cost, item[0]))
    used_share = format_share(covered.chip_seconds, committed)
    unused_share = format_share(standing.unused_chip_seconds, committed)
    loss = ""
    if standing.saving < 0:
        why = "Its rate is above what usage is charged"
        if unused_share:
            why = f"{unused_share} of it was not used"
        loss = (
            f"It lost {format_money(-standing.saving)} in this time: the fee is"
            f" {format_money(standing.fee)}, and what it covered would have cost"
            f" {format_money(covered.avoided)} without it. {why}."
        )
    return CommitmentFigures(
        fee=format_money(standing.fee),
        used=covered.chip_seconds * WIDTH // committed,
        used_share=used_share,
        used_cost=format_money(covered.cost),
        unused=format_money(standing.unused_fee),
        unused_share=unused_share,
        coverage=format_share(covered.chip_seconds, standing.eligible) or "none",
        saving=format_money(standing.saving),
        bar_words=f"{used_share or 'nothing'} of what was committed was used",
        loss=loss,
        users=tuple(
            CoveredRow(
                name=names.get(node_id, node_id),
                href=node_address(node_id),
                team=team,
                chip_hours=format_chip_hours(part.chip_seconds),
                share=format_share(part.chip_seconds, committed),
                cost=format_money(part.cost),
            )
            for (node_id, team), part in users[:USERS_SHOWN]
        ),
        more_users=max(0, len(users) - USERS_SHOWN),
    )


def _build_team_row(name: str, figures: CoverageFigures) -> TeamRow:
    return TeamRow(
        name=name,
        charged=format_money(figures.charged),
        avoided=format_money(figures.covered.avoided),
        covered=format_money(figures.covered.cost),
        amortised=format_money(figures.amortised_cost),
        coverage=format_share(figures.covered.chip_seconds, figures.eligible) or "none",
    )
