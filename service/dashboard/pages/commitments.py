"""The page of committed-use discounts: how much of each is used, by whom, and what it is worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from service.application.pricing.commitments import CommitmentReport, CommitmentStatus
from service.application.services import Services
from service.dashboard.kit.amounts import chip_hours
from service.dashboard.kit.cost_query import month_window
from service.dashboard.kit.figures import Moment, count, duration, exact, moment, money
from service.dashboard.kit.links import home_of_node
from service.dashboard.kit.node_rows import NOT_KNOWN
from service.dashboard.pages.spend_chart import share
from service.domain.billing_period import period_of
from service.domain.commitments.commitment import CommitmentState
from service.domain.commitments.standing import CommitmentStanding, CoverageFigures
from service.domain.errors import Rejected

SHOWN = 100
"""Commitments on the page; the command line lists all."""

USERS_SHOWN = 10
"""Nodes that are named of one commitment; the API lists all."""

WIDTH = 1_000
"""Units that a bar is drawn in: all that was committed in the window."""

DEFAULT = "mtd"

_ORDER = tuple(CommitmentState[name] for name in ("RUNNING", "PLANNED", "OVER", "WITHDRAWN"))


@dataclass(frozen=True, slots=True)
class WindowChoice:
    """A window that can be looked at, and whether it is the one that is shown."""

    name: str
    href: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class CoveredRow:
    """What a commitment covers of one node; no address for those that are not named."""

    name: str
    href: str
    team: str
    chip_hours: str
    share: str
    cost: str


@dataclass(frozen=True, slots=True)
class CommitmentFigures:
    """A commitment in the window; `used` is how much of the bar of WIDTH is filled. `loss` is empty
    where the commitment saves money."""

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
    """One commitment in words; `figures` is None where nothing of its term is in the window, or no
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
    """What a team was charged, and what its usage costs after commitments."""

    name: str
    charged: str
    avoided: str
    covered: str
    amortised: str
    coverage: str


@dataclass(frozen=True, slots=True)
class CommitmentsPage:
    """Everything on the page; `problem` says what is wrong with the window that was asked for."""

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
    """The page of a window, up to now; of the month so far where the window makes no sense."""
    problem = ""
    try:
        report = services.commitments.usage(window)
    except Rejected as error:
        problem, window = f"{error}.", DEFAULT
        report = services.commitments.usage(window)
    found = report.usage
    known = sorted(services.commitments.all(), key=_place)
    standings = {one.priced.commitment.id: one for one in found.standings}
    total = found.total
    return CommitmentsPage(
        windows=tuple(_windows(window, report.as_of)),
        start=moment(found.window.start),
        end=moment(found.window.end),
        rows=tuple(
            row_of(shown, standings.get(shown.commitment.id), report.names)
            for shown in known[:SHOWN]
        ),
        left_out=max(0, len(known) - SHOWN),
        teams=tuple(_team(name or "no team", one) for name, one in _by_cost(found.by_team())),
        total=_team("Total", total),
        fee=money(found.fee),
        unused=money(found.unused),
        saving=money(found.saving),
        sums=tuple(_sums(report)),
        problem=problem,
        json=f"/v1/commitments/usage?window={quote(window, safe=',:')}",
        as_of=moment(report.as_of),
    )


def _place(shown: CommitmentStatus) -> int:
    return _ORDER.index(shown.commitment.state(shown.as_of))


def _windows(window: str, now: int) -> Iterator[WindowChoice]:
    last = period_of(period_of(now).start - 1)
    for one, name in (
        ("24h", "24 hours"),
        ("7d", "7 days"),
        (DEFAULT, "month to date"),
        (month_window(last), moment(last.start).date.partition(" ")[2]),
    ):
        yield WindowChoice(name, f"/commitments?window={one}", window == one)


