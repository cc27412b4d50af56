"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from service.domain import errors
from service.domain.errors import StewardError

SERVICE = Path(__file__).resolve().parents[2] / "service"
FILES = sorted(SERVICE.rglob("*.py"))

CLOCKS = {
    "domain/clock.py",
    "emulator/clock.py",
    "emulator/workers/docker/clock.py",
    "domain/ids.py",
    "supervisor/meter.py",
    "supervisor/supervisor.py",
}
"""Who may ask what time it is. Ids hold the time at which they were made."""

MONEY = [
    "domain/money.py",
    "domain/pricing/price_book.py",
    "domain/pricing/discounts.py",
    "domain/pricing/feed.py",
    "domain/pricing/skus.py",
    "store/prices.py",
    "domain/metering/meter.py",
    "domain/reconciliation/bill.py",
    "domain/reconciliation/commitments.py",
    "domain/reconciliation/bill_file.py",
    "domain/reconciliation/bill_row.py",
    "domain/reconciliation/reservations.py",
    "domain/reconciliation/reconcile.py",
    "domain/commitments/recommendation.py",
    "domain/pricing/estimate.py",
    "domain/costs/charge.py",
    "domain/commitments/allocation.py",
    "domain/commitments/billing.py",
    "domain/commitments/commitment.py",
    "domain/commitments/coverage.py",
    "domain/commitments/standing.py",
    "domain/reconciliation/variance.py",
    "domain/costs/focus_sku.py",
    "domain/costs/focus.py",
    "domain/costs/forecast.py",
    "domain/costs/habits.py",
    "domain/pricing/sizing.py",
    "application/costs/forecasts.py",
    "store/forecasts.py",
    "domain/orphans/orphan.py",
    "domain/budgets/budget.py",
    "domain/budgets/admission.py",
    "domain/budgets/alerts.py",
    "domain/notifications/letters.py",
    "domain/notifications/node_messages.py",
    "application/budgets/budgets.py",
    "application/pricing/commitments.py",
    "application/budgets/admission.py",
    "controllers/budgets/budgets.py",
    "dashboard/kit/amounts.py",
    "dashboard/pages/costs/breakdown.py",
    "dashboard/pages/costs/budgets.py",
    "dashboard/pages/costs/commitments.py",
    "dashboard/pages/costs/over_time/costs.py",
    "dashboard/pages/costs/ledger.py",
    "dashboard/pages/message_link.py",
    "application/cleanup/links.py",
    "dashboard/pages/costs/ledger_line.py",
    "dashboard/pages/costs/prices.py",
    "dashboard/pages/costs/statements.py",
    "store/budgets.py",
    "store/holds.py",
    "domain/orphans/adoption.py",
    "application/orphans.py",
    "store/ledger.py",
    "store/bills.py",
    "store/bill_matches.py",
    "store/costs.py",
    "store/charges.py",
    "store/commitments.py",
    "store/statements.py",
    "store/node_list.py",
    "store/usage.py",
    "controllers/recording/posting.py",
]

WALL = {
    ("time", "time"),
    ("time", "time_ns"),
    ("datetime", "now"),
    ("datetime", "utcnow"),
    ("datetime", "today"),
    ("date", "today"),
}


def name_of(path):
    return path.relative_to(SERVICE).as_posix()


def nodes_of(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def places(path, is_wrong):
    return [f"{name_of(path)}:{node.lineno}" for node in nodes_of(path) if is_wrong(node)]


def commits(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "commit"
    )


def asks_the_wall_clock(node):
    if isinstance(node, ast.ImportFrom):
        return any((node.module, name.name) in WALL for name in node.names)
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value
    spoken = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return (spoken, node.attr) in WALL


def makes_a_float(node):
    if isinstance(node, ast.BinOp | ast.AugAssign):
        return isinstance(node.op, ast.Div)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    return isinstance(node, ast.Name) and node.id == "float"


def test_nobody_commits_by_hand():
    assert [place for path in FILES for place in places(path, commits)] == []


def test_only_the_clock_asks_what_time_it_is():
    others = [path for path in FILES if name_of(path) not in CLOCKS]
    assert [place for path in others for place in places(path, asks_the_wall_clock)] == []


@pytest.mark.parametrize("name", MONEY)
def test_money_never_becomes_a_float(name):
    assert places(SERVICE / name, makes_a_float) == []


@pytest.mark.parametrize(
    ("is_wrong", "line"),
    [
        (commits, "connection.commit()"),
        (commits, "self.unit.session.commit()"),
        (asks_the_wall_clock, "now = time.time()"),
        (asks_the_wall_clock, "clock = time.time"),
        (asks_the_wall_clock, "from time import time"),
        (asks_the_wall_clock, "datetime.now(UTC)"),
        (asks_the_wall_clock, "datetime.datetime.now(UTC)"),
        (asks_the_wall_clock, "date.today()"),
        (makes_a_float, "float(nanos)"),
        (makes_a_float, "nanos * 1e-9"),
        (makes_a_float, "nanos / 3_600"),
        (makes_a_float, "nanos /= 3_600"),
        (makes_a_float, "def cost() -> float: ..."),
    ],
)
def test_each_rule_sees_what_breaks_it(is_wrong, line):
    assert any(map(is_wrong, ast.walk(ast.parse(line))))


@pytest.mark.parametrize(
    ("is_wrong", "line"),
    [
        (asks_the_wall_clock, "self._clock()"),
        (asks_the_wall_clock, "time.monotonic()"),
        (makes_a_float, "nanos // 3_600"),
        (commits, "commit = 'a word'"),
    ],
)
def test_no_rule_sees_what_is_allowed(is_wrong, line):
    assert not any(map(is_wrong, ast.walk(ast.parse(line))))


def below(kind):
    for child in kind.__subclasses__():
        yield child
        yield from below(child)


ERRORS = [kind for kind in below(StewardError) if kind.__module__.startswith("service.")]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda kind: kind.__name__)
def test_every_error_says_what_to_do_next_and_lives_in_the_one_tree(kind):
    assert (vars(kind).get("__doc__") or "").strip()
    assert kind.__module__ == errors.__name__
    assert kind("no", offered_in=["us-west4-a"]).facts == {"offered_in": ["us-west4-a"]}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
