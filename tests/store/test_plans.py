"""Plans: what is asked over and over is answered from an index, on both databases."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from sqlalchemy import event, insert, select, text

from service.domain.ids import new_id
from service.domain.time_window import Window
from service.store.node_list import NodeFilter
from service.store.tables import nodes, placements, usage
from service.store.unit import Units
from tests.hands import NOON
from tests.store.given import ALL, GivenPrices, ran, stored

ENDED, LIVE = 3_000, 60


@pytest.fixture
def crowd(engine, units):
    """Thousands of nodes that ended, and a few that live."""
    node = stored(units, sent_at=NOON, next_try_at=None)
    ran(units, node)
    with engine.begin() as connection:
        one = dict(connection.execute(select(nodes)).mappings().one())
        interval = dict(connection.execute(select(usage)).mappings().one())
        rows, intervals = [], []
        for number in range(ENDED + LIVE):
            ended = NOON if number < ENDED else None
            changes = {
                "id": new_id(),
                "name": f"n-{number}",
                "cloud_id": f"c-{number}",
                "ended_at": ended,
                "next_try_at": None if number % 10 else NOON + number,
            }
            rows.append(one | changes)
            over = ended and ended + number
            intervals.append(interval | {"id": new_id(), "node_id": changes["id"], "end_at": over})
        connection.execute(insert(nodes), rows)
        connection.execute(insert(usage), intervals)
        connection.execute(insert(placements), [tried(row["id"], n) for n, row in enumerate(rows)])
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))
    return units


def tried(node_id, number):
    """One attempt a minute, for half a day."""
    return {
        "node_id": node_id,
        "attempt": 1,
        "zone": "us-west4-a",
        "model": "spot",
        "cloud_id": f"c-{number}",
        "started_at": NOON - 60 * number,
        "outcome": "stock_out",
        "reason": "no more capacity",
        "ended_at": NOON - 60 * number + 5,
        "project": "lab",
        "accelerator_type": "v5litepod-8",
        "generation": "v5e",
    }


@contextmanager
def listening(engine):
    """The statements that are sent meanwhile, with their parameters."""
    heard = []

    def hear(_connection, _cursor, statement, parameters, _context, _many):
        heard.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", hear)
    yield heard
    event.remove(engine, "before_cursor_execute", hear)


def plan_of(engine, ask):
    """How the database answers what a reader asks, as it explains it."""
    units = Units(engine)
    with listening(engine) as heard, units.reading() as unit:
        ask(unit)
    statement, parameters = next(told for told in heard if told[0].startswith("SELECT"))
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with engine.connect() as connection:
        rows = connection.exec_driver_sql(f"{explain} {statement}", parameters)
        return "\n".join(str(row[-1]) for row in rows)


def page(only=ALL, token=""):
    return lambda unit: unit.node_list.read_page(only, 50, token, GivenPrices(), NOON)


PRIMARY = ("sqlite_autoindex_nodes_1", "pk_nodes")
OF_THE_LIVING = ("ix_nodes_open", "uq_nodes_live_name")


CASES = [
    (page(), PRIMARY),
    (page(token=new_id()), PRIMARY),
    (page(NodeFilter(live=True)), (*PRIMARY, *OF_THE_LIVING)),
    (lambda unit: unit.nodes.list_due("lab", NOON + 100, 50), ("ix_nodes_next_try_at",)),
    (lambda unit: unit.nodes.list_open("lab"), OF_THE_LIVING),
    (lambda unit: unit.nodes.read_fingerprint("lab"), OF_THE_LIVING),
    (lambda unit: unit.fleet.list_overdue(5), OF_THE_LIVING),
    (lambda unit: unit.nodes.find_by_name("n-7", "lab"), ("uq_nodes_live_name",)),
    (
        lambda unit: unit.placements.list_recent("lab", "spot", NOON),
        ("ix_placements_project_model_started_at", "ix_placements_started_at"),
    ),
    (
        lambda unit: unit.capacity.count_attempts(Window(NOON - 3_600, NOON), {}),
        ("ix_placements_started_at",),
    ),
    (lambda unit: unit.usage.find_open("nobody"), ("uq_usage_one_open", "ix_usage_node_id")),
    (lambda unit: unit.usage.list_to_post("lab", NOON, 100), ("ix_usage_dirty",)),
    (lambda unit: unit.usage.list_purchases_to_post("lab", NOON), ("ix_usage_purchases",)),
]


def test_what_is_asked_over_and_over_is_answered_from_an_index(engine, crowd):
    for ask, indexes in CASES:
        plan = plan_of(engine, ask)
        assert any(index in plan for index in indexes), plan
        assert "Seq Scan on nodes" not in plan, plan
        assert "Seq Scan on placements" not in plan, plan
        assert "SCAN nodes\n" not in f"{plan}\n", plan


def test_a_page_reads_no_more_than_it_shows(engine, crowd):
    """Neither are all nodes sorted, nor is all usage read, to show fifty of them."""
    plan = plan_of(engine, page(token=new_id()))
    assert "TEMP B-TREE" not in plan, plan
    assert "Sort Key: nodes" not in plan, plan
    assert "SCAN usage" not in plan, plan
