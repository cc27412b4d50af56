"""Every action and every page in a real browser, with JavaScript and without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from service.api.app import create_app
from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.dashboard.routes import add_dashboard
from service.domain.budgets.budget import OnExceeded, Period, Scope, Threshold
from service.domain.clock import DAY, HOUR
from service.domain.idle.links import Verb
from service.domain.idle.policy import Action
from service.domain.idle.rails import Breaker
from service.domain.jobs.job import JobSpec
from service.domain.jobs.submission import Submission
from service.domain.money import NANOS
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.orphans.orphan import OrphanKind
from tests import factories
from tests.controllers.idle.conftest import REST, TIMES, IdleLab
from tests.controllers.jobs.conftest import IMAGE
from tests.dashboard.browsing import CHROMIUM, opened, served
from tests.dashboard.full import REFUSED, addresses_of, full_lab, paths_of
from tests.dashboard.lab import Lab
from tests.garbage import orphan, shown
from tests.hands import NOON
from tests.linking import tokens_of, told_of

TOKEN = "s3cret-t0ken"

deep = pytest.mark.deep
in_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium is installed: no action was tried in one"
)
with_and_without_java_script = pytest.mark.parametrize(
    "java_script_enabled", [True, False], ids=["with_java_script", "without_java_script"]
)


@dataclass(frozen=True)
class Visit:
    """A person who has the dashboard of a lab open in a browser."""

    lab: Lab
    page: Page

    def follow(self, path: str, *links: str) -> None:
        """Open a page, then follow links by their names."""
        self.page.goto(path)
        for name in links:
            self.page.get_by_role("link", name=_called(name)).click()

    def fill(self, **texts: str) -> None:
        """Fill in fields by how their labels begin. An underscore is a blank or a hyphen there."""
        for name, text in texts.items():
            self.page.get_by_label(re.compile(f"^{name.replace('_', '[ -]')}")).fill(text)

    def choose(self, **options: str) -> None:
        """Choose entries of menus by their labels. An underscore is a blank there."""
        for name, option in options.items():
            self.page.get_by_label(name.replace("_", " "), exact=True).select_option(label=option)

    def press(self, button: str, then: str) -> None:
        """Press a button, and see a text on the page that follows."""
        self.page.get_by_role("button", name=_called(button)).click()
        expect(self.page.get_by_text(then)).to_be_visible()

    def read_node(self, node: Node) -> Node:
        """The node as it is recorded now."""
        return self.lab.services.nodes.get(node.id)

    def find_nodes(self, name: str) -> Sequence[Node]:
        """The nodes of that name that are recorded now."""
        with self.lab.units() as unit:
            return unit.nodes.find_by_name(name)


def _called(name: str) -> re.Pattern[str]:
    """The accessible name of a link or a button, with or without the sign of an alarm."""
    return re.compile(rf"^(\u25b2\s)?{re.escape(name)}$")


@contextmanager
def visiting(lab: Lab, chromium: Browser, *, java_script_enabled: bool) -> Iterator[Visit]:
    """A visit to the dashboard of a service that requests a password."""
    app = create_app(lab.services, TOKEN)
    add_dashboard(app)
    with (
        served(lab, app) as address,
        opened(
            chromium,
            java_script_enabled=java_script_enabled,
            base_url=address,
            http_credentials={"username": "ada", "password": TOKEN},
        ) as page,
    ):
        yield Visit(lab, page)


def create_node(visit: Visit) -> None:
    visit.follow("/", "Nodes", "Create a node")
    visit.fill(Accelerator_type="v5litepod-8", Slices="2", Zone="us-west4-a")
    visit.fill(Name="trainer", Owner="ada", Team="vision", Labels="run=17\nstage=eval")
    visit.choose(Provisioning_model="spot: cheaper, can be preempted at any time")
    visit.choose(Time_to_live="4 hours", Idle_policy="after 2 h", When_idle="delete the node")
    visit.choose(After_a_preemption="recreate the node")
    visit.press("Show the estimate", "2 slices of v5litepod-8: 16 chips")
    assert not visit.find_nodes("trainer")
    visit.page.get_by_role("link", name="Change the request").click()
    visit.fill(Owner="grace")
    visit.press("Show the estimate", "2 slices of v5litepod-8: 16 chips")
    visit.press("Create the node", "Node trainer is requested.")
    (node,) = visit.find_nodes("trainer")
    assert (node.owner, node.team) == ("grace", "vision")
    assert (node.spec.accelerator_type, node.spec.slices) == ("v5litepod-8", 2)
    assert (node.zone, node.spec.provisioning_model) == ("us-west4-a", "spot")
    assert (node.labels, node.spec.ttl_seconds) == ({"run": "17", "stage": "eval"}, 4 * HOUR)
    assert node.spec.recreate_on_preemption


def delete_node(visit: Visit) -> None:
    node = visit.lab.ran(NOON - HOUR, name="trainer")
    visit.follow("/nodes", "trainer", "Delete")
    visit.fill(Type_the_name_of_the_node="trainer")
    visit.press("Delete the node", "The deletion of node trainer is requested.")
    assert visit.read_node(node).asked is Asked.ABSENT


def keep_node(visit: Visit) -> None:
    node = visit.lab.ran(NOON - HOUR, name="trainer")
    visit.follow("/nodes", "trainer", "Keep until")
    visit.choose(Keep_for="2 days")
    visit.fill(Reason="a demo")
    visit.press("Keep the node", "Node trainer is kept until 2026-11-07 12:00:00 UTC.")
    kept = visit.read_node(node)
    assert (kept.kept_until, kept.kept_because) == (NOON + 2 * DAY, "a demo")


def end_keep(visit: Visit) -> None:
    node = visit.lab.ran(NOON - HOUR, name="trainer", kept_until=NOON + HOUR, kept_because="a demo")
    visit.follow("/nodes", "trainer", "End the keep")
    visit.press("End the keep", "The keep of node trainer has ended.")
    assert visit.read_node(node).kept_until is None


def stop_node(visit: Visit) -> None:
    node = visit.lab.ran(NOON - HOUR, name="trainer")
    visit.follow("/nodes", "trainer", "Stop")
    visit.press("Stop the node", "The stop of node trainer is requested.")
    assert visit.read_node(node).asked is Asked.STOPPED


def start_node(visit: Visit) -> None:
    node = visit.lab.ran(NOON - HOUR, name="trainer", state=NodeState.STOPPED, asked=Asked.STOPPED)
    visit.follow("/nodes", "trainer", "Start")
    visit.press("Start the node", "The start of node trainer is requested.")
    assert visit.read_node(node).asked is Asked.PRESENT


def choose_two_of_three(visit: Visit) -> tuple[list[Node], Node]:
    """The nodes `one` and `two`, whose boxes are ticked on the page of nodes, and a third one."""
    nodes = [visit.lab.ran(NOON - HOUR, name=name) for name in ("one", "two", "three")]
    visit.follow("/nodes")
    for node in nodes[:2]:
        visit.page.get_by_role("checkbox", name=f"Choose {node.name}", exact=True).check()
    return nodes[:2], nodes[2]


def delete_several_nodes(visit: Visit) -> None:
    chosen, other = choose_two_of_three(visit)
    visit.press("Delete", "Together")
    visit.fill(Type_the_number_of_nodes="2")
    visit.press("Delete 2 nodes", "The deletion of 2 nodes is requested.")
    assert [visit.read_node(node).asked for node in chosen] == [Asked.ABSENT] * 2
    assert visit.read_node(other).asked is Asked.PRESENT


def keep_several_nodes(visit: Visit) -> None:
    chosen, other = choose_two_of_three(visit)
    visit.press("Keep", "Together")
    visit.fill(Or_until="2026-11-06", Reason="a demo", Type_the_number_of_nodes="2")
    visit.press("Keep 2 nodes", "The keep of 2 nodes is written.")
    assert [visit.read_node(node).kept_until for node in chosen] == [NOON + DAY // 2] * 2
    assert visit.read_node(other).kept_until is None


def cancel_job(visit: Visit) -> None:
    jobs = visit.lab.services.jobs
    spec = JobSpec(image=IMAGE, run_name="resnet")
    job = jobs.submit(Submission(spec, node_request=factories.request())).shown.job
    visit.follow("/", "Jobs", "resnet", "Cancel the job")
    visit.press("Cancel the job", "The cancellation of job resnet is requested.")
    assert jobs.get(job.id).job.cancel_requested_at == NOON


def create_budget(visit: Visit) -> None:
    visit.follow("/budgets", "Create a budget")
    visit.fill(Name="vision", Dollars="2500.50", Only_team="vision", Only_label="run:17")
    visit.choose(Period="quarter", When_exceeded="refuse nodes that could exceed it")
    visit.fill(Alert_at_percent_spent="50, 80", E_mail_recipients="ada@example.com")
    visit.fill(
        Grace_time="600", Burn_rate="3", Time_zone="Europe/Berlin", Counts_until="2027-12-01"
    )
    visit.press("Create the budget", "Budget vision is created.")
    (budget,) = visit.lab.services.budgets.list_all()
    assert (budget.name, budget.amount) == ("vision", 2_500 * NANOS + NANOS // 2)
    assert budget.scope == Scope(team="vision", label=("run", "17"))
    assert (budget.period, budget.on_exceeded) == (Period.QUARTER, OnExceeded.REFUSE)
    assert (budget.thresholds, budget.emails) == (
        (Threshold(50), Threshold(80)),
        ("ada@example.com",),
    )
    assert (budget.grace_seconds, budget.burn_rate, budget.tz) == (600, 3, "Europe/Berlin")
    assert budget.end is not None


def edit_budget(visit: Visit) -> None:
    budgets = visit.lab.services.budgets
    before = budgets.create(factories.budget(name="vision", scope=Scope(team="vision")))
    visit.follow("/budgets", "Edit")
    visit.fill(Dollars="77", Only_team="")
    visit.choose(Period="week")
    visit.press("Save the budget", "Budget vision is saved.")
    (budget,) = budgets.list_all()
    was = before.shown.budget
    assert budget == replace(
        was, amount=77 * NANOS, scope=Scope(), period=Period.WEEK, version=was.version + 1
    )


def delete_budget(visit: Visit) -> None:
    budgets = visit.lab.services.budgets
    budgets.create(factories.budget(name="vision"))
    visit.follow("/budgets", "Delete")
    visit.fill(Type_the_name_of_the_budget="vision")
    visit.press("Delete the budget", "Budget vision is deleted.")
    assert budgets.list_all() == []


def adopt_orphan(visit: Visit) -> None:
    visit.lab.found(orphan())
    visit.follow("/orphans", "Adopt")
    visit.fill(Name="mine", Owner="ada", Team="nlp")
    visit.press("Adopt the node", "Node mine is adopted.")
    (node,) = visit.find_nodes("mine")
    assert (node.owner, node.team, node.cloud_id) == ("ada", "nlp", "run-1")


def delete_orphan(visit: Visit) -> None:
    stranger = orphan(kind=OrphanKind.STRANGER, certain=False, shown=shown("foreign", labels={}))
    visit.lab.found(stranger)
    visit.follow("/orphans", "Delete")
    visit.fill(Type_its_full_name=stranger.shown.path)
    visit.press("Delete it from the cloud", "The deletion of foreign is requested.")
    found = visit.lab.services.orphans.get(stranger.id).orphan
    assert (found.to_be_deleted, found.confirmed) == (True, True)


def apply_cleanup_plan(visit: Visit) -> None:
    lab = visit.lab
    lab.looked_at(held=False)
    daemon = IdleLab(lab.units, lab.clock, Action.OBSERVE)
    mode = IdleMode(Action.OBSERVE, TIMES)
    service = CleanupService(lab.units, daemon.prices, lab.clock, [factories.PROJECT], mode)
    object.__setattr__(lab.services, "cleanup", service)
    nodes = [daemon.add(REST) for _ in range(2)]
    daemon.minute((TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1)
    visit.follow("/", "Cleanup", "Plan and apply")
    visit.press("Make a plan", "Nodes of the plan")
    assert [visit.read_node(node).asked for node in nodes] == [Asked.PRESENT] * 2
    visit.fill(Type_the_number_of_nodes="2")
    visit.press("Apply to 2 nodes", "The plan is applied: 2 nodes are stopped or deleted.")
    assert [visit.read_node(node).asked for node in nodes] == [Asked.ABSENT] * 2


def pause_cleanup(visit: Visit) -> None:
    visit.follow("/cleanup", "Pause cleanup")
    visit.fill(Reason="a demo")
    visit.press("Pause the cleanup", "The cleanup of every project is paused.")
    (status,) = visit.lab.services.cleanup.list_statuses()
    assert (status.cleanup.paused_at, status.cleanup.pause_reason) == (NOON, "a demo")


def resume_cleanup(visit: Visit) -> None:
    cleanup = visit.lab.services.cleanup
    cleanup.pause(factories.PROJECT, "ada", "a demo")
    visit.follow("/cleanup", "Resume cleanup")
    visit.choose(Project=factories.PROJECT)
    visit.press("Resume the cleanup", f"The cleanup of project {factories.PROJECT} is resumed.")
    assert not cleanup.list_statuses()[0].cleanup.is_paused


def close_breaker(visit: Visit) -> None:
    cleanup = visit.lab.services.cleanup
    before = cleanup.list_statuses()[0].cleanup
    with visit.lab.units() as unit:
        unit.cleanups.save(replace(before, breaker=Breaker(opened_at=NOON, reason="4 of 10 nodes")))
    visit.follow("/cleanup", "Close the breaker")
    visit.fill(Reason="the monitoring is back")
    visit.press("Close the breaker", f"The breaker of project {factories.PROJECT} is closed.")
    breaker = cleanup.list_statuses()[0].cleanup.breaker
    assert (breaker.is_open, breaker.closed_reason) == (False, "the monitoring is back")


def use_link(visit: Visit) -> None:
    node = told_of(visit.lab.units, name="trainer")
    visit.follow(f"/links/{tokens_of(visit.lab.units, node)[Verb.DELETE]}")
    visit.press("Delete the node", "Done")
    assert visit.read_node(node).asked is Asked.ABSENT


ACTIONS: Mapping[str, Callable[[Visit], None]] = {
    "/nodes/new": create_node,
    "/nodes/{subject}/delete": delete_node,
    "/nodes/{subject}/keep": keep_node,
    "/nodes/{subject}/unkeep": end_keep,
    "/nodes/{subject}/stop": stop_node,
    "/nodes/{subject}/start": start_node,
    "/nodes/several/delete": delete_several_nodes,
    "/nodes/several/keep": keep_several_nodes,
    "/jobs/{subject}/cancel": cancel_job,
    "/budgets/new": create_budget,
    "/budgets/{subject}/edit": edit_budget,
    "/budgets/{subject}/delete": delete_budget,
    "/orphans/{subject}/adopt": adopt_orphan,
    "/orphans/{subject}/delete": delete_orphan,
    "/cleanup/apply": apply_cleanup_plan,
    "/cleanup/pause": pause_cleanup,
    "/cleanup/resume": resume_cleanup,
    "/cleanup/breaker": close_breaker,
    "/links/{token}": use_link,
}
"""Carries out the action of each route as a person does, and checks what is recorded then."""


def test_every_route_that_changes_something_is_tried_in_a_browser(lab: Lab) -> None:
    assert set(paths_of(lab.whole(), "POST")) == ACTIONS.keys()


@deep
@in_chromium
@with_and_without_java_script
@pytest.mark.parametrize("path", ACTIONS)
def test_an_action_is_carried_out_by_its_form(
    lab: Lab, chromium: Browser, path: str, java_script_enabled: bool
) -> None:
    posts: list[Response] = []
    with visiting(lab, chromium, java_script_enabled=java_script_enabled) as visit:
        visit.page.on(
            "response", lambda one: posts.append(one) if one.request.method == "POST" else None
        )
        ACTIONS[path](visit)
        route = re.sub(r"\{\w+\}", "[^/]+", path)
        assert re.fullmatch(route, urlsplit(posts[-1].url).path), "another route did it"
        assert posts[-1].status == (200 if path.startswith("/links/") else 303)


@deep
@in_chromium
def test_every_page_is_read_without_java_script(
    tmp_path_factory: pytest.TempPathFactory, chromium: Browser
) -> None:
    faults = {}
    with full_lab(tmp_path_factory.mktemp("lab")) as full:
        app = full.lab.whole()
        with (
            served(full.lab, app) as address,
            opened(chromium, java_script_enabled=False, base_url=address) as page,
        ):
            for path in addresses_of(app, full):
                if path in REFUSED:
                    continue
                answer = page.goto(path)
                assert answer is not None, path
                headings = page.get_by_role("heading", level=1)
                found = answer.status, headings.count(), headings.first.is_visible()
                if found != (200, 1, True):
                    faults[path] = found
    assert faults == {}


@deep
@in_chromium
def test_a_page_is_searched_filtered_and_set_without_java_script(
    lab: Lab, chromium: Browser
) -> None:
    lab.ran(NOON - HOUR, name="trainer", team="vision")
    lab.ran(NOON - HOUR, name="other", team="language")
    with visiting(lab, chromium, java_script_enabled=False) as visit:
        page = visit.page
        visit.follow("/nodes")
        visit.fill(Name_has="train")
        visit.press("Show", "only name has: train")
        expect(page.get_by_role("link", name="trainer")).to_be_visible()
        expect(page.get_by_role("link", name="other", exact=True)).to_have_count(0)
        page.get_by_text("View", exact=True).click()
        page.get_by_role("link", name="Dark", exact=True).click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert "/nodes?search=train" in page.url, "the choice leads back to the same page"
        visit.follow("/costs")
        page.get_by_text("Custom query").click()
        page.get_by_role("textbox", name="Filter").fill("team:vision")
        page.get_by_role("textbox", name="Group by").fill("owner")
        visit.press("Show", "only team: vision")
        expect(page.get_by_role("heading", name="By owner")).to_be_visible()
        for path, field, text, found in (
            ("/manual", "Search the manual", "stockout cooldown", "A zone has run out of capacity"),
            ("/docs", "Search the API", "reimage framework", "Reimage a legacy TPU Node"),
        ):
            visit.follow(path)
            page.get_by_label(field).fill(text)
            page.get_by_label(field).press("Enter")
            expect(page.get_by_role("link", name=found)).to_be_visible()
