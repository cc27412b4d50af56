"""What the manual says that the cleanup will not do, each with a test that proves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.supervisor import supervisor
from tests.architecture.test_promises import asserts, collected
from tests.controllers.test_precedence import CELLS

ROOT = Path(__file__).parents[2]
TEXT = " ".join((ROOT / "service/manual/cleanup.md").read_text().split())

STATEMENTS = {
    "There is no fuse but our daemons: run two.": (
        "controllers/test_keeps.py",
        "test_the_notice_is_as_long_as_ever_after_all_daemons_were_away",
    ),
    "this service gives a node no right to delete itself": (
        "architecture/test_cleanup_statements.py",
        "test_a_node_is_given_no_way_to_delete_itself",
    ),
    "Google ends the node at its time to live, and no keep goes beyond that": (
        "application/cleanup/test_keeps.py",
        "test_a_keep_beyond_the_end_that_google_makes_is_refused_with_its_time",
    ),
    "It never deletes an UNKNOWN node for idleness, however long it is UNKNOWN. People are told"
    " what it costs.": (
        "controllers/idle/test_idle.py",
        "test_the_owner_of_a_node_that_nobody_can_see_is_told_after_two_hours_and_then_daily",
    ),
    "A node without our supervisor (adopted, legacy, or with `supervisor: false`) has signals from"
    " Cloud Monitoring only. If Monitoring has none, the node is never deleted for idleness."
    " `cleanup coverage` counts those nodes, and shows what they cost an hour.": (
        "controllers/idle/test_report_reads.py",
        "test_nodes_without_a_supervisor_are_never_read_and_coverage_says_what_they_cost",
    ),
    "A node that is kept or UNKNOWN is in no plan": (
        "controllers/test_precedence.py",
        "test_each_cell_of_the_table_holds",
    ),
    "It trusts the reports of a node. A user with root on a node can make it look busy without end."
    " The time to live and budgets still end it.": (
        "controllers/test_precedence.py",
        "test_each_cell_of_the_table_holds",
    ),
    "`nodes delete` and `nodes stop` ask before they end a running job; `--force` does not ask.": (
        "cli/nodes/test_keeps.py",
        "test_a_node_on_which_a_job_runs_is_not_ended_unasked",
    ),
    "The job is then FAILED with the reason NODE_DELETED.": (
        "controllers/jobs/test_jobs.py",
        "test_a_person_who_ends_or_stops_a_node_ends_its_job_which_says_so",
    ),
    "It does not judge the use of work. A program that runs the TPU for nothing looks like"
    " training.": (
        "controllers/idle/test_idle.py",
        "test_an_idle_node_goes_after_its_notice_and_a_busy_one_stays",
    ),
}
"""Each statement with its proof: a file below `tests/`, and a test in it."""


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_is_in_the_manual_and_is_proved(statement):
    file, name = STATEMENTS[statement]
    assert statement in TEXT
    test = collected(file, name)
    assert test is not None, f"{file} has no {name}"
    assert asserts(test)


def test_a_node_is_given_no_way_to_delete_itself():
    """A node would need a call of the Cloud TPU API, and a role that allows it."""
    assert "tpu.googleapis.com" not in Path(supervisor.__file__).read_text()
    role = (ROOT / "deploy/iam/steward-role.yaml").read_text().splitlines()
    granted = [line.strip("- ") for line in role if line.startswith("  - ")]
    assert "tpu.nodes.delete" in granted
    grants = [name for name in granted if name.startswith("iam.") or "IamPolicy" in name]
    assert grants == [], "a service that cannot grant a role cannot grant one to a node"


NOTHING = "\N{EN DASH}"

SAID: dict[tuple[str, ...], tuple[str, ...]] = {
    ("goes", "goes", "goes"): ("no", "it has rails of its own"),
    ("stays", "stays", "stays"): ("yes",),
    ("goes", "stays", "goes"): ("a pause does",),
}


def said_of(rank: int, *holders: str) -> list[str]:
    """Whether the node goes in spite of each holder. Of what a person does, a deletion speaks for
    all: a plan has neither kept nor UNKNOWN nodes."""
    names = ("delete", "google", "job end", "budget", "ttl", "idle", "orphan")
    cells = {(name, holder): end for name, holder, end in CELLS}
    return [cells[names[rank - 1], holder] for holder in holders]


@pytest.mark.parametrize("rank", range(1, 8))
def test_the_manual_shows_the_table_that_is_tested(rank):
    lines = (ROOT / "service/manual/cleanup.md").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"| {rank}. ")]
    _, keep, busy, rails = [cell.strip() for cell in line.strip("|").split("|")]
    (by_keep,) = said_of(rank, "keep")
    assert keep.startswith("no" if by_keep == "goes" else ("yes", "adopting it is the keep"))
    match said_of(rank, "unknown", "job"):
        case ["goes", "goes"]:
            assert busy.startswith(("no", NOTHING))
        case ["goes", "stays"]:
            assert busy == "a new job on it ends the wait"
        case _:
            assert busy == "yes"
    assert rails.startswith(SAID[tuple(said_of(rank, "rails", "pause", "observe"))])
