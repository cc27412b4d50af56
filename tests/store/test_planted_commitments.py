"""Commitments of a bill, held against what its rows come to in fractions."""

from __future__ import annotations

import io
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from sqlalchemy import text

from service.application.reconciliations import Reconciliation, ReconciliationService
from service.domain.clock import HOUR
from service.domain.reconciliation import commitments as subject
from service.domain.reconciliation.commitments import BilledCommitment
from service.store.bills import Bills
from tests import factories
from tests.bills import Row, json_lines
from tests.plantedbill import CUD, LATER, NANOS
from tests.plantedcommitments import (
    NONE,
    Case,
    fee,
    first_file,
    later_file,
    owed,
    use,
)
from tests.store.test_bills import ran

ALL = Fraction(1)
UNMEASURED, NO_FEE = ("V5e", "us-east4", 1), ("V6e", "us-west1", 0)


@pytest.fixture
def service(units, clock):
    """A service for the one project whose bill it is."""
    return ReconciliationService(units, clock, [factories.PROJECT])


def sent(service: ReconciliationService, *files: list[Row]) -> Reconciliation:
    """These files, one after the other; what came of the last."""
    return [service.reconcile(io.BytesIO(json_lines(file))) for file in files][-1]


def told(outcome: Reconciliation) -> dict[Case, BilledCommitment]:
    """Its commitments by case."""
    found = outcome.bill.commitments or ()
    return {(f"V{region.generation[1:]}", region.region, region.term): region for region in found}


def is_near(nanos: int | None, exact: Fraction, rounded: int = 2) -> bool:
    """Whether that is the amount to a nano-dollar for each time it was rounded."""
    return nanos is not None and abs(nanos - exact * NANOS) <= rounded


def disagreeing(found: dict[Case, BilledCommitment], wanted: dict[Case, Any]) -> set[Case]:
    """The cases of which another thing is said than the rows come to."""
    return {
        case
        for case in found.keys() | wanted.keys()
        if case not in found or case not in wanted or not agrees(found[case], wanted[case])
    }


def agrees(one: BilledCommitment, owes: Any) -> bool:
    """Whether a commitment is what its rows come to; where a part is not known, the rest is."""
    parts = sum(node.amortised or 0 for node in one.nodes)
    exact = (
        one.eligible in (None, owes.eligible)
        and one.covered in (None, owes.all_covered)
        and one.committed == (owes.committed or None)
        and one.amortised in (None, parts)
        and (one.fee is None or one.unused is None or one.fee == parts + one.unused)
        and all(node.covered == owes.covered[_name(node)] for node in one.nodes)
    )
    return exact and _amounts_agree(one, owes)


def _amounts_agree(one: BilledCommitment, owes: Any) -> bool:
    if not owes.committed:
        return one.fee is None and is_near(one.list_cost, owes.list_cost)
    if one.covered is None or one.fee is None:
        return is_near(one.fee, owes.fee)
    each = owes.fee / owes.committed
    return (
        is_near(one.fee, owes.fee)
        and is_near(one.fee + one.offset, owes.fee + owes.offset)
        and is_near(one.list_cost, owes.list_cost, 9)
        and is_near(one.saving, owes.saving, 9)
        and is_near(one.unused, owes.fee - each * owes.all_covered)
        and all(is_near(node.amortised, each * owes.covered[_name(node)]) for node in one.nodes)
        and len(one.nodes) == len([some for some in owes.covered.values() if some])
    )


def _name(node: Any) -> str:
    return str(node.resource.rpartition("/")[2])


def rows() -> list[Row]:
    return [*first_file(), *later_file()]


def test_each_commitment_is_what_its_rows_come_to(service):
    found, wanted = told(sent(service, first_file(), later_file())), owed(rows())
    assert len(wanted) == 11
    assert disagreeing(found, wanted) == set()


def nothing_is_covered(patch):
    patch.setattr(subject, "_add_covered", lambda *_: None)


def everything_is_covered(patch):
    counted = subject.CommitmentCounter.add

    def all_of_it(self, usages):
        whole = [replace(usage, model="CUD", discount=0) for usage in usages]
        counted(self, whole)

    patch.setattr(subject.CommitmentCounter, "add", all_of_it)


def fees_are_ignored(patch):
    patch.setattr(Bills, "list_fees", lambda *_: [])


def terms_are_ignored(patch):
    patch.setattr(subject, "term_of", lambda *_: 1)


def corrections_are_ignored(patch):
    patch.setattr(subject.Fee, "__add__", lambda self, _: self)


@pytest.mark.parametrize(
    ("broken", "found_by"),
    [
        (nothing_is_covered, ("V6e", "us-east5", 1)),
        (everything_is_covered, ("V5e", "us-west4", 1)),
        (fees_are_ignored, ("V6e", "us-central1", 3)),
        (terms_are_ignored, ("V5p", "us-east5", 3)),
        (corrections_are_ignored, ("V5e", "us-east1", 1)),
    ],
)
def test_a_rule_of_commitments_that_is_broken_is_found(service, monkeypatch, broken, found_by):
    broken(monkeypatch)
    found = told(sent(service, first_file(), later_file()))
    assert found_by in disagreeing(found, owed(rows()))


