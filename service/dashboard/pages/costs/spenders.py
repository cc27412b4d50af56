"""Who spends: the teams or owners with the highest cost, and the change to the time before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.application.costs.costs import CostQuestion, CostReport
from service.application.services import Services
from service.dashboard.kit.cost_query import CostsAsked
from service.dashboard.kit.figures import format_count, format_units, to_moment
from service.dashboard.kit.visible_text import escape_invisible
from service.dashboard.pages.costs.spend_chart import WINDOWS, format_shares
from service.domain.clock import to_rfc3339
from service.domain.costs.display_rounding import places_for, round_table, unit_for
from service.domain.time_window import Granularity, window_before, zone_of

SHOWN = 5
_NOBODY = {"team": "no team", "owner": "no owner"}


@dataclass(frozen=True, slots=True)
class Spender:
    """One line: the name, the cost, its share of all, the change to the time before, and the page
    of the details (empty for the line of all others)."""

    name: str
    cost: str
    share: str
    change: str
    href: str


@dataclass(frozen=True, slots=True)
class Spenders:
    """The lines; their shown amounts add up to `total`. `by` is `team` or `owner`; the time
    before is as long, and begins on the date `before`. `most` says who spends most, in a sentence;
    empty if nobody spends."""

    by: str
    rows: tuple[Spender, ...]
    total: str
    before: str
    most: str


def build_spenders(services: Services, window: str) -> Spenders:
    """The spenders of a window by team; by owner where nothing has a team."""
    by_team, by_owner = services.costs.report_all(
        CostQuestion(window=window, aggregate=("team",), step=Granularity.ALL),
        CostQuestion(window=window, aggregate=("owner",), step=Granularity.ALL),
    )
    now = _sum_groups(by_team)
    by, report = ("team", by_team) if set(now) - {""} else ("owner", by_owner)
    now = _sum_groups(report)
    earlier = window_before(report.window, zone_of("UTC"))
    edges = f"{to_rfc3339(earlier.start)},{to_rfc3339(earlier.end)}"
    question = CostQuestion(window=edges, aggregate=(by,), step=Granularity.ALL)
    before = _sum_groups(services.costs.report(question))

    ranked = sorted(now, key=lambda name: (-now[name], name))
    named, others = ranked[:SHOWN], ranked[SHOWN:]
    amounts = [now[name] for name in named] + (
        [sum(now[name] for name in others)] if others else []
    )
    amounts_before = [before.get(name, 0) for name in named] + (
        [sum(before.get(name, 0) for name in others)] if others else []
    )
    total = sum(amounts)
    places = places_for(total)
    (shown,) = round_table([amounts], unit_for(places), 0) if amounts else ([],)
    shares = format_shares(amounts)
    asked = CostsAsked(window, (by,), Granularity.ALL)
    rows = []
    for number, (nanos, units, old) in enumerate(zip(amounts, shown, amounts_before, strict=True)):
        is_named = number < len(named)
        name = (named[number] or _NOBODY[by]) if is_named else format_count(len(others), "other")
        href = asked.drill_into(by, named[number]).page if is_named else asked.page
        rows.append(
            Spender(
                name,
                format_units(units, places),
                shares[number],
                describe_change(nanos, old),
                href,
            )
        )
    since = f"the same time before, from {to_moment(earlier.start).date}"
    most = ""
    if named and now[named[0]] > 0:
        who = escape_invisible(named[0]) or _NOBODY[by]
        most = f"{who} spends most: {shares[0]} in {WINDOWS[window]}"
    return Spenders(by, tuple(rows), format_units(sum(shown), places), since, most)


def _sum_groups(report: CostReport) -> Mapping[str, int]:
    totals: dict[str, int] = {}
    for row in report.rows:
        totals[row.group[0]] = totals.get(row.group[0], 0) + row.cost
    return totals


def describe_change(now: int, before: int) -> str:
    """The change in whole percent with a sign that needs no colour; `new` where there was nothing
    before, `unchanged` below one percent, and no exact number from a hundred times on."""
    if before <= 0:
        return "new" if now > 0 else ""
    percent = (200 * (now - before) + before) // (2 * before)
    if percent == 0:
        return "unchanged"
    if percent >= 1_000:
        times = (now + before // 2) // before
        return f"\N{BLACK UP-POINTING TRIANGLE} {f'{times}' if times <= 100 else 'over 100'} times"
    sign = "\N{BLACK UP-POINTING TRIANGLE}" if percent > 0 else "\N{BLACK DOWN-POINTING TRIANGLE}"
    return f"{sign} {abs(percent):,} %"
