"""A node's cost, explained."""

from __future__ import annotations

from dataclasses import dataclass

from service.application.nodes.cost import BurnRate, CostLine, NodeCost
from service.dashboard.kit.worked_sum import LINES_SHOWN, build_sum
from service.domain.money import half_even
from tests.hands import NOON

HOUR = 3_600
RATE = 1_200_000_000
TIMES = "\N{MULTIPLICATION SIGN}"
TPU = "v5litepod-8"
VM = "n1-standard-8"


@dataclass(frozen=True)
class _Line:
    kind: str
    charge_start: int
    charge_end: int
    chip_seconds: int
    price_nanos: int
    amount_nanos: int
    id: int = 1
    vm_seconds: int = 0
    accelerator_type: str = TPU
    is_vm: bool = False


def _hour(number: int, rate: int = RATE, chips: int = 8) -> _Line:
    start = NOON + number * HOUR
    return _Line("usage", start, start + HOUR, chips * HOUR, rate, chips * rate)


def _of_vm(number: int, rate: int, seconds: int = HOUR) -> _Line:
    start = NOON + number * HOUR
    amount = half_even(rate * seconds, HOUR)
    return _Line("usage", start, start + seconds, 0, rate, amount, 2, seconds, VM, is_vm=True)


def _cost(cost: int, chip_seconds: int, unpriced_seconds: int = 0) -> NodeCost:
    """What eight chips cost, at the usual rate now."""
    return _of_lines(
        CostLine(TPU, False, cost, None, 0, unpriced_seconds, chip_seconds),  # noqa: FBT003
        rates=(BurnRate(TPU, is_vm=False, units=8, price=RATE),),
    )


def _of_lines(*lines: CostLine, rates: tuple[BurnRate, ...] = ()) -> NodeCost:
    return NodeCost(
        cost=sum(line.cost for line in lines),
        list_cost=None,
        chip_seconds=sum(line.quantity for line in lines if not line.is_vm),
        uncertainty=0,
        estimated=True,
        unpriced_seconds=sum(line.unpriced_seconds for line in lines),
        as_of=NOON,
        lines=lines,
        rates=rates,
    )


def test_the_open_tail_is_what_the_ledger_does_not_say_yet() -> None:
    found = build_sum([_hour(0), _hour(1)], _cost(24_000_000_000, 8 * 9_000), 8)
    assert [(part.quantity, part.price, part.amount) for part in found.parts] == [
        (f"8 {TIMES} 7,200 s", "$1.20", "$19.20"),
        (f"8 {TIMES} 1,800 s", "$1.20", "$4.80"),
    ]
    assert found.total == "$24.00"


def test_each_price_is_a_part_of_its_own() -> None:
    lines = [_hour(0), _hour(1, rate=RATE // 2)]
    found = build_sum(lines, _cost(14_400_000_000, 16 * HOUR), 8)
    assert [part.price for part in found.parts] == ["$1.20", "$0.60"]


def test_a_tail_that_one_price_does_not_make_names_none() -> None:
    found = build_sum([], _cost(1_000_000_000, 8 * HOUR), 8)
    assert [part.price for part in found.parts] == [""]


def test_seconds_without_a_price_are_not_known_rather_than_free() -> None:
    found = build_sum([], _cost(0, 0, unpriced_seconds=600), 8)
    assert [(part.quantity, part.amount) for part in found.parts] == [
        (f"8 {TIMES} 600 s", "not known")
    ]


def test_a_correction_that_is_no_multiple_of_the_chips_is_told_in_chip_seconds() -> None:
    line = _Line("adjustment", NOON, NOON + HOUR, -7, RATE, -2_333_333)
    found = build_sum([line], _cost(-2_333_333, -7), 8)
    assert found.lines[0].quantity == "-7 chip-seconds"
    assert found.total == "\N{MINUS SIGN}$0.002333333"


def test_of_many_lines_the_newest_are_shown_and_the_others_summed() -> None:
    lines = [_hour(n) for n in range(LINES_SHOWN + 3)]
    found = build_sum(lines, _cost(sum(x.amount_nanos for x in lines), 8 * HOUR * len(lines)), 8)
    assert len(found.lines) == LINES_SHOWN
    assert (found.earlier, found.earlier_amount) == ("3 earlier", "$28.80")


def test_a_vm_is_a_line_of_its_own_and_each_says_of_what_it_is() -> None:
    posted = [_hour(0), _of_vm(0, 379_998_000)]
    cost = _of_lines(
        CostLine(TPU, False, 14_400_000_000, None, 5_400, 0, 8 * 5_400),  # noqa: FBT003
        CostLine(VM, True, 569_997_000, None, 5_400, 0, 5_400),  # noqa: FBT003
        rates=(
            BurnRate(TPU, is_vm=False, units=8, price=RATE),
            BurnRate(VM, is_vm=True, units=1, price=379_998_000),
        ),
    )
    found = build_sum(posted, cost, 8)
    assert [(part.label, part.quantity, part.price, part.amount) for part in found.parts] == [
        (f"{TPU}, posted to the ledger", f"8 chips {TIMES} 3,600 s", "$1.20", "$9.600000"),
        (f"{TPU}, since then, not yet posted", f"8 chips {TIMES} 1,800 s", "$1.20", "$4.800000"),
        (f"VM {VM}, posted to the ledger", f"1 VM {TIMES} 3,600 s", "$0.379998", "$0.379998"),
        (
            f"VM {VM}, since then, not yet posted",
            *(f"1 VM {TIMES} 1,800 s", "$0.379998", "$0.189999"),
        ),
    ]
    assert (found.total, found.named) == ("$14.969997", True)
    assert [(line.kind, line.quantity) for line in found.lines] == [
        (f"usage, VM {VM}", f"1 VM {TIMES} 3,600 s"),
        (f"usage, {TPU}", f"8 chips {TIMES} 3,600 s"),
    ]


def test_a_vm_whose_price_nobody_knows_is_not_free() -> None:
    cost = _of_lines(
        CostLine(TPU, False, 9_600_000_000, None, HOUR, 0, 8 * HOUR),  # noqa: FBT003
        CostLine("n9-odd-8", True, 0, None, HOUR, HOUR, 0),  # noqa: FBT003
    )
    found = build_sum([_hour(0)], cost, 8)
    assert [(part.label, part.quantity, part.amount) for part in found.parts] == [
        (f"{TPU}, posted to the ledger", f"8 chips {TIMES} 3,600 s", "$9.60"),
        ("VM n9-odd-8, at no known price", f"1 VM {TIMES} 3,600 s", "not known"),
    ]
    assert found.total == "$9.60"


def test_a_tpu_that_was_free_leaves_its_vm_alone_and_named() -> None:
    cost = _of_lines(
        CostLine(TPU, False, 0, 0, 45, 0, 0),  # noqa: FBT003
        CostLine(VM, True, 4_749_975, None, 45, 0, 45),  # noqa: FBT003
    )
    found = build_sum([_of_vm(0, 379_998_000, 45)], cost, 8)
    assert [part.label for part in found.parts] == [f"VM {VM}, posted to the ledger"]
    assert found.named
