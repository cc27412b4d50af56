"""The form of a question about costs: menus of windows, groups, steps and filters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from service.application.costs.costs import CostReport
from service.dashboard.kit.cost_query import (
    CostsAsked,
    Show,
    dates_of_window,
    last_month,
    window_of_dates,
)
from service.dashboard.pages.costs.breakdown import STEPS, UNNAMED, dimension_title
from service.domain.costs.dimensions import condition_of, only_of
from service.domain.errors import Rejected
from service.domain.time_window import Granularity

MENUS = (
    "project",
    "team",
    "owner",
    "generation",
    "accelerator_type",
    "provisioning_model",
    "zone",
)
"""Dimensions with a menu of the values in the window; the custom query takes every dimension."""

MOST_VALUES = 200
"""The most values of one menu."""

GROUPS = (
    "team",
    "owner",
    "project",
    "job",
    "node",
    "generation",
    "accelerator_type",
    "provisioning_model",
    "zone",
    "region",
    "activity",
)

SHOWN = {Show.COST: "cost", Show.CUMULATIVE: "cumulative", Show.RATE: "per chip-hour"}

_WINDOWS = (
    ("today", "today"),
    ("24h", "24 hours"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("90d", "90 days"),
    ("mtd", "month to date"),
)


@dataclass(frozen=True, slots=True)
class QueryOption:
    """One entry of a menu."""

    value: str
    text: str
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class FilterMenu:
    """A menu: its name for people, and its entries."""

    title: str
    choices: tuple[QueryOption, ...]


@dataclass(frozen=True, slots=True)
class QueryForm:
    """The form. `kept` are filters without an entry in a menu; `since` and `until` are the dates of
    a window of dates, else empty."""

    windows: tuple[QueryOption, ...]
    since: str
    until: str
    groups: tuple[QueryOption, ...]
    steps: tuple[QueryOption, ...]
    shows: tuple[QueryOption, ...]
    filters: tuple[FilterMenu, ...]
    kept: tuple[str, ...]


def build_form(asked: CostsAsked, values: CostReport | None, now: int) -> QueryForm:
    """The form of a question; `values` is the report of the window by MENUS, without filters. No
    menu of filters without it."""
    group = ",".join(asked.aggregate)
    groups = [(name, dimension_title(name)) for name in GROUPS] + [("", "nothing")]
    if group not in dict(groups):
        groups.append((group, ", ".join(map(dimension_title, asked.aggregate))))
    windows = [*_WINDOWS, last_month(now)]
    window, since, until = asked.window, "", ""
    if window not in dict(windows):
        since, until = dates_of_window(window)
        window = "" if since else window
        windows.insert(0, (window, window or "these dates"))
    # A menu for each dimension with several values in the window, or with a filter.
    only: Mapping[str, list[str]] = {}
    with suppress(Rejected):
        only = only_of(asked.only)
    menus = []
    rows = () if values is None else values.rows
    for place, name in enumerate(() if values is None else MENUS):
        known, chosen = sorted({row.group[place] for row in rows}), only.get(name, [])
        if len(known) < 2 and not chosen:
            continue
        single = chosen[0] if len(chosen) == 1 else None
        summary = f"{len(chosen)} chosen" if len(chosen) > 1 else "any"
        options = [QueryOption("", summary, single is None)]
        for value in sorted({*known[:MOST_VALUES], *chosen}):
            text = value or UNNAMED.get(name, "(none)")
            options.append(QueryOption(condition_of(name, value), text, value == single))
        menus.append(FilterMenu(dimension_title(name), tuple(options)))
    offered = {choice.value for menu in menus for choice in menu.choices if choice.chosen}
    return QueryForm(
        windows=tuple(QueryOption(value, text, value == window) for value, text in windows),
        since=since,
        until=until,
        groups=tuple(QueryOption(value, text, value == group) for value, text in groups),
        steps=tuple(QueryOption(step, STEPS[step], step == asked.step) for step in Granularity),
        shows=tuple(QueryOption(show, text, show is asked.show) for show, text in SHOWN.items()),
        filters=tuple(menus),
        kept=tuple(condition for condition in asked.only if condition not in offered),
    )


def apply_form(asked: CostsAsked, sent: Mapping[str, str]) -> CostsAsked:
    """The question of a form with these fields. Its dates count instead of its window. If the
    dates were there already (`dated` is 1), a window from the menu counts instead of them."""
    is_from_menu = sent.get("dated") == "1" and bool(sent.get("window"))
    first, last = (sent.get(name, "").strip()[:20] for name in ("since", "until"))
    window = "" if is_from_menu else window_of_dates(first, last)
    return asked.with_window(window) if window else asked
