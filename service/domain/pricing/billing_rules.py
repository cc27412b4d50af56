"""Google's billing rules: effective-dated data, like the prices."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from service.domain.reference_tables import read_rows, split_cell


def is_billable(state: str) -> bool:
    """Whether the billing rules bill seconds in this state."""
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
    """Return every billing rule that ships with the service, oldest first
    (`service/data/billing_rules.csv`)."""
    found = []
    for row in read_rows("billing_rules"):
        since = datetime.fromisoformat(row["effective_from"]).replace(tzinfo=UTC)
        found.append(BillingRule(row["rule"], row["value"], int(since.timestamp()), row["source"]))
    return tuple(sorted(found, key=lambda rule: rule.effective_from))


def in_force(rule: str, instant: int) -> str:
    """Return the value of a billing rule at an instant. Before the oldest value, the oldest is
    returned."""
    values = [entry for entry in billing_rules() if entry.rule == rule]
    begun = [entry for entry in values if entry.effective_from <= instant] or values[:1]
    return begun[-1].value


@cache
def billable_states() -> frozenset[str]:
    """Return the states whose seconds the billing rules bill."""
    values = [rule for rule in billing_rules() if rule.rule == BILLABLE_STATES]
    return frozenset(split_cell(values[-1].value))


def free_if_preempted_within(instant: int) -> int:
    """Return the seconds for which a preempted TPU is free after its creation, by the billing
    rules. `instant` is the time of the preemption."""
    return int(in_force(FREE_IF_PREEMPTED, instant))


def calendar_days(instant: int) -> tuple[int, int]:
    """Return the least and the most days that the billing rules allow a calendar-mode reservation
    from `instant`. The reservation is charged for all of its days, from the first second to the
    last."""
    least, most = split_cell(in_force(CALENDAR_DAYS, instant))
    return int(least), int(most)


def vm_is_charged_with_its_tpu(instant: int) -> bool:
    """Whether the billing rules make the VM of a legacy TPU Node a separate line. It is charged for
    the charged seconds of the TPU."""
    return in_force(VM_LINE, instant) == _WITH_ITS_TPU
