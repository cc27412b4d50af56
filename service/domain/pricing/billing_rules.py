"""What is billed at all, by Google's own words: effective-dated, and data like the prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from service.domain.reference_tables import rows, split


def is_billable(state: str) -> bool:
    """Whether seconds in that state cost money."""
    return state in billable_states()


BILLABLE_STATES = "billable_states"
FREE_IF_PREEMPTED = "free_if_preempted_within_seconds"
CALENDAR_DAYS = "calendar_reservation_days"
VM_LINE = "legacy_vm_line"
_WITH_ITS_TPU = "with_its_tpu"


@dataclass(frozen=True, slots=True)
class BillingRule:
    """One rule, in force from a whole UTC second until the next of its name."""

    rule: str
    value: str
    effective_from: int
    source: str


@cache
def billing_rules() -> tuple[BillingRule, ...]:
    """Every rule that ships with the service, oldest first (`service/data/billing_rules.csv`)."""
    found = (
        BillingRule(row["rule"], row["value"], _second(row["effective_from"]), row["source"])
        for row in rows("billing_rules")
    )
    return tuple(sorted(found, key=lambda one: one.effective_from))


def in_force(rule: str, instant: int) -> str:
    """The value of a rule at an instant; that of the oldest for what lies before it."""
    named = [one for one in billing_rules() if one.rule == rule]
    held = [one for one in named if one.effective_from <= instant] or named[:1]
    return held[-1].value


@cache
def billable_states() -> frozenset[str]:
    """The states whose seconds cost money."""
    named = [one for one in billing_rules() if one.rule == BILLABLE_STATES]
    return frozenset(split(named[-1].value))


def free_if_preempted_within(instant: int) -> int:
    """Seconds after its creation in which a TPU that is preempted at `instant` costs nothing."""
    return int(in_force(FREE_IF_PREEMPTED, instant))


def calendar_days(instant: int) -> tuple[int, int]:
    """The least and the most days that a reservation by the calendar which begins at `instant` is
    for. It is charged for all of them, from its first second to its last."""
    least, most = split(in_force(CALENDAR_DAYS, instant))
    return int(least), int(most)


def vm_is_charged_with_its_tpu(instant: int) -> bool:
    """Whether the user's VM that drives a legacy TPU Node is a line of its own, for the seconds
    that the TPU is charged for."""
    return in_force(VM_LINE, instant) == _WITH_ITS_TPU


def _second(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