def test_utilisation_and_coverage_are_shares_of_hours(service):
    found = told(sent(service, first_file(), later_file()))
    shares = {case: (one.utilisation, one.coverage) for case, one in found.items()}
    assert shares == {
        ("V6e", "us-east5", 1): ("100.0000", "80.0000"),
        ("V6e", "us-south1", 1): ("50.0000", "100.0000"),
        ("V5e", "us-west4", 1): ("88.8889", "50.0000"),
        ("V5p", "us-east5", 1): ("75.0000", "50.0000"),
        ("V5p", "us-east5", 3): ("75.0000", "25.0000"),
        ("V6e", "us-central1", 3): ("0.0000", None),
        NO_FEE: (None, "50.0000"),
        ("V5e", "us-east1", 1): ("60.0000", "100.0000"),
        ("V5p", "europe-west4", 1): ("71.4286", "100.0000"),
        ("V6e", "europe-west4", 3): ("50.0000", "50.0000"),
        UNMEASURED: (None, None),
    }


def test_what_is_not_known_has_its_reason(service):
    found = told(sent(service, first_file(), later_file()))
    assert {case: one.reasons for case, one in found.items() if one.reasons} == {
        NO_FEE: (subject.NO_FEE,),
        ("V6e", "us-central1", 3): (subject.NOTHING_ELIGIBLE,),
        UNMEASURED: (
            "covered hours of nodes without an amount of use or of cost: 1",
            "on-demand hours of nodes without an amount of use: 1",
        ),
    }


def test_a_commitment_that_nobody_used_saves_less_than_nothing(service):
    one = told(sent(service, first_file()))["V6e", "us-central1", 3]
    assert (one.fee, one.unused, one.saving) == (121_500_000_000, 121_500_000_000, -121_500_000_000)


def test_the_order_of_the_files_changes_nothing(service):
    in_order = told(sent(service, first_file(), later_file()))
    assert told(sent(service, later_file()[::-1], first_file()[::-1] + later_file())) == in_order


def test_the_nodes_that_are_covered_are_ours(service, units):
    node = ran(units, "half")
    one = told(sent(service, first_file()))["V6e", "us-south1", 1]
    assert [(each.node_id, each.covered) for each in one.nodes] == [(node.id, 16 * 3_600)]


def test_more_covered_than_committed_is_not_called_utilisation(service):
    bill = [
        fee("V6e", "us-east5", 1, 8, "15"),
        *(use("V6e", "us-east5", "much", hour, 8, ALL) for hour in range(2)),
    ]
    one = told(sent(service, bill))["V6e", "us-east5", 1]
    assert (one.utilisation, one.unused, one.saving) == (None, None, None)
    assert one.coverage == "100.0000"
    assert subject.MORE_COVERED in one.reasons


def test_usage_that_a_later_invoice_takes_back_is_taken_off_there(service):
    once = use("V6e", "us-east5", "once", 0, 8, ALL)
    back = use(
        *("V6e", "us-east5", "once", 0, 8, ALL),
        usage={"amount": -8 * HOUR, "unit": "seconds"},
        export_time=LATER,
        cost="-21.6",
        cost_at_list="-21.6",
        credits=[{"type": CUD, "amount": "21.6"}],
        invoice={"month": "202612"},
    )
    outcome = sent(service, [fee("V6e", "us-east5", 1, 8, "15"), once, back])
    first, later = outcome.bill.commitments or ()
    assert (first.month, first.covered, first.utilisation) == ("2026-11", 8 * HOUR, "100.0000")
    assert (later.month, later.covered, later.list_cost) == ("2026-12", -8 * HOUR, -21_600_000_000)
    assert (later.coverage, later.utilisation) == (None, None)


def test_a_fee_without_an_amount_of_use_shows_coverage_alone(service):
    bill = [
        fee("V6e", "us-east5", 1, 8, "15", usage={}),
        use("V6e", "us-east5", "some", 0, 8, ALL),
    ]
    one = told(sent(service, bill))["V6e", "us-east5", 1]
    assert (one.fee, one.utilisation, one.coverage) == (15 * NANOS, None, "100.0000")
    assert one.reasons == (subject.NO_HOURS,)
    assert one.saving == 6_600_000_000


def test_a_fee_for_a_continent_is_used_in_each_of_its_regions(service):
    american = {"sku": {"id": "T-7", "description": "TPU7x running in Americas"}}
    said = "Commitment v1: TPU7x running in Americas for 3 Years"
    paid = fee("V6e", "us-east5", 3, 16, "100", sku={"id": "C-7", "description": said}, location={})
    bill = [
        paid,
        *(
            use("V6e", f"us-{region}", region, 0, 8, ALL, **american)
            for region in ("east1", "west1")
        ),
    ]
    (one,) = told(sent(service, bill)).values()
    assert (one.region, one.term, one.utilisation) == ("Americas", 3, "100.0000")


def test_a_bill_without_commitments_has_none(service):
    outcome = sent(service, [use("V6e", "us-east5", "plain", 0, 8, NONE)])
    assert outcome.bill.commitments == ()


def test_a_bill_that_was_imported_before_is_asked_when_it_is_read(service, engine):
    outcome = sent(service, first_file())
    with engine.begin() as connection:
        connection.execute(text("UPDATE bills SET commitments = 'null'"))
        connection.execute(text("UPDATE bill_rows SET region = '', consumption_model = ''"))
    again = service.get_outcome(outcome.bill.id)
    before, after = told(outcome), told(again)
    lower_price = ("V6e", "europe-west4", 3)
    assert before.keys() == after.keys()
    changed = {case for case in before if before[case] != after[case]}
    assert changed == {lower_price}, "its model was not kept then"


def test_a_trial_keeps_its_commitments_and_no_rows(service):
    outcome = service.reconcile(io.BytesIO(json_lines(first_file())), alone=True)
    assert len(told(service.get_outcome(outcome.bill.id))) == 11
