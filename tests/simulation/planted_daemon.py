"""Planted bugs of the daemon itself, and of what it does now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from service.controllers.budgets.forecast import ForecastsController
from service.controllers.prices import PricesController
from service.daemon.first_looks import FirstLooks
from service.domain.pricing import feed
from tests.planting import replace_function

Planting = Callable[[], Any]


def the_first_look_is_never_over() -> Any:
    """Whoever waits for it waits for ever."""
    return patch.multiple(
        FirstLooks, is_over=lambda *_: False, mark_done=lambda _self, _lease: False
    )


def nobody_reads_the_prices() -> Any:
    return patch.object(PricesController, "tick", lambda *_: None)


def a_price_counts_from_when_it_was_read() -> Any:
    """Though it was published later than it counts."""
    return replace_function(feed, feed._find_start, lambda _book, _quote, now: now)


def no_forecast_is_made() -> Any:
    return patch.object(ForecastsController, "tick", lambda *_: None)


DAEMON_BUGS: tuple[Planting, ...] = (
    the_first_look_is_never_over,
    nobody_reads_the_prices,
    a_price_counts_from_when_it_was_read,
    no_forecast_is_made,
)
