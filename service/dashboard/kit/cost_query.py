"""The question that an address asks of the costs, and the addresses of similar questions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date, timedelta
from enum import StrEnum
from urllib.parse import urlencode

from service.application.costs.costs import CostQuestion
from service.dashboard.kit.figures import to_moment
from service.domain.billing_period import BillingMonth, period_of
from service.domain.clock import to_rfc3339
from service.domain.costs.dimensions import condition_of, escape_word, only_of, words_of
from service.domain.errors import Rejected
from service.domain.time_window import Granularity, Window

DEFAULT_WINDOW = "mtd"
DEFAULT_GROUP = ("team",)

DEEPER = {
    "project": "team",
    "team": "node",
    "owner": "node",
    "job": "node",
    "generation": "accelerator_type",
    "accelerator_type": "node",
    "provisioning_model": "node",
    "zone": "node",
    "region": "zone",
    "activity": "node",
}
"""The dimension by which one value of a dimension is broken down. A label's value is broken down
by node; a node has its own page."""


class Show(StrEnum):
    """The figures of the chart and of the matrix: costs, running sums, or costs divided by
    chip-hours."""

    COST = "cost"
    CUMULATIVE = "cumulative"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class CostsAsked:
    """A question in the parameters of the address, which are those of the API: the same parameters
    after `/costs` and after `/v1/costs` ask the same. `show` and `exact` (all nine decimals) belong
    to the page alone."""

    window: str = DEFAULT_WINDOW
    aggregate: tuple[str, ...] = DEFAULT_GROUP
    step: str = Granularity.ALL
    tz: str = "UTC"
    only: tuple[str, ...] = ()
    show: Show = Show.COST
    exact: bool = False

    def to_question(self) -> CostQuestion:
        """The question as the application takes it. Raises Rejected for an unknown step or
        filter."""
        if self.step not in set(Granularity):
            raise Rejected(
                f"{self.step[:80]!r} is not a step; write one of {', '.join(Granularity)}",
                field="step",
            )
        return CostQuestion(
            self.window, self.aggregate, Granularity(self.step), self.tz, only_of(self.only)
        )

    def at(self, path: str, **more: str) -> str:
        """The address of this question on a path."""
        pairs = [
            ("window", self.window),
            ("aggregate", ",".join(self.aggregate)),
            ("step", self.step),
            *([("tz", self.tz)] if self.tz != "UTC" else []),
            *(("filter", text) for text in self.only),
            *more.items(),
        ]
        return f"{path}?{urlencode(pairs)}"

    @property
    def page(self) -> str:
        """The address of the page that answers the question."""
        shown = {} if self.show is Show.COST else {"show": str(self.show)}
        return self.at("/costs", **shown, **({"exact": "1"} if self.exact else {}))

    @property
    def filter_text(self) -> str:
        """All filters as one text, as a visitor types them into one field."""
        return ",".join(self.only)

    def with_window(self, window: str) -> CostsAsked:
        """This question about another window."""
        return replace(self, window=window)

    def with_grouping(self, *dimensions: str) -> CostsAsked:
        """This question, grouped by these dimensions."""
        return replace(self, aggregate=dimensions)

    def with_step(self, step: str) -> CostsAsked:
        """This question in other steps."""
        return replace(self, step=step)

    def with_show(self, show: Show) -> CostsAsked:
        """This question with other figures in the chart."""
        return replace(self, show=show)

    def with_exact(self, *, exact: bool) -> CostsAsked:
        """This question with amounts to the nano-dollar, or to the cent."""
        return replace(self, exact=exact)

    def narrow_to(self, window: Window, step: str) -> CostsAsked:
        """This question about a shorter window, in shorter steps."""
        return replace(
            self, window=f"{to_rfc3339(window.start)},{to_rfc3339(window.end)}", step=step
        )

    def drill_into(self, dimension: str, value: str) -> CostsAsked:
        """This question about one value of a dimension, grouped one level deeper."""
        only = tuple(dict.fromkeys((*self.only, condition_of(dimension, value))))
        return replace(self, aggregate=(DEEPER.get(dimension, "node"),), only=only)

    def without_filter(self, condition: str) -> CostsAsked:
        """This question without one of its filters."""
        return replace(self, only=tuple(other for other in self.only if other != condition))


def parse_costs_query(
    window: str, aggregate: Iterable[str] | None, step: str, tz: str, conditions: Iterable[str]
) -> CostsAsked:
    """The question of an address. Defaults stand in for parameters that are missing; an empty
    `aggregate` groups by nothing."""
    usual = CostsAsked()
    only = dict.fromkeys(escape_word(word) for word in words_of(conditions))
    return CostsAsked(
        window.strip() or usual.window,
        usual.aggregate if aggregate is None else tuple(dict.fromkeys(words_of(aggregate))),
        step or usual.step,
        tz.strip() or usual.tz,
        tuple(only),
    )


def parse_show(text: str) -> Show:
    """The figures of that name; costs for an unknown name."""
    return Show(text) if text in set(Show) else Show.COST


def window_of_dates(first: str, last: str) -> str:
    """The window from a first to a last date, both included. One date alone is one day. Empty if
    both are empty."""
    if not first and not last:
        return ""
    last = last or first
    try:
        end = (date.fromisoformat(last) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        end = last  # the page says what is wrong with it
    return f"{first or last},{end}"


def dates_of_window(window: str) -> tuple[str, str]:
    """The first and the last date of a window of two dates; empty texts for any other window."""
    first, _, end = window.partition(",")
    try:
        last = date.fromisoformat(end.strip()) - timedelta(days=1)
        return date.fromisoformat(first.strip()).isoformat(), last.isoformat()
    except (ValueError, OverflowError):
        return "", ""


def month_window(period: BillingMonth) -> str:
    """A whole month as a window."""
    return f"{to_rfc3339(period.start)[:10]},{to_rfc3339(period.end)[:10]}"


def last_month(now: int) -> tuple[str, str]:
    """The window of the month before `now`, and the name of that month: `Oct 2026`."""
    month = period_of(period_of(now).start - 1)
    return month_window(month), to_moment(month.start).date.partition(" ")[2]