def row_of(
    shown: CommitmentStatus, standing: CommitmentStanding | None, names: Mapping[str, str]
) -> CommitmentRow:
    """A commitment in words."""
    one = shown.commitment
    tone, verdict = _verdict(shown, standing)
    scope = f"project {one.project}" if one.project else "every project of the billing account"
    is_gone = one.withdrawn_at is not None
    return CommitmentRow(
        id=one.id,
        name=one.name,
        what=f"{count(one.chips, one.generation + ' chip')} in {one.region} for {scope}",
        whose=", ".join(name for name in (one.team, one.owner) if name),
        tone=tone,
        verdict=verdict,
        start=moment(one.start),
        end=moment(one.end),
        rate=NOT_KNOWN if shown.rate is None else exact(shown.rate),
        whole=NOT_KNOWN if shown.whole is None else money(shown.whole),
        figures=None if standing is None else _figures(standing, names),
        withdrawn=None if one.withdrawn_at is None else moment(one.withdrawn_at),
        reason=one.reason,
        doubt=_UNPRICED if shown.rate is None and not is_gone else "",
    )


_UNPRICED = (
    "No rate is known for the first second of its term, so it is in no figure here. It is not free:"
    " withdraw the record and add it again with the rate of your contract."
)


def _verdict(shown: CommitmentStatus, standing: CommitmentStanding | None) -> tuple[str, str]:
    """The sign and the words for where it stands."""
    one, now = shown.commitment, shown.as_of
    match one.state(now):
        case CommitmentState.PLANNED:
            return "coming", f"begins in {duration(one.start - now)}"
        case CommitmentState.RUNNING:
            loses = standing is not None and standing.saving < 0
            tone = "trouble" if shown.rate is None or loses else "up"
            return tone, f"running, {duration(one.end - now)} left"
        case CommitmentState.OVER:
            return "still", f"over for {duration(now - one.end)}"
        case CommitmentState.WITHDRAWN:
            return "still", "withdrawn"


def _figures(one: CommitmentStanding, names: Mapping[str, str]) -> CommitmentFigures:
    covered = one.covered
    users = sorted(one.users.items(), key=lambda item: (-item[1].cost, item[0]))
    used_share = share(covered.chip_seconds, one.committed)
    return CommitmentFigures(
        fee=money(one.fee),
        used=covered.chip_seconds * WIDTH // one.committed,
        used_share=used_share,
        used_cost=money(covered.cost),
        unused=money(one.unused),
        unused_share=share(one.unused_chip_seconds, one.committed),
        coverage=share(covered.chip_seconds, one.eligible) or "none",
        saving=money(one.saving),
        bar_words=f"{used_share or 'nothing'} of what was committed was used",
        loss=_loss(one),
        users=tuple(
            CoveredRow(
                name=names.get(node_id, node_id),
                href=home_of_node(node_id),
                team=team,
                chip_hours=chip_hours(part.chip_seconds),
                share=share(part.chip_seconds, one.committed),
                cost=money(part.cost),
            )
            for (node_id, team), part in users[:USERS_SHOWN]
        ),
        more_users=max(0, len(users) - USERS_SHOWN),
    )


def _loss(one: CommitmentStanding) -> str:
    """A sentence where the fee is more than what was avoided."""
    if one.saving >= 0:
        return ""
    unused = share(one.unused_chip_seconds, one.committed)
    why = f"{unused} of it was not used" if unused else "its rate is above what usage is charged"
    return (
        f"It lost {money(-one.saving)} in this time: the fee is {money(one.fee)}, and what it"
        f" covered would have cost {money(one.covered.avoided)} without it. {why[0].upper()}"
        f"{why[1:]}."
    )


def _by_cost(teams: Mapping[str, CoverageFigures]) -> Sequence[tuple[str, CoverageFigures]]:
    return sorted(teams.items(), key=lambda item: (-item[1].amortised, item[0]))


def _team(name: str, one: CoverageFigures) -> TeamRow:
    return TeamRow(
        name=name,
        charged=money(one.charged),
        avoided=money(one.covered.avoided),
        covered=money(one.covered.cost),
        amortised=money(one.amortised),
        coverage=share(one.covered.chip_seconds, one.eligible) or "none",
    )


def _sums(report: CommitmentReport) -> Iterable[str]:
    """What all commitments are worth, in sentences that can be checked by hand."""
    found = report.usage
    if not found.standings:
        return
    saved, avoided = found.saving, found.total.covered.avoided
    word = "saved" if saved >= 0 else "lost"
    yield (
        f"Together they {word} {money(abs(saved))}: what they cover was charged {money(avoided)},"
        f" and the fees are {money(found.fee)}."
    )
    if found.unused > 0 and any(one.unused_chip_seconds for one in found.standings):
        yield f"Of the fees {money(found.unused)} covers nothing."
