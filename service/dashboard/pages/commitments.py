"""The page of committed-use discounts: the used part of each, its nodes, and the savings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from service.application.pricing.commitments import CommitmentReport, CommitmentStatus
from service.application.services import Services
from service.dashboard.kit.amounts import chip_hours
from service.dashboard.kit.cost_query import last_month
from service.dashboard.kit.figures import Moment, count, duration, exact, moment, money
from service.dashboard.kit.links import home_of_node
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.pages.spend_chart import share
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


def commitments_of(services: Services, window: str) -> CommitmentsPage:
    """The page of a window, up to now. The month to date stands in for a window that is invalid."""
    problem = ""
    try:
        report = services.commitments.usage(window)
    except Rejected as error:
        problem, window = f"{error}.", DEFAULT
        report = services.commitments.usage(window)
    found, total = report.usage, report.usage.total
    known = sorted(
        services.commitments.all(),
        key=lambda shown: _ORDER.index(shown.commitment.state(shown.as_of)),
    )
    standings = {standing.priced.commitment.id: standing for standing in found.standings}
    teams = sorted(found.by_team().items(), key=lambda item: (-item[1].amortised, item[0]))
    return CommitmentsPage(
        windows=tuple(
            WindowChoice(name, f"/commitments?window={choice}", window == choice)
            for choice, name in (*_WINDOWS, last_month(report.as_of))
        ),
        start=moment(found.window.start),
        end=moment(found.window.end),
        rows=tuple(
            row_of(shown, standings.get(shown.commitment.id), report.names)
            for shown in known[:SHOWN]
        ),
        left_out=max(0, len(known) - SHOWN),
        teams=tuple(_build_team_row(name or "no team", figures) for name, figures in teams),
        total=_build_team_row("Total", total),
        fee=money(found.fee),
        unused=money(found.unused),
        saving=money(found.saving),
        sums=tuple(_describe_sums(report)),
        problem=problem,
        json=f"/v1/commitments/usage?window={quote(window, safe=',:')}",
        as_of=moment(report.as_of),
    )


def row_of(
    shown: CommitmentStatus, standing: CommitmentStanding | None, names: Mapping[str, str]
) -> CommitmentRow:
    """The row of a commitment."""
    commitment = shown.commitment
    tone, verdict = _describe_state(shown, standing)
    chips = count(commitment.chips, f"{commitment.generation} chip")
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
        start=moment(commitment.start),
        end=moment(commitment.end),
        rate=NOT_KNOWN if shown.rate is None else exact(shown.rate),
        whole=NOT_KNOWN if shown.whole is None else money(shown.whole),
        figures=None if standing is None else _build_figures(standing, names),
        withdrawn=None if commitment.withdrawn_at is None else moment(commitment.withdrawn_at),
        reason=commitment.reason,
        doubt=_UNPRICED if shown.rate is None and not is_gone else "",
    )


_UNPRICED = (
    "No rate is known for the first second of its term, so it is in no figure here. It is not free:"
    " withdraw the record and add it again with the rate of your contract."
)


def _describe_state(
    shown: CommitmentStatus, standing: CommitmentStanding | None
) -> tuple[str, str]:
    """The sign and the words for the state of a commitment."""
    commitment, now = shown.commitment, shown.as_of
    match commitment.state(now):
        case CommitmentState.PLANNED:
            return "coming", f"begins in {duration(commitment.start - now)}"
        case CommitmentState.RUNNING:
            loses = standing is not None and standing.saving < 0
            tone = "trouble" if shown.rate is None or loses else "up"
            return tone, f"running, {duration(commitment.end - now)} left"
        case CommitmentState.OVER:
            return "still", f"over for {duration(now - commitment.end)}"
        case CommitmentState.WITHDRAWN:
            return "still", "withdrawn"


def _build_figures(standing: CommitmentStanding, names: Mapping[str, str]) -> CommitmentFigures:
    covered, committed = standing.covered, standing.committed
    users = sorted(standing.users.items(), key=lambda item: (-item[1].cost, item[0]))
    used_share = share(covered.chip_seconds, committed)
    unused_share = share(standing.unused_chip_seconds, committed)
    loss = ""
    if standing.saving < 0:
        why = "Its rate is above what usage is charged"
        if unused_share:
            why = f"{unused_share} of it was not used"
        loss = (
            f"It lost {money(-standing.saving)} in this time: the fee is"
            f" {money(standing.fee)}, and what it covered would have cost"
            f" {money(covered.avoided)} without it. {why}."
        )
    return CommitmentFigures(
        fee=money(standing.fee),
        used=covered.chip_seconds * WIDTH // committed,
        used_share=used_share,
        used_cost=money(covered.cost),
        unused=money(standing.unused),
        unused_share=unused_share,
        coverage=share(covered.chip_seconds, standing.eligible) or "none",
        saving=money(standing.saving),
        bar_words=f"{used_share or 'nothing'} of what was committed was used",
        loss=loss,
        users=tuple(
            CoveredRow(
                name=names.get(node_id, node_id),
                href=home_of_node(node_id),
                team=team,
                chip_hours=chip_hours(part.chip_seconds),
                share=share(part.chip_seconds, committed),
                cost=money(part.cost),
            )
            for (node_id, team), part in users[:USERS_SHOWN]
        ),
        more_users=max(0, len(users) - USERS_SHOWN),
    )


def _build_team_row(name: str, figures: CoverageFigures) -> TeamRow:
    return TeamRow(
        name=name,
        charged=money(figures.charged),
        avoided=money(figures.covered.avoided),
        covered=money(figures.covered.cost),
        amortised=money(figures.amortised),
        coverage=share(figures.covered.chip_seconds, figures.eligible) or "none",
    )


def _describe_sums(report: CommitmentReport) -> Iterable[str]:
    """The value of all commitments together, in sentences that can be checked by hand."""
    found = report.usage
    if not found.standings:
        return
    saved, avoided = found.saving, found.total.covered.avoided
    word = "saved" if saved >= 0 else "lost"
    yield (
        f"Together they {word} {money(abs(saved))}: what they cover was charged"
        f" {money(avoided)}, and the fees are {money(found.fee)}."
    )
    if found.unused > 0 and any(standing.unused_chip_seconds for standing in found.standings):
        yield f"Of the fees {money(found.unused)} covers nothing."
