"""The emulator's own bill, written as Google would, against the ledger of a fleet that lived."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest

from service.application.nodes.nodes import NodeService
from service.application.reconciliations import ReconciliationService
from service.cloud.google.channel import tpu_client
from service.cloud.google.retries import ONCE
from service.cloud.google.tpus import GoogleTpus
from service.cloud.rate_limit import Pace
from service.controllers.inventory.inventory import InventoryController
from service.controllers.lifecycle.context import Installation, StepContext
from service.controllers.lifecycle.lifecycle import LifecycleController
from service.controllers.lifecycle.step import Steps
from service.controllers.metering import MeteringController
from service.controllers.orphans.orphans import OrphanController
from service.domain.clock import DAY, HOUR
from service.domain.reconciliation.variance import Seen, Verdict
from service.emulator.app import build_world
from service.emulator.surfaces.channel import LocalChannel
from service.store.engine import make_engine
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests import factories
from tests.bills import detailed_csv, export, focus_csv, json_lines, row
from tests.databases import fresh_database
from tests.simulation.clock import Agenda

PROJECT = factories.PROJECT
LATER = 5 * DAY


class Fleet:
    """A daemon on virtual time, the emulator's world, and what the service can be asked."""

    def __init__(self, engine):
        self.agenda = Agenda()
        self.world = build_world(seed=7, clock=lambda: self.agenda.now)
        self.units = Units(engine)
        channel = LocalChannel(self.world, self.agenda.pass_)
        self.stub = tpu_client(channel)
        cloud = GoogleTpus(self.stub, Pace(lambda: self.agenda.now), ONCE)
        shared = self.units, cloud, PriceBookCache(), self.agenda.seconds
        garbage = OrphanController(*shared, Installation("test", 15))
        lifecycle = LifecycleController(
            *shared, Steps(StepContext(*shared, Installation("test", 5)))
        )
        lifecycle.workers = 1
        self.controllers = (
            InventoryController(*shared, onlookers=(garbage,)),
            lifecycle,
            MeteringController(self.units, shared[2], self.agenda.seconds),
        )
        self.nodes = NodeService(self.units, shared[2], self.agenda.seconds, [PROJECT])
        self.books = ReconciliationService(self.units, self.agenda.seconds, [PROJECT])
        with self.units() as unit:
            lease = unit.leases.take(PROJECT, "daemon", 100 * DAY)
        assert lease is not None
        self.lease = lease
        self.ids: set[str] = set()

    def live(self, seconds, step=30):
        for _ in range(seconds // step):
            self.agenda.pass_(step)
            self.world.run_due_events()
            for controller in self.controllers:
                controller.tick(self.lease)

    def exported(self):
        """The bill so far, as it stands some days later, when nothing is pending any more."""
        entries = self.world.bill.list_entries(self.world.run_due_events())
        return export(entries, self.agenda.seconds() + LATER)

    def told(self, content, **more):
        """The outcome, and its comparisons."""
        outcome = self.books.reconcile(io.BytesIO(content), alone=True, **more)
        lines = [kept.line for kept in self.books.list_lines(outcome.bill.id, (), 0, 10_000)]
        return outcome, lines


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    """Three tiers that ran for some hours and were deleted, and a stranger that somebody made."""
    with fresh_database("sqlite", tmp_path_factory.mktemp("fleet")) as address:
        engine = make_engine(address)
        made = Fleet(engine)
        requests = [
            factories.request(name=model.replace("_", "-"), provisioning_model=model)
            for model in ("on_demand", "spot")
        ]
        asked = [made.nodes.request(request).node for request in requests]
        made.live(HOUR // 2)
        theirs: Any = {
            "accelerator_type": "v5litepod-8",
            "runtime_version": "v2-alpha-tpuv5-lite",
        }
        made.stub.create_node(
            parent=f"projects/{PROJECT}/locations/us-west4-a",
            node_id="somebodys",
            node=theirs,
        )
        made.live(2 * HOUR + 17 * 60)
        for node in asked:
            made.nodes.delete(node.id)
        made.live(HOUR)
        made.ids = {node.id for node in asked}
        yield made
        engine.dispose()


def without(rows, name):
    return [row for row in rows if row["resource"]["name"] != name]


@pytest.fixture(scope="module")
def bill(fleet):
    """The rows of our own nodes, which are right, and those of the stranger."""
    rows = fleet.exported()
    return SimpleNamespace(
        ours=without(rows, "somebodys"),
        leaked=[row for row in rows if row["resource"]["name"] == "somebodys"],
    )


@pytest.mark.parametrize("written", [json_lines, detailed_csv, focus_csv])
def test_the_ledger_matches_the_emulators_bill_to_the_nano_dollar(fleet, bill, written):
    outcome, lines = fleet.told(written(bill.ours))
    assert {line.verdict for line in lines} == {Verdict.MATCHED}
    assert {line.node_id for line in lines} == fleet.ids
    assert {line.model for line in lines} == {"on_demand", "spot"}
    assert all(abs(line.variance) <= 2 for line in lines)
    assert all(line.billed_chip_seconds == line.charged_chip_seconds for line in lines)
    assert outcome.headline.total.percent == "0.0000"


def test_what_somebody_made_beside_us_is_a_leak_that_the_inventory_saw(fleet, bill):
    outcome, lines = fleet.told(json_lines(bill.ours + bill.leaked))
    leaks = [line for line in lines if line.verdict is Verdict.BILL_WITHOUT_NODE]
    assert len(leaks) == len(bill.leaked) >= 3
    assert {line.seen for line in leaks} == {Seen.ORPHAN}
    assert sum(line.billed for line in leaks) == outcome.headline.total.more > 0


def test_what_was_made_and_went_unseen_is_a_leak_too(fleet, bill):
    path = f"//tpu.googleapis.com/projects/{PROJECT}/locations/us-west4-a/nodes/ghost"
    unseen = bill.leaked[0] | {"resource": {"name": "ghost", "global_name": path}}
    _, lines = fleet.told(json_lines([*bill.ours, unseen]))
    (leak,) = [line for line in lines if line.verdict is not Verdict.MATCHED]
    assert (leak.verdict, leak.seen) == (Verdict.BILL_WITHOUT_NODE, Seen.NEVER)


@pytest.mark.deep
def test_a_missing_hour_and_a_missing_node_are_not_on_the_bill(fleet, bill):
    name = bill.ours[0]["resource"]["name"]
    of_first = [line for line in bill.ours if line["resource"]["name"] == name]
    for gone in ([of_first[1]], of_first):
        kept = [line for line in bill.ours if line not in gone]
        outcome, lines = fleet.told(json_lines(kept))
        missing = [line for line in lines if line.verdict is not Verdict.MATCHED]
        assert [line.verdict for line in missing] == [Verdict.NODE_WITHOUT_BILL] * len(gone)
        assert {line.seen for line in missing} == {Seen.OBSERVED}
        assert "(operation)" in missing[0].reason
        assert outcome.headline.total.less == -sum(line.charged for line in missing)


def test_another_price_and_other_seconds_are_told_apart(fleet, bill):
    first, second, *rest = bill.ours
    dearer = first | {"cost": first["cost"] * 1.1}
    half = {"amount": second["usage"]["amount"] / 2, "unit": "seconds"}
    fewer = second | {"cost": second["cost"] / 2, "usage": half}
    _, lines = fleet.told(json_lines([dearer, fewer, *rest]))
    told = [line.difference.value for line in lines if line.verdict is Verdict.AMOUNT_DIFFERS]
    assert sorted(told) == ["price", "seconds"]


def test_what_is_written_twice_elsewhere_or_in_another_order_changes_nothing(fleet, bill):
    foreign = row(**{"project.id": "theirs"})
    other = row(**{"sku.description": "Nvidia L4 GPU running in Las Vegas"})
    tax = row(cost_type="tax", cost=3.21)
    mixed = [tax, *reversed(bill.ours), foreign, *bill.ours, other]
    outcome, lines = fleet.told(detailed_csv(mixed))
    assert {line.verdict for line in lines} == {Verdict.MATCHED}
    assert outcome.bill.duplicates == len(bill.ours)
    counts = outcome.bill.counts
    assert (counts.other_projects, counts.not_tpu) == (1, 1)
    assert outcome.bill.apart["tax"].cost == 3_210_000_000


def test_a_bill_of_today_is_pending_where_it_is_not_complete(fleet, bill):
    today = [
        line | {"export_time": bill.ours[-1]["usage_end_time"]}
        for line in bill.ours[1:]
        for line in bill.ours[1:]
    ]
    _, lines = fleet.told(json_lines(today))
    others = [line.verdict for line in lines if line.verdict is not Verdict.MATCHED]
    assert others == [Verdict.PENDING]
