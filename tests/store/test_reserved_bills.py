"""Bills over books with one of everything: machines are left out, reservations held together."""

from __future__ import annotations

import io

import pytest

from service.application.costs.exports import ExportService
from service.application.pricing.reservations import ReservationService
from service.application.reconciliations import ReconciliationService
from service.domain.clock import DAY, HOUR
from service.domain.costs.focus import Account, Version
from service.domain.reconciliation.variance import Verdict
from service.store.pricebook import PriceBookCache
from tests import books, factories
from tests.bills import detailed_csv, focus_csv, json_lines, row, time_of
from tests.books import CHIP_HOUR, MACHINE_HOUR, START, TPU_HOUR
from tests.charges import read
from tests.hands import NOON
from tests.purchases import metered, ran_reserved
from tests.store.test_bills import verdicts

CALENDAR = "Reserved TpuV5e in Las Vegas in Calendar Mode"
MARCH = "projects/lab/locations/us-west4-a/reservations/march"
HOURS = range(START, START + 4 * HOUR, HOUR)


@pytest.fixture
def service(units, clock):
    """The reconciliations of one project."""
    return ReconciliationService(units, clock, [factories.PROJECT])


def told(service, content, **more):
    outcome = service.reconcile(io.BytesIO(content), **more)
    return outcome, [kept.line for kept in service.list_lines(outcome.bill.id, (), 0, 10_000)]


def billed(at, chips, resource="", **changes):
    """What Google bills for an hour of so many chips of a reservation."""
    values = {
        "sku": {"id": "4C1E-95B3-9D7B", "description": CALENDAR},
        "resource": {"name": resource.rpartition("/")[2], "global_name": resource},
        "usage_start_time": time_of(at),
        "usage_end_time": time_of(at + HOUR),
        "export_time": time_of(NOON),
        "cost": chips * CHIP_HOUR / 1e9,
        "cost_at_list": chips * CHIP_HOUR / 1e9,
        "usage.amount": chips * HOUR,
    }
    return row(**(values | changes))


def exported(units, clock):
    service = ExportService(units, PriceBookCache(), clock, Account.from_settings("", "steward"))
    return "".join(service.export_focus(Version.V1_4, "2026-11-01,2026-12-01").pieces)


def test_our_own_export_read_back_as_a_bill_matches_in_every_line(service, units, clock):
    books.kept(units, clock)
    text = exported(units, clock)
    outcome, lines = told(service, text.encode(), tolerance=0)
    assert set(verdicts(outcome)) == {Verdict.MATCHED}
    assert sum(line.charged for line in lines) == sum(line.billed for line in lines)
    machines = [row for row in read(text) if row["ResourceType"] == "Virtual Machine"]
    counts = outcome.bill.counts
    assert counts.not_tpu == counts.machine_entries == len(machines) == 5
    assert counts.machine_nanos == 5 * MACHINE_HOUR - MACHINE_HOUR // 60
    assert {line.reservation for line in lines} == {"", "march"}


def test_so_it_does_where_a_record_was_withdrawn(service, units, clock):
    bought = books.kept(units, clock).bought
    projects = [factories.PROJECT]
    ReservationService(units, PriceBookCache(), clock, projects).withdraw(bought.id, "bought twice")
    metered(units, clock)
    outcome, _ = told(service, exported(units, clock).encode(), tolerance=0)
    assert set(verdicts(outcome)) == {Verdict.MATCHED}


@pytest.mark.parametrize("written", [json_lines, detailed_csv, focus_csv])
@pytest.mark.parametrize("resource", ["", MARCH, MARCH.replace("march", "4711"), "t1v-n-5f2b-w-0"])
def test_what_is_billed_for_a_reservation_is_held_against_used_and_unused(
    service, units, clock, resource, written
):
    """Whoever ran in it, and although five seconds of it are charged to two nodes."""
    books.reservation(units, clock)
    ran_reserved(units, START + 17, START + 3 * HOUR + 5)
    ran_reserved(units, START + 3 * HOUR, START + 4 * HOUR)
    metered(units, clock)
    rows = [billed(at, 8, resource) for at in HOURS]
    outcome, lines = told(service, written(rows), tolerance=0)
    assert verdicts(outcome) == {Verdict.MATCHED: 4}
    assert [(line.reservation, line.node_id, line.charged) for line in lines] == [
        ("march", "", 8 * CHIP_HOUR)
    ] * 4


