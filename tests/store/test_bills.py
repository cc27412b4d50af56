"""Bills over a real database: every verdict is found, and how the rows come changes nothing."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.application.reconciliations import ReconciliationService
from service.domain.clock import HOUR
from service.domain.errors import NotFound, Rejected
from service.domain.metering.meter import Evidence
from service.domain.nodes.placement import Placement
from service.domain.orphans.orphan import OrphanKind
from service.domain.reconciliation.variance import Seen, Verdict
from service.store.observations import Observation
from tests import factories
from tests.bills import detailed_csv, focus_csv, json_lines, row, time_of
from tests.garbage import orphan, shown
from tests.hands import NOON
from tests.store import given as there

DOLLAR = 1_000_000_000
RATE = 9_600_000_000
START = NOON - 96 * HOUR
PROJECT = factories.PROJECT


@pytest.fixture
def service(units, clock):
    """The reconciliations of one project."""
    return ReconciliationService(units, clock, [PROJECT])


def ran(units, cloud_id="run-1", hours=3, start=START, **changes):
    """A node that was READY for some hours, all of them in the ledger."""
    node = there.stored(units, name=cloud_id)
    with units() as unit:
        unit.placements.add(Placement(node.id, 1, node.zone, "on_demand", cloud_id, start - 60))
    usage = there.ran(
        units,
        node,
        start=start,
        end=start + hours * HOUR,
        end_lo=start + hours * HOUR,
        end_evidence=Evidence.OPERATION,
        dirty=True,
        **changes,
    )
    there.metered(units, usage, factories.book(), NOON)
    return node


def hours_of(cloud_id="run-1", hours=3, start=START, **changes):
    """What Google bills for it."""
    path = f"//tpu.googleapis.com/projects/{PROJECT}/locations/us-west4-a/nodes/{cloud_id}"
    return [
        row(
            **{
                "resource": {"name": cloud_id, "global_name": path},
                "usage_start_time": time_of(at),
                "usage_end_time": time_of(at + HOUR),
                "export_time": time_of(NOON),
                **changes,
            }
        )
        for at in range(start, start + hours * HOUR, HOUR)
    ]


def reconciled(service, content, **more):
    return service.reconcile(io.BytesIO(content), **more)


def result(service, outcome):
    """All that a reconciliation says, but for the numbers of its rows."""
    lines = [kept.line for kept in service.list_lines(outcome.bill.id, (), 0, 10_000)]
    return outcome.headline, outcome.bill.apart, sorted(map(repr, lines))


@pytest.fixture
def one_ran(units):
    """A node that was READY for three hours."""
    return ran(units)


def verdicts(outcome):
    return {verdict: one.lines for verdict, one in outcome.headline.verdicts.items() if one.lines}


@pytest.mark.parametrize(
    "written", [json_lines, detailed_csv, lambda rows: detailed_csv(rows, "_"), focus_csv]
)
def test_a_bill_that_is_right_matches_in_whatever_form_it_comes(service, units, written):
    ran(units)
    outcome = reconciled(service, written(hours_of()))
    assert verdicts(outcome) == {Verdict.MATCHED: 3}
    assert (outcome.headline.total.variance, outcome.headline.total.percent) == (0, "0.0000")
    assert outcome.headline.total.matched == 3 * RATE


def test_every_verdict_is_found_in_one_bill(service, units):
    good, phantom, dear = ran(units, "good"), ran(units, "phantom"), ran(units, "dear")
    new = ran(units, "new", hours=1, start=NOON - 10 * HOUR)
    with units() as unit:
        for bill in (good, phantom):
            look = Observation(bill.id, "7001", "READY", None, START + 60, START + 60, "inventory")
            unit.observations.add(look)
        unit.orphans.add(orphan(kind=OrphanKind.STRANGER, shown=shown("somebodys")))
    rows = [
        *hours_of("good")[:2],
        *hours_of("dear", cost=9.7),
        *hours_of("somebodys", hours=1, cost=5),
        *hours_of("nobodys", hours=1, cost=7),
        row(**{"project.id": "theirs"}),
        row(**{"sku.description": "Nvidia L4 GPU running in Las Vegas"}),
        row(cost_type="tax", cost=1.23, export_time=time_of(NOON)),
    ]
    outcome = reconciled(service, json_lines(rows))
    lines = [kept.line for kept in service.list_lines(outcome.bill.id, (), 0, 1_000)]
    told = {(line.verdict, line.node_id or line.resource.rpartition("/")[2]) for line in lines}
    assert told == {
        (Verdict.MATCHED, good.id),
        (Verdict.NODE_WITHOUT_BILL, good.id),
        (Verdict.NODE_WITHOUT_BILL, phantom.id),
        (Verdict.AMOUNT_DIFFERS, dear.id),
        (Verdict.BILL_WITHOUT_NODE, "somebodys"),
        (Verdict.BILL_WITHOUT_NODE, "nobodys"),
    }
    assert all(line.node_id != new.id for line in lines), "the bill does not reach that far"
    seen = {line.resource.rpartition("/")[2]: line.seen for line in lines if not line.node_id}
    assert seen == {"somebodys": Seen.ORPHAN, "nobodys": Seen.NEVER}
    (ghost, *_) = [line for line in lines if line.node_id == phantom.id]
    assert ghost.seen is Seen.OBSERVED
    assert "1 poll saw it READY" in ghost.reason
    assert "(operation)" in ghost.reason
    assert outcome.headline.total.more == 12 * DOLLAR + 3 * DOLLAR // 10
    assert outcome.headline.total.less == -4 * RATE
    counts = outcome.bill.counts
    assert (counts.rows, counts.other_projects, counts.not_tpu) == (10, 1, 1)
    assert (outcome.bill.apart["tax"].rows, outcome.bill.apart["tax"].cost) == (1, 1_230_000_000)


def test_what_is_younger_than_two_days_is_pending(service, units):
    ran(units, hours=1, start=NOON - 47 * HOUR)
    ran(units, "old")
    rows = hours_of("old")
    rows += hours_of("old", hours=1, start=NOON - 47 * HOUR, **{"project.id": "theirs"})
    outcome = reconciled(service, json_lines(rows))
    assert verdicts(outcome) == {Verdict.MATCHED: 3, Verdict.PENDING: 1}
    assert outcome.headline.total.variance == 0


def test_a_cent_is_tolerated_and_none_when_told_so(service, units):
    ran(units)
    content = json_lines(hours_of(cost=9.609))
    assert verdicts(reconciled(service, content)) == {Verdict.TOLERATED: 3}
    strict = reconciled(service, content, tolerance=0)
    assert verdicts(strict) == {Verdict.AMOUNT_DIFFERS: 3}
    assert strict.headline.total.variance == 3 * 9_000_000


def test_a_row_that_is_there_twice_counts_once_and_a_correction_adds_up(service, units):
    ran(units)
    twice = hours_of() * 3
    later = {"export_time": time_of(NOON + 60)}
    corrections = hours_of(hours=1, cost=-9.6, cost_at_list=-9.6, usage={}, **later)
    again = hours_of(hours=1, usage={}, export_time=time_of(NOON + 120))
    outcome = reconciled(service, json_lines([*twice, *corrections, *again]))
    assert outcome.bill.duplicates == 6
    assert verdicts(outcome) == {Verdict.MATCHED: 3}


def test_our_own_names_for_a_node_are_known_whatever_the_bill_calls_it(service, units):
    first = ran(units, "run-1", hours=1)
    second = ran(units, "run-2", hours=1)
    with units() as unit:
        unit.nodes.save(replace(unit.nodes.get(second.id), cloud_uid="7002"))
    label = {"labels": [{"key": "steward-id", "value": first.id}]}
    rows = hours_of("t1v-n-5f2b-w-0", hours=1, **label) + hours_of("7002", hours=1)
    assert verdicts(reconciled(service, json_lines(rows))) == {Verdict.MATCHED: 2}


def test_slices_of_a_node_are_that_node(service, units):
    ran(units, "many", hours=1)
    half = {"cost": 4.8, "cost_at_list": 4.8, "usage.amount": 14_400}
    rows = hours_of("many-0", hours=1, **half) + hours_of("many-1", hours=1, **half)
    assert verdicts(reconciled(service, json_lines(rows))) == {Verdict.MATCHED: 1}


def test_a_name_that_is_ours_in_another_project_is_not_ours_here(units, clock):
    ran(units)
    both = ReconciliationService(units, clock, [PROJECT, "other"])
    outcome = reconciled(both, json_lines(hours_of(**{"project.id": "other"})))
    assert outcome.headline.verdicts[Verdict.BILL_WITHOUT_NODE].lines == 3


def test_credits_are_shown_and_are_no_variance(service, units):
    ran(units)
    outcome = reconciled(service, json_lines(hours_of(credits=[{"amount": -1.6}])))
    assert verdicts(outcome) == {Verdict.MATCHED: 3}
    assert outcome.headline.total.net == 3 * 8 * DOLLAR


def test_the_same_file_again_is_told_and_changes_nothing(service, units, clock):
    ran(units)
    first = reconciled(service, json_lines(hours_of()), name="november")
    before = result(service, first)
    clock.pass_(HOUR)
    again = reconciled(service, json_lines(hours_of()), name="another name")
    assert again.known
    assert not first.known
    assert again.bill == first.bill
    assert result(service, again) == before
    assert len(service.list_newest(10)) == 1


def test_of_a_file_that_is_refused_nothing_is_kept(service, units):
    ran(units)
    wrong = [*hours_of(), *hours_of(currency="Dollars")]
    with pytest.raises(Rejected, match=r"row 4: its currency is 'DOLLARS'"):
        reconciled(service, json_lines(wrong))
    assert service.list_newest(10) == []
    with units.reading() as unit:
        assert unit.bills.list_abandoned(NOON + HOUR) == []
    assert verdicts(reconciled(service, json_lines(hours_of()))) == {Verdict.MATCHED: 3}


@pytest.mark.parametrize("changes", [{"cost": "5e9"}, {"usage": {"amount": "5e18", "unit": "s"}}])
def test_a_bill_that_comes_to_more_than_can_be_kept_is_refused(service, changes):
    rows = [row(**changes, **{"sku.id": f"sku-{number}"}) for number in range(2)]
    with pytest.raises(Rejected, match="row 2: with the rows before it, the sum is more"):
        reconciled(service, json_lines(rows))
    assert service.list_newest(9) == []


def test_a_header_alone_is_no_bill(service):
    header = detailed_csv([row()]).splitlines()[0]
    with pytest.raises(Rejected, match="a header and no rows"):
        reconciled(service, header)


def test_what_was_never_finished_is_cleared_away_and_never_shown(service, units, clock):
    done = reconciled(service, json_lines(hours_of()))
    with units() as unit:
        unit.bills.add(replace(done.bill, id="half", finished_at=None))
    assert [bill.bill.id for bill in service.list_newest(10)] == [done.bill.id]
    with pytest.raises(NotFound):
        service.get_outcome("half")
    clock.pass_(7 * HOUR)
    reconciled(service, json_lines(hours_of(hours=1)))
    with units.reading() as unit:
        assert unit.bills.list_abandoned(clock()) == []


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["run-1", "leak"]),
        st.integers(0, 3),
        st.sampled_from([9.6, 4.8, -9.6]),
        st.sampled_from([NOON, NOON + 60]),
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.deep
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=ROWS, luck=st.randoms(use_true_random=False), lines=st.booleans())
def test_order_and_duplicates_of_rows_never_change_the_result(service, one_ran, rows, luck, lines):
    content = [
        hours_of(name, hours=1, start=START + at * HOUR, cost=cost, export_time=time_of(when))[0]
        for name, at, cost, when in rows
    ]
    mixed = content + [bill for bill in content if luck.random() < 0.5]
    luck.shuffle(mixed)
    written = json_lines if lines else detailed_csv
    straight = result(service, reconciled(service, written(content)))
    assert result(service, reconciled(service, written(mixed))) == straight
