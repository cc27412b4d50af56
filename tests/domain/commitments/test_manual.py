"""The worked example of the manual is what the program works out."""

from __future__ import annotations

from pathlib import Path

from service.dashboard.kit.figures import format_money
from service.domain.clock import HOUR
from tests import factories
from tests.commitments import commitment, used
from tests.hands import NOON

MANUAL = Path(__file__).parents[3] / "service/manual/commitments.md"


def test_the_worked_example_says_what_is_worked_out():
    start = NOON - 4 * HOUR
    train = factories.usage(node_id="train", start=start + HOUR, end=start + 3 * HOUR)
    serve = factories.usage(node_id="serve", chips=24, start=start + 2 * HOUR, end=start + 3 * HOUR)
    found = used([train, serve], [commitment(start=start)], start, NOON)
    (one,) = found.standings
    nodes = found.by_node()
    left_to_pay = found.total_figures.charged - one.total_covered.avoided
    assert (one.total_covered.chip_seconds, one.committed, one.eligible) == (
        16 * HOUR,
        32 * HOUR,
        40 * HOUR,
    )
    rows = {
        "fee": one.fee,
        "used": one.total_covered.cost,
        "unused": one.unused_fee,
        "avoided": one.total_covered.avoided,
        "`train` after commitments": nodes["train"].amortised_cost,
        "`serve` after commitments": nodes["serve"].amortised_cost,
    }
    text = MANUAL.read_text(encoding="utf-8")
    for name, nanos in rows.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert row.endswith(f"| {format_money(nanos)} |")
    assert f"| {format_money(one.saving)}: it loses money |" in text
    assert f"are {format_money(found.total_figures.amortised_cost + found.unused_fee)}" in text
    assert f"{format_money(one.fee)} + {format_money(left_to_pay)}" in text
