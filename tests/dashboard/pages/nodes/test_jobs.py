"""The pages of jobs: what they say is what the application says, and text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import pytest
from fastapi.testclient import TestClient

from service.api.app import create_app
from service.application.costs.costs import CostQuestion
from service.application.jobs import last_lines
from service.application.jobs.logs import JobLogService
from service.dashboard.kit.figures import format_duration, format_money, to_moment
from service.dashboard.kit.visible_text import escape_invisible, escape_log_line, format_argv
from service.dashboard.pages.nodes import jobs as jobs_page
from service.dashboard.pages.nodes.job import format_exit_codes
from service.dashboard.routes import add_dashboard
from service.domain.clock import HOUR, floor_to
from service.domain.errors import CloudUnavailable, RateLimited
from service.domain.idle.cleanup import WatchedNode
from service.domain.idle.course import IdleCourse, State
from service.domain.idle.proof import Signals
from service.domain.idle.rollup import ActivityHour
from service.domain.idle.signals.signal import Kind
from service.domain.jobs.job import Job, JobSpec, JobState
from service.domain.jobs.phases import Spent
from service.domain.jobs.transition import new_attempt
from service.domain.metering.attribution import Attribution
from tests import factories
from tests.dashboard.jobs import JobHouse
from tests.dashboard.lab import Lab
from tests.dashboard.reading import cells_of, links_of, main_of, nanos_of, text_of
from tests.fake_jobs import DIGEST, NoLogs


@pytest.fixture
def browser(house: JobHouse) -> Iterator[TestClient]:
    """Asks for pages as a browser does, without being one."""
    with TestClient(house.lab.app(), base_url="http://localhost") as client:
        yield client


def _names(html: str) -> list[str]:
    return [row[0] for row in cells_of(html)[1:]]


# the list


def test_before_the_first_job_there_is_one_command_to_type(browser: TestClient) -> None:
    said = text_of(browser.get("/jobs"))
    assert "No jobs yet." in said
    assert "tpu-steward jobs submit --image IMAGE --accelerator-type v5litepod-8" in said


def test_each_job_is_a_row_and_the_newest_comes_first(house: JobHouse, browser: TestClient) -> None:
    failed, cancelled = house.failed(), house.cancelled(team="language")
    page = browser.get("/jobs")
    assert _names(page.text) == ["wrong-branch", "llama-sweep"]
    row = cells_of(page.text)[2]
    assert row[1:5] == ["grace", "vision", "jax:7", house.jobs.shown(failed).node_name]
    assert row[5].split("\n")[0] == "FAILED"
    assert "worker 2 ended first, with exit code 7" in row[5]
    submitted = f"{to_moment(failed.created_at).full[:16].replace(' ', '')} UTC"
    cost = format_money(house.jobs.shown(failed).cost.cost)
    assert row[6:] == ["1", "2 min", submitted, cost]
    links = links_of(page.text)
    assert links["llama-sweep"] == f"/jobs/{failed.id}"
    assert links["wrong-branch"] == f"/jobs/{cancelled.id}"
    assert links[row[4]] == f"/nodes/{house.jobs.node_of(failed).id}"
    running = house.running()
    took = format_duration(house.jobs.clock() - running.created_at)
    assert cells_of(browser.get("/jobs").text)[1][7] == f"{took}so far"


def test_only_the_jobs_of_a_team_or_owner_are_shown_when_one_is_asked_for(
    house: JobHouse, browser: TestClient
) -> None:
    node = house.jobs.up(name="shared", team="language")
    house.jobs.submit(run_name="ours", team="vision", owner="ada")
    house.jobs.submit(run_name="theirs", node=node.id, team="language", owner="lin")
    for question, names in (
        ({"team": "vision"}, ["ours"]),
        ({"team": "language"}, ["theirs"]),
        ({"owner": "lin"}, ["theirs"]),
        ({"node_id": node.id}, ["theirs"]),
        ({"project": factories.PROJECT}, ["theirs", "ours"]),
    ):
        page = browser.get("/jobs", params=question)
        assert _names(page.text) == names
        ((key, value),) = question.items()
        assert f"only {key.removesuffix('_id')}: {value} remove" in text_of(page)
    assert "None with these filters." in text_of(browser.get("/jobs?team=nobody"))


def test_one_state_can_be_chosen(house: JobHouse, browser: TestClient) -> None:
    house.cancelled()
    house.jobs.submit(run_name="fresh")
    assert _names(browser.get("/jobs?state=CANCELLED").text) == ["wrong-branch"]
    page = browser.get("/jobs?state=queued&team=vision")
    assert _names(page.text) == ["fresh"]
    links = links_of(page.text)
    assert links["timed out"] == "/jobs?state=TIMED_OUT&team=vision"
    assert {state.lower().replace("_", " ") for state in JobState} <= links.keys()
    assert re.findall(r'aria-current="true">(.*?)<', main_of(page)) == ["queued"]


def test_a_state_that_no_job_has_is_refused_in_words(browser: TestClient) -> None:
    page = browser.get("/jobs", params={"state": "<b>"})
    assert page.status_code == 422
    assert "is not a state of a job; write one of QUEUED" in text_of(page)
    assert links_of(page.text)["All jobs"] == "/jobs"
    assert "<b>" not in page.text


def test_many_jobs_come_page_by_page_with_the_same_filter(
    house: JobHouse, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_page, "JOBS", 2)
    for number in range(3):
        house.jobs.submit(run_name=f"run-{number}", team="vision")
        house.jobs.submit(run_name=f"other-{number}", team="language")
    first = browser.get("/jobs?team=vision")
    older = browser.get(links_of(first.text)["Older jobs"])
    assert [*_names(first.text), *_names(older.text)] == ["run-2", "run-1", "run-0"]
    assert links_of(older.text)["Newest jobs"] == "/jobs?team=vision"
    assert "Older jobs" not in links_of(older.text)
    assert _names(browser.get("/jobs?team=vision&after=%00%22'").text) == ["run-2", "run-1"]


def test_a_picture_that_is_too_old_is_called_so_here_too(lab: Lab) -> None:
    lab.clock.pass_(600)
    with TestClient(lab.app(), base_url="http://localhost") as browser:
        assert "the cloud was last polled 10 min ago" in text_of(browser.get("/jobs"))


# one job


def test_a_failed_job_says_why_with_the_evidence(house: JobHouse, browser: TestClient) -> None:
    job = house.failed()
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert "Worker 2 ended first, with exit code 7." in said
    assert "Evidence: Every worker reported after its end, and saw no notice." in said
    assert "Exit code 143 on workers 0\N{EN DASH}1, 3; 7 on worker 2." in said
    assert "worker 2 ValueError: batch of 1000 does not divide over 16 devices" in said
    assert f"tpu-steward jobs logs {job.id}" in said
    assert "jobs cancel" not in said


@pytest.mark.deep
def test_the_phases_and_the_attempts_come_to_the_cost_to_the_last_nano_dollar(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.preempted_twice()
    cost = house.jobs.shown(job).cost
    page = browser.get(f"/jobs/{job.id}").text
    _, *phases, total = cells_of(page[page.index('id="money-heading"') :])
    amounts = [nanos_of(row[-1]) for row in phases]
    assert sum(amounts) == nanos_of(total[-1]) == cost.cost > 0
    assert amounts[0] == 0, "the queue costs nothing"
    assert len(phases) == 1 + len(Spent)
    _, *attempts = cells_of(page[page.index('id="attempts-heading"') :])
    assert [row[0] for row in attempts] == ["Attempt 1", "Attempt 2", "Attempt 3"]
    assert sum(nanos_of(row[-1]) for row in attempts) == cost.cost
    ends = ["preempted", "preempted", "completed"]
    assert all(row[4].startswith(end) for row, end in zip(attempts, ends, strict=True))
    assert [bool(row[5].strip("\N{EN DASH}")) for row in attempts] == [True, True, False]


def test_the_time_in_which_nothing_is_charged_is_the_queue(
    house: JobHouse, browser: TestClient
) -> None:
    _, first, second = house.in_line()
    waited = house.jobs.clock() - second.created_at
    assert house.lab.services.jobs.get(second.id).cost.waited_seconds == waited
    assert house.lab.services.jobs.get(first.id).cost.waited_seconds <= 10
    page = browser.get(f"/jobs/{second.id}")
    said = text_of(page)
    assert "queue waited for its turn or for hardware; nothing is charged 30 s $0.00" in said
    assert "None yet: the job waits for its turn." in said
    assert f"UTC It waits on node shared behind job {first.id}. " in said


def test_the_costs_of_a_job_alone_are_one_click_away(house: JobHouse, browser: TestClient) -> None:
    house.cancelled()
    node, job, _ = house.in_line()
    page = browser.get(f"/jobs/{job.id}")
    costs = browser.get(links_of(page.text)["Costs of this job"])
    cost = house.jobs.shown(job).cost.cost
    assert cost < house.jobs.cost(node)
    assert f"Cost {format_money(cost)}" in text_of(costs)
    report = house.lab.services.costs.report(CostQuestion("30d", only={"job": [job.id]}))
    assert report.total == cost
    house.lab.clock.pass_(3_600)
    house.lab.learned(node)
    lines = house.lab.services.nodes.list_ledger_lines(node.id, 0, 10)
    pages = [browser.get(f"/nodes/{node.id}/ledger/{line.id}").text for line in lines]
    assert f"/jobs/{job.id}" in {links_of(page).get(job.id) for page in pages}


def test_what_has_no_price_is_not_free(house: JobHouse, browser: TestClient) -> None:
    now = house.lab.clock.now
    node = house.lab.ran(now - 600, zone="asia-nowhere1-a", name="priceless")
    spec = JobSpec("jax:7", run_name="r")
    job = Job("019a9f3e", "lab", spec, now - 600, node_id=node.id, attempt=1, state="RUNNING")
    with house.lab.units() as unit:
        unit.jobs.add(job, None)
        unit.jobs.add_attempt(new_attempt(job, node, generation=1, now=now - 600))
        unit.nodes.charge_to(Attribution(node.id, now - 600, job=job.id), now)
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert "No price is known for 10 min of its use." in said
    assert "Cost so far not known" in said
    assert cells_of(browser.get("/jobs").text)[1][-1] == "not known"


@pytest.mark.deep
def test_a_running_job_says_what_can_be_typed_and_that_it_goes_on(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.running()
    page = browser.get(f"/jobs/{job.id}")
    said = text_of(page)
    assert "RUNNING since" in said
    assert "The containers run." in said
    assert f"tpu-steward jobs logs -f {job.id}" in said
    assert f"tpu-steward jobs cancel {job.id}" in said
    assert not re.search(r"<(form|button|input)", main_of(page)), "the page only shows"
    assert browser.post(f"/jobs/{job.id}").status_code == 405
    house.jobs.jobs.cancel(job.id)
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert "Cancellation requested at" in said
    assert "jobs cancel" not in said


def test_a_running_job_shows_the_signals_of_its_node_and_how_to_reach_it(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.running()
    node = house.jobs.node_of(job)
    course = IdleCourse(node.id, node.attempt, State.ACTIVE, house.jobs.clock())
    begun = floor_to(house.jobs.clock(), HOUR)
    values: dict[Kind, list[float | None]] = {Kind.DUTY_CYCLE: [88.0] * 12}
    with house.lab.units() as unit:
        unit.idle_courses.save([WatchedNode(course, node.spec.project, Signals({}, {}))])
        unit.idle_rollups.save([ActivityHour(node.id, node.attempt, begun, "B" * 12, values)])
    page = browser.get(f"/jobs/{job.id}")
    shown = text_of(page)
    assert f"Signals of node {node.name}" in shown
    assert 'aria-label="Duty cycle: highest 88 %' in page.text
    assert f"tpu-steward nodes connect {node.name}" in shown


def test_a_job_without_a_node_shows_neither_signals_nor_connection(
    house: JobHouse, browser: TestClient
) -> None:
    _, _, waiting = house.in_line()
    for job in (waiting, house.failed()):
        shown = text_of(browser.get(f"/jobs/{job.id}"))
        assert "Signals of node" not in shown
        assert "nodes connect" not in shown


def test_a_job_that_has_left_its_node_no_longer_shows_it(
    house: JobHouse, browser: TestClient
) -> None:
    _, first, _ = house.in_line()
    assert "Signals of node" not in text_of(browser.get(f"/jobs/{first.id}")), "nothing is known"
    assert "nodes connect shared" in text_of(browser.get(f"/jobs/{first.id}"))
    assert house.in_front is not None
    house.exit(house.in_front, 0)
    house.pass_(70)
    page = text_of(browser.get(f"/jobs/{first.id}"))
    assert "SUCCEEDED" in page
    assert "nodes connect" not in page


def test_what_was_asked_is_there_word_by_word(house: JobHouse, browser: TestClient) -> None:
    job = house.jobs.submit(
        command=("python", "-m", "train"), args=("--lr", "3e-4 "), env={"BATCH": "1024"}
    )
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert 'Command ["python", "-m", "train"] Arguments ["--lr", "3e-4 "] BATCH 1024' in said
    assert "Digest not looked up" in said
    assert "The image is being looked up in its registry." in said
    house.jobs.ticks(10)
    assert f"Digest {DIGEST}" in text_of(browser.get(f"/jobs/{job.id}"))


def test_a_job_that_is_not_there_is_a_page_too(browser: TestClient) -> None:
    page = browser.get("/jobs/<b>")
    assert page.status_code == 404
    assert "There is no such job" in text_of(page)
    assert links_of(page.text)["All jobs"] == "/jobs"
    assert "<b>" not in page.text


def test_a_token_is_asked_for_where_there_is_one(house: JobHouse) -> None:
    job = house.cancelled()
    app = create_app(house.lab.services, "secret")
    add_dashboard(app)
    with TestClient(app, base_url="http://localhost") as browser:
        for path in ("/jobs", f"/jobs/{job.id}"):
            assert browser.get(path).status_code == 401
            assert browser.get(path, auth=("steward", "secret")).status_code == 200


# text from outside


@pytest.mark.deep
def test_hostile_text_stays_text_and_obeys_the_policy(house: JobHouse, browser: TestClient) -> None:
    job = house.hostile()
    node = house.jobs.node_of(job)
    for path in ("/jobs", "/jobs?owner=<b>&team=<i>", f"/jobs/{job.id}", f"/nodes/{node.id}"):
        html = browser.get(path).text
        assert "<script>alert" not in html
        assert "<b>" not in html
        assert "\u202e" not in html
        assert not re.search(r"<style|\sstyle=|javascript:", html)
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL)
        assert all("src=" in attributes and not body for attributes, body in scripts)
    page = unescape(browser.get(f"/jobs/{job.id}").text)
    assert "<script>alert(1)</script>\"'\\u000a\\u202egnp.exe\\u2066" in page, "a line of output"
    assert '["sh", "-c", "<script>alert(1)</script>\\"\'\\n\\u202egnp.exe\\u2066"]' in page
    assert f"{'l' * 2_000} … and 98,000 more characters" in page
    assert ">red<" in page
    assert ">99%<" in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\N{HEBREW LETTER ALEF}\N{NO-BREAK SPACE}é", "\N{HEBREW LETTER ALEF}\N{NO-BREAK SPACE}é"),
        ("a\nb\x00", "a\\u000ab\\u0000"),
        ("\u202ea\u2028\ufeff", "\\u202ea\\u2028\\ufeff"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_nobody_can_see_is_spelled(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m\x1b[K", "red"),
        ("10%\r55%\r99%\r", "99%"),
        ("a\tb", "a\tb"),
        ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
    ],
)
def test_a_line_is_shown_as_a_terminal_leaves_it(text: str, shown: str) -> None:
    assert escape_log_line(text) == shown


def test_the_words_of_a_command_are_seen_to_begin_and_to_end() -> None:
    assert format_argv(["a b", '"', "", "é\n"]) == '["a b", "\\"", "", "é\\n"]'


@pytest.mark.parametrize(
    ("codes", "said"),
    [
        ({}, ""),
        ({"0": 0}, "Exit code 0 on worker 0."),
        ({"0": 0, "1": 0}, "Exit code 0 on every worker."),
        (
            {"0": 1, "2": 1, "1": 1, "3": 139, "10": 1},
            "Exit code 1 on workers 0\N{EN DASH}2, 10; 139 on worker 3.",
        ),
        ({"0": None, "1": 143}, "Exit code 143 on worker 1. No exit code from worker 0."),
        (
            {str(number): 1 for number in range(0, 22, 2)} | {"1": 0},
            "Exit code 1 on workers 0, 2, 4, 6, 8, 10, 12, 14 and 3 more; 0 on worker 1.",
        ),
    ],
)
def test_exit_codes_are_told_by_worker(codes: dict[str, int | None], said: str) -> None:
    assert format_exit_codes(codes) == said


# the last output


@pytest.mark.deep
def test_one_read_of_the_log_serves_all_pages_for_a_while(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.running()
    house.tell(job, "one")
    for _ in range(3):
        assert "one" in text_of(browser.get(f"/jobs/{job.id}"))
    assert house.log.reads == 1
    house.lab.clock.pass_(last_lines.READ_SECONDS)
    house.tell(job, "two")
    assert "worker 0 one" in text_of(browser.get(f"/jobs/{job.id}"))
    assert "worker 0 two" in text_of(browser.get(f"/jobs/{job.id}"))
    assert house.log.reads == 2


def test_the_newest_lines_are_shown_and_those_of_other_jobs_are_not(
    house: JobHouse, browser: TestClient
) -> None:
    _, first, second = house.in_line()
    for number in range(last_lines.LINES + 1):
        house.tell(first, f"line-{number}.")
    house.tell(second, "another job's")
    said = text_of(browser.get(f"/jobs/{first.id}"))
    assert "line-1." in said
    assert f"line-{last_lines.LINES}." in said
    assert "line-0." not in said
    assert "another job's" not in said


@pytest.mark.deep
def test_a_log_that_cannot_be_read_says_why_and_the_rest_of_the_page_is_there(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.running()
    house.tell(job, "before the outage")
    browser.get(f"/jobs/{job.id}")
    house.log.error = CloudUnavailable("Cloud Logging does not answer <b>")
    house.lab.clock.pass_(last_lines.READ_SECONDS)
    page = browser.get(f"/jobs/{job.id}")
    said = text_of(page)
    assert page.status_code == 200
    assert "The log cannot be read now: Cloud Logging does not answer <b>." in said
    assert "<b>" not in page.text
    assert "before the outage" in said
    assert "The containers run." in said


@pytest.mark.deep
def test_a_log_that_may_not_be_read_yet_is_left_alone_until_then(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.running()
    house.log.error = RateLimited("no more reads for the moment", retry_after=40)
    for _ in range(2):
        browser.get(f"/jobs/{job.id}")
        house.lab.clock.pass_(20)
    assert house.log.reads == 1
    browser.get(f"/jobs/{job.id}")
    assert house.log.reads == 2


def test_the_log_of_a_job_that_never_started_is_not_asked_for(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.cancelled()
    assert "Nothing was printed." in text_of(browser.get(f"/jobs/{job.id}"))
    assert house.log.reads == 0


def test_output_that_could_not_be_shipped_comes_from_the_reports(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.jobs.submit(run_name="mute")
    worker = house.run(job)
    house.say(worker, tail="first\nlast words", logs={"error": "403 denied", "dropped": 0})
    house.pass_(120)
    services = house.lab.services
    no_logs = JobLogService(house.lab.units, NoLogs(), house.lab.clock)
    assert [line.text for line in no_logs.read_end(job.id).lines] == ["first", "last words"]
    assert services.job_logs.read_end(job.id).error == ""
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert "worker 0 last words" in said
    assert "Attempt 1, worker 0: the log was not shipped: 403 denied." in said


# from a node to its jobs


def test_a_node_leads_to_the_jobs_that_run_and_wait_there(
    house: JobHouse, browser: TestClient
) -> None:
    node, first, second = house.in_line()
    page = browser.get(f"/nodes/{node.id}")
    links, said = links_of(page.text), text_of(page)
    assert (links["eval-1"], links["eval-2"]) == (f"/jobs/{first.id}", f"/jobs/{second.id}")
    assert "eval-2 QUEUED waits for this node eval-1 RUNNING has this node now: attempt 1" in said
    assert links_of(browser.get(f"/jobs/{first.id}").text)["shared"] == f"/nodes/{node.id}"


@pytest.mark.deep
def test_a_node_names_the_job_that_has_moved_on(house: JobHouse, browser: TestClient) -> None:
    job = house.jobs.submit(run_name="moved", node_request=factories.request(name="spotty"))
    worker = house.run(job)
    node = house.jobs.node_of(job)
    house.preempt(job, worker)
    assert house.jobs.node_of(job).id != node.id
    page = browser.get(f"/nodes/{node.id}")
    assert links_of(page.text)["moved"] == f"/jobs/{job.id}"
    assert "has this node now" not in text_of(page)
    other = house.lab.asked_for(name="idle")
    assert "Jobs newest first" not in text_of(browser.get(f"/nodes/{other.id}"))


def test_what_the_log_costs_is_said_beside_the_cost_and_not_in_it(
    house: JobHouse, browser: TestClient
) -> None:
    job = house.jobs.submit()
    worker = house.run(job)
    assert "Cloud Logging costs about" not in text_of(browser.get(f"/jobs/{job.id}"))
    house.say(worker, logs={"shipped": 2**30, "lines": 0, "dropped": 0, "cut": 0, "error": ""})
    house.pass_(120)
    said = text_of(browser.get(f"/jobs/{job.id}"))
    assert "Cloud Logging costs about $0.50 more for the output." in said
    shown = house.jobs.shown(job).cost
    assert shown.logs == 500_000_000
    assert shown.cost == sum(
        amount.cost for found in house.jobs.jobs.list_attempts(job.id) for amount in found.amounts
    )
