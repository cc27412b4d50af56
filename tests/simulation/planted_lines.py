"""Bugs in the lines beside the TPU's, of reservations and of users' own machines, that somebody
could write tomorrow: each must make the simulation fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from service.application.pricing.reservations import ReservationService, ReservationStatus
from service.controllers.recording import posting
from service.domain.metering import line_items
from service.domain.metering.meter import Usage
from service.store.usage import Usages
from tests.planting import replace_function


def what_was_left_is_not_corrected() -> Any:
    """When a node's past hours are corrected, what nobody used in them stays as it was posted."""

    def nothing(*_: Any) -> None:
        return None

    return replace_function(posting, posting._post_what_they_left, nothing)


def the_machine_has_the_free_minute_of_its_tpu() -> Any:
    """Where the TPU was taken back in its first minute, its machine costs nothing either."""
    lines_of = line_items.lines_of

    def alike(usage: Usage) -> tuple[Usage, ...]:
        return tuple(replace(line, free=usage.free) for line in lines_of(usage))

    return patch.multiple(posting, lines_of=alike)


def withdrawn_and_not_taken_back() -> Any:
    """A record that was wrong charges nothing more, and what it charged stays."""

    def withdraw(self: ReservationService, reservation_id: str, reason: str) -> ReservationStatus:
        with self._units() as unit:
            unit.reservations.withdraw(reservation_id, reason, self._clock())
        return self.get(reservation_id)

    return patch.object(ReservationService, "withdraw", withdraw)


def known_late_and_charged_from_then_on() -> Any:
    """What ran in a reservation before it was written down is not looked at again."""

    def nothing(*_: Any) -> None:
        return None

    return patch.object(Usages, "mark_reserved_dirty", nothing)


def charged_to_both() -> Any:
    """What nodes use of a reservation is charged once more as its own."""

    def whole(wanted: Any, _: Any) -> Any:
        return wanted

    return patch.object(posting, "subtract_used", whole)


LINE_BUGS = (
    what_was_left_is_not_corrected,
    the_machine_has_the_free_minute_of_its_tpu,
    withdrawn_and_not_taken_back,
    known_late_and_charged_from_then_on,
    charged_to_both,
)
