"""One line of the ledger explained: the sum, the price, who is charged, how it is known. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.clock import HOUR, rfc3339
from service.domain.metering import Evidence, Usage
from service.domain.money import dollars, half_even
from service.domain.pricing import Price


@dataclass(frozen=True, slots=True)
class Charge:
    """What a line charges: instants in whole UTC seconds, money in nano-dollars."""

    start: int
    end: int
    chip_seconds: int
    price: int
    amount: int
    is_adjustment: bool


def sum_of(charge: Charge, chips: int) -> str:
    """Chips x seconds x price, as it would be checked on paper."""
    quantity = f"{charge.chip_seconds:,} chip-seconds"
    if chips and charge.chip_seconds % chips == 0:
        quantity = f"{chips:,} chips x {charge.chip_seconds // chips:,} s"
    sentence = (
        f"{quantity} x {dollars(charge.price)} a chip-hour / 3,600 = {dollars(charge.amount)}"
    )
    alone = half_even(charge.chip_seconds * charge.price, HOUR)
    if alone != charge.amount and not charge.is_adjustment:
        sentence += (
            f"; by itself it would round to {dollars(alone)}, but only the whole interval is"
            " rounded, so that its lines sum to it exactly"
        )
    return sentence


def source_of(price: Price | None, price_id: str) -> str:
    """Where the price is known from."""
    if price is None:
        return f"the price {price_id} is no longer in the book"
    unit = price.unit.replace("_", "-")
    return (
        f"{dollars(price.nanos)} per {unit} for {price.generation} {price.model} in {price.region},"
        f" in force from {rfc3339(price.effective_from)}: {price.source}"
    )


def beginning_of(usage: Usage) -> str:
    """How the beginning of the interval is known."""
    match usage.start_evidence:
        case Evidence.OPERATION:
            return f"it began at {rfc3339(usage.start)}, by the cloud's record of the operation"
        case Evidence.UNSEEN:
            return (
                f"nobody saw it READY: it may have been so from {rfc3339(usage.start)} on, and"
                " nothing rules that out"
            )
        case _:
            return _between("it began", usage.start, usage.start_hi, usage.start_evidence)


def end_of(usage: Usage) -> str:
    """How the end of the interval is known."""
    if usage.end is None:
        return "it has not ended"
    if usage.end_evidence is Evidence.OPERATION:
        return f"it ended at {rfc3339(usage.end)}, by the cloud's record of the operation"
    if usage.end_evidence is Evidence.AUDIT:
        return f"it ended at {rfc3339(usage.end)}, by the cloud's audit log"
    lowest = usage.end if usage.end_lo is None else usage.end_lo
    return _between("it ended", lowest, usage.end, usage.end_evidence or Evidence.OBSERVED)


def _between(what: str, first: int, last: int, evidence: Evidence) -> str:
    if first >= last:
        return f"{what} at {rfc3339(last)} ({evidence})"
    return (
        f"{what} between {rfc3339(first)} and {rfc3339(last)}, two looks {last - first:,} s apart;"
        " all of that is charged, and said to be uncertain"
    )
