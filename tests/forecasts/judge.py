"""How wrong forecasts were, and how often the truth lay within their band."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from service.domain.costs.forecast import forecast_cost
from tests.forecasts.months import month_of

WHOLE = 1_000_000


@dataclass(frozen=True, slots=True)
class Judged:
    """Of one month: by how many millionths of what it came to each forecast of it was wrong, and
    where the truth lay. No month counts for more than the whole of it: one that came to almost
    nothing would outweigh a hundred."""

    ours: int
    pace: int
    same_weekdays: int
    is_below: bool
    is_above: bool
    days_left: int
    history_days: int


def judged(seed: int) -> Judged | None:
    """The month of a seed; None where nothing was spent in it."""
    month = month_of(seed)
    actual = month.actual
    if not actual:
        return None
    basis = month.basis()
    total = forecast_cost(basis).total

    def wrong(said: int) -> int:
        return min(WHOLE, WHOLE * abs(said - actual) // actual)

    return Judged(
        wrong(total.mid),
        wrong(month.pace()),
        wrong(month.same_weekdays()),
        actual < total.low,
        actual > total.high,
        len(basis.ahead),
        basis.history.days,
    )


@dataclass(frozen=True, slots=True)
class Worth:
    """Of many months: errors in percent, on average; and of a hundred months how many lay below,
    within and above the band."""

    months: int
    ours: float
    pace: float
    same_weekdays: float
    below: float
    within: float
    above: float


def worth(months: Iterable[Judged]) -> Worth:
    """What forecasts of these months were worth."""
    those = list(months)

    def mean(values: Iterable[int]) -> float:
        return 100 * sum(values) / len(those)

    below, above = (
        mean(forecast.is_below for forecast in those),
        mean(forecast.is_above for forecast in those),
    )
    return Worth(
        months=len(those),
        ours=mean(forecast.ours for forecast in those) / WHOLE,
        pace=mean(forecast.pace for forecast in those) / WHOLE,
        same_weekdays=mean(forecast.same_weekdays for forecast in those) / WHOLE,
        below=below,
        within=100 - below - above,
        above=above,
    )
