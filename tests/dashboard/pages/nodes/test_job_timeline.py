"""The timeline on the page of a job: its attempts with their nodes and dollars."""

from __future__ import annotations

import re
from html import unescape

from fastapi.testclient import TestClient

from service.dashboard.kit.figures import format_money
from service.dashboard.pages.nodes.job_timeline import ENTRIES_SHOWN
from service.domain.jobs.job import Job
from tests.dashboard.jobs import JobHouse
from tests.dashboard.reading import text_of


def page_of(house: JobHouse, job: Job) -> str:
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        return caller.get(f"/jobs/{job.id}").text


def entries_of(html: str) -> list[str]:
    items = re.findall(r"<li.*?</li>", "".join(_lists_of(html)), re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", item)).split()) for item in items]


def _lists_of(html: str) -> list[str]:
    return re.findall(r'<ol class="timeline".*?</ol>', html, re.DOTALL)


def cents_of(shown: str) -> int:
    return int(re.sub(r"\D", "", shown))


def test_the_attempts_of_a_job_add_up_to_its_cost_and_lead_to_their_nodes(
    house: JobHouse,
) -> None:
    job = house.preempted_twice()
    html, whole = page_of(house, job), house.lab.services.jobs.get_with_attempts(job.id)
    entries = entries_of(html)
    began = [entry for entry in entries if "The attempt began on node" in entry]
    assert len(began) == 3
    total = format_money(whole.shown.cost.cost)
    assert sum(cents_of(entry.split()[-1]) for entry in began) == cents_of(total)
    for found in whole.attempts:
        assert f'href="/nodes/{found.attempt.node_id}">Node</a>' in html
    assert entries[0].startswith("End The job is SUCCEEDED.")
    assert entries[-1].startswith("Request The job was submitted.")
    ended = [entry for entry in entries if "The attempt ended: preempted." in entry]
    assert [entry.split(" The")[0][-9:] for entry in ended] == ["Attempt 2", "Attempt 1"]
    assert any("The newest checkpoint at step 2,400." in entry for entry in entries)
    for look in ("trouble", "up", "job"):  # lost, running, repeated
        assert f'class="span-{look}"' in html


def test_a_job_that_waits_says_its_place_in_the_line(house: JobHouse) -> None:
    _, first, second = house.in_line()
    assert "The job is number 2 in the line of node shared: 1 job comes first." in page_of(
        house, second
    )
    assert "in the line" not in page_of(house, first)


def test_a_job_without_hardware_says_what_its_node_waits_for(house: JobHouse) -> None:
    job = house.jobs.submit(run_name="early")
    house.pass_(60)
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        said = text_of(caller.get(f"/jobs/{job.id}"))
    node = house.jobs.node_of(job)
    assert f"Node {node.name} is CREATING." in said


def test_older_entries_of_many_attempts_are_shown_on_demand(house: JobHouse) -> None:
    job = house.running()
    attempt = house.jobs.attempt(job)
    with house.lab.units() as unit:
        for number in range(2, 80):
            # a claim of another node each, which is over
            unit.jobs.add_attempt(
                type(attempt)(
                    *(f"{job.id}-{number}", job.id, number, job.project, job.node_id),
                    claimed_at=attempt.claimed_at,
                    ended_at=attempt.claimed_at,
                    released_at=attempt.claimed_at,
                )
            )
    shown, older = _lists_of(page_of(house, job))
    assert len(re.findall("<li", shown)) == ENTRIES_SHOWN
    assert len(re.findall("<li", older)) > 100