def test_nodes_that_are_billed_by_name_stay_by_themselves(service, units, clock):
    books.reservation(units, clock, chips=16)
    node = ran_reserved(units, START, START + 4 * HOUR, cloud_id="first-1")
    metered(units, clock)
    rows = [billed(at, 8, resource) for at in HOURS for resource in ("first-1", MARCH)]
    outcome, lines = told(service, json_lines(rows))
    assert verdicts(outcome) == {Verdict.MATCHED: 8}
    assert {(line.node_id, line.reservation) for line in lines} == {(node.id, ""), ("", "march")}


def test_a_reservation_is_no_node_although_it_is_called_like_one(service, units, clock):
    books.reservation(units, clock, name="run-1")
    books.ran(units, START, START + HOUR, cloud_id="run-1")
    metered(units, clock)
    rows = [
        billed(START, 8, MARCH.replace("march", "run-1")),
        row(usage_start_time=time_of(START), usage_end_time=time_of(START + HOUR)),
    ]
    outcome, _ = told(service, json_lines(rows))
    assert verdicts(outcome) == {Verdict.MATCHED: 2}


def test_what_was_bought_beside_us_is_a_leak(service, units, clock):
    books.reservation(units, clock)
    metered(units, clock)
    elsewhere = billed(START, 8, location={"zone": "us-west4-b"})
    _, (leak, march) = told(service, json_lines([elsewhere, billed(START, 8)]))
    assert (leak.verdict, march.verdict) == (Verdict.BILL_WITHOUT_NODE, Verdict.MATCHED)
    assert "no recorded reservation matches" in leak.reason


def test_a_reservation_that_is_not_on_the_bill_is_told_by_its_name(service, units, clock):
    books.reservation(units, clock)
    metered(units, clock)
    other = billed(START, 8, **{"project.id": "theirs"})
    _, (line,) = told(service, json_lines([other]))
    assert (line.verdict, line.reservation) == (Verdict.NODE_WITHOUT_BILL, "march")
    assert line.node_id == ""
    assert line.reason == (
        "charged by us and not on the bill; march is recorded from"
        " 2026-11-01T12:00:00Z to 2026-11-02T12:00:00Z"
    )


def test_a_machine_beside_a_node_is_left_out_and_disturbs_nothing(service, units, clock):
    """Google's own rows of it are by core and memory, and no TPU's."""
    node = books.legacy(units, START, START + HOUR)
    metered(units, clock)
    when = {"usage_start_time": time_of(START), "usage_end_time": time_of(START + HOUR)}
    tpu = row(
        **when,
        **{"service.id": "E000-3F24-B8AA", "sku.description": "Tpu-v2 Accelerator"},
        resource={"name": "old-1", "global_name": "old-1"},
        cost=TPU_HOUR / 1e9,
        cost_at_list=TPU_HOUR / 1e9,
        usage={"amount": 1, "unit": "hour"},
    )
    core = row(**when, **{"sku.description": "N1 Predefined Instance Core running in Americas"})
    outcome, (line,) = told(service, json_lines([tpu, core]), tolerance=0)
    assert (line.node_id, line.verdict) == (node.id, Verdict.MATCHED)
    assert (line.charged, line.charged_chip_seconds) == (TPU_HOUR, 4 * HOUR)
    counts = outcome.bill.counts
    assert (counts.machine_entries, counts.machine_nanos) == (1, MACHINE_HOUR)
    assert service.get_outcome(outcome.bill.id).bill.counts == counts


def test_machines_outside_of_the_hours_of_the_bill_are_not_counted(service, units, clock):
    books.legacy(units, START, START + HOUR)
    metered(units, clock)
    later = {"usage_start_time": time_of(START + DAY), "usage_end_time": time_of(START + DAY)}
    outcome, _ = told(service, json_lines([row(**later)]))
    assert outcome.bill.counts.machine_entries == 0
