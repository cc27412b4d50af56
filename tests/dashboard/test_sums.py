"""A node's cost, explained."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.nodes import NodeCost
from service.dashboard.sums import LINES_SHOWN, sum_of
from tests.hands import NOON

HOUR = 3_600
RATE = 1_200_000_000
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class _Line:
    kind: str
    charge_start: int
    charge_end: int
    chip_seconds: int
    price_nanos: int
    amount_nanos: int
    id: int = 1


def _hour(number: int, rate: int = RATE, chips: int = 8) -> _Line:
    start = NOON + number * HOUR
    return _Line("usage", start, start + HOUR, chips * HOUR, rate, chips * rate)


def _cost(cost: int, chip_seconds: int, unpriced_seconds: int = 0) -> NodeCost:
    return NodeCost(
        cost=cost,
        list_cost=None,
        chip_seconds=chip_seconds,
        uncertainty=0,
        estimated=True,
        unpriced_seconds=unpriced_seconds,
        as_of=NOON,
    )


def test_the_open_tail_is_what_the_ledger_does_not_say_yet() -> None:
    found = sum_of([_hour(0), _hour(1)], _cost(24_000_000_000, 8 * 9_000), 8, RATE)
    assert [(part.quantity, part.price, part.amount) for part in found.parts] == [
        (f"8 {TIMES} 7,200 s", "$1.20", "$19.20"),
        (f"8 {TIMES} 1,800 s", "$1.20", "$4.80"),
    ]
    assert found.total == "$24.00"


def test_each_price_is_a_part_of_its_own() -> None:
    lines = [_hour(0), _hour(1, rate=RATE // 2)]
    found = sum_of(lines, _cost(14_400_000_000, 16 * HOUR), 8, None)
    assert [part.price for part in found.parts] == ["$1.20", "$0.60"]


def test_a_tail_that_one_price_does_not_make_names_none() -> None:
    found = sum_of([], _cost(1_000_000_000, 8 * HOUR), 8, RATE)
    assert [part.price for part in found.parts] == [""]


def test_seconds_without_a_price_are_not_known_rather_than_free() -> None:
    found = sum_of([], _cost(0, 8 * 600, unpriced_seconds=600), 8, None)
    assert [(part.quantity, part.amount) for part in found.parts] == [
        (f"8 {TIMES} 600 s", "not known")
    ]


def test_a_correction_that_is_no_multiple_of_the_chips_is_told_in_chip_seconds() -> None:
    line = _Line("adjustment", NOON, NOON + HOUR, -7, RATE, -2_333_333)
    found = sum_of([line], _cost(-2_333_333, -7), 8, RATE)
    assert found.lines[0].quantity == "-7 chip-seconds"
    assert found.total == "\N{MINUS SIGN}$0.002333333"


def test_of_many_lines_the_newest_are_shown_and_the_others_summed() -> None:
    lines = [_hour(n) for n in range(LINES_SHOWN + 3)]
    found = sum_of(lines, _cost(sum(x.amount_nanos for x in lines), 0), 8, RATE)
    assert len(found.lines) == LINES_SHOWN
    assert (found.earlier, found.earlier_amount) == ("3 earlier", "$28.80")
