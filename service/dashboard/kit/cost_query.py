"""What the address of a page asks of the costs, and the addresses that ask something near it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from service.application.costs.costs import CostQuestion
from service.domain.billing_period import BillingMonth
from service.domain.clock import rfc3339
from service.domain.costs.dimensions import condition_of, escaped, only_of, words_of
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
"""By what a value of a dimension is looked into; a label's by node, and a node has its own page."""


@dataclass(frozen=True, slots=True)
class CostsAsked:
    """A question in the words of the address, which are those of the API: the same parameters after
    `/costs` and after `/v1/costs` ask the same."""

    window: str = DEFAULT_WINDOW
    aggregate: tuple[str, ...] = DEFAULT_GROUP
    step: str = Granularity.ALL
    tz: str = "UTC"
    only: tuple[str, ...] = ()

    def to_question(self) -> CostQuestion:
        """The same in the words of the application; raises Rejected."""
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
        """Where a person reads the answer."""
        return self.at("/costs")

    @property
    def filter_text(self) -> str:
        """All filters as they are typed into one field."""
        return ",".join(self.only)

    def during(self, window: str) -> CostsAsked:
        """The same of another time."""
        return replace(self, window=window)

    def by(self, *dimensions: str) -> CostsAsked:
        """The same, grouped otherwise."""
        return replace(self, aggregate=dimensions)

    def in_steps(self, step: str) -> CostsAsked:
        """The same in other steps."""
        return replace(self, step=step)

    def within(self, window: Window, step: str) -> CostsAsked:
        """The same of a shorter time, in shorter steps."""
        return replace(self, window=f"{rfc3339(window.start)},{rfc3339(window.end)}", step=step)

    def into(self, dimension: str, value: str) -> CostsAsked:
        """What that one value is made of: only it counts, one level deeper."""
        only = tuple(dict.fromkeys((*self.only, condition_of(dimension, value))))
        return replace(self, aggregate=(DEEPER.get(dimension, "node"),), only=only)

    def without(self, condition: str) -> CostsAsked:
        """The same without one of its filters."""
        return replace(self, only=tuple(one for one in self.only if one != condition))


def asked_by(
    window: str, aggregate: Iterable[str] | None, step: str, tz: str, conditions: Iterable[str]
) -> CostsAsked:
    """The question of an address; what is left out is as usual, and a group that is left empty is
    no group."""
    usual = CostsAsked()
    only = dict.fromkeys(escaped(word) for word in words_of(conditions))
    return CostsAsked(
        window.strip() or usual.window,
        usual.aggregate if aggregate is None else tuple(dict.fromkeys(words_of(aggregate))),
        step or usual.step,
        tz.strip() or usual.tz,
        tuple(only),
    )


def month_window(period: BillingMonth) -> str:
    """A whole month as a window."""
    return f"{rfc3339(period.start)[:10]},{rfc3339(period.end)[:10]}"
