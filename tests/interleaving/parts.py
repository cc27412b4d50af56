"""What a seed may have besides nodes: jobs, cleanup and budgets, with their callers and oracles."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from service.application.budgets.budgets import BudgetService
from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.application.cleanup.daemon import DaemonActs
from service.application.cleanup.keeps import KeepOrder, KeepService
from service.application.cleanup.links import LinkService, UnknownLink
from service.application.costs.costs import CostService
from service.application.jobs.jobs import JobService
from service.application.nodes.requests import NodeRequests
from service.cloud.google.retries import ONCE
from service.cloud.google.telemetry import GoogleTelemetry, monitoring_client
from service.controllers.budgets.budgets import BudgetController
from service.controllers.idle.idle import IdleController, IdleSettings
from service.controllers.idle.readings import TelemetryReader, at_once
from service.controllers.jobs.jobs import JobsController
from service.controllers.notifications import NotificationController
from service.domain.budgets.budget import Budget, OnExceeded, Period, Scope, Threshold
from service.domain.errors import StewardError
from service.domain.idle.assess import IdleTimes
from service.domain.idle.plan import CleanupPlan
from service.domain.idle.policy import Action, Policy, Recipient, Rule
from service.domain.jobs.image import ImageFacts
from service.domain.jobs.job import Job, JobSpec, Retries
from service.domain.jobs.submission import Submission
from service.domain.money import NANOS
from service.domain.nodes.node import ENDED, Node
from service.domain.notifications.notification import Channel, Notification
from service.emulator.surfaces import control
from service.emulator.world.container_runs import ContainerRun as Container
from service.store.pricebook import PriceBookCache
from service.store.unit import Units
from tests.simulation.invariants import Violation
from tests.simulation.jobs.accidents import DIGEST
from tests.simulation.jobs.requests import IMAGE

if TYPE_CHECKING:
    from tests.interleaving.daemon import Daemon, Tick
    from tests.interleaving.run import Run

Work = Callable[[], object]


class Part:
    """Nothing yet; each kind adds what it has."""

    def __init__(self, life: Run) -> None:
        self.life = life
        self.luck = life.luck

    def works(self, daemon: Daemon) -> Mapping[str, Tick]:
        """What a daemon does more."""
        return {}

    def begin(self) -> None:
        """Have what callers ask for before everything else."""

    def settle(self) -> None:
        """Let time go by until there is something to do."""

    def prepare(self) -> None:
        """Do what comes before all act at once."""

    def callers(self) -> Mapping[str, Work]:
        """What people may do at once."""
        return {}

    def played(self) -> None:
        """Check what came of it. Raises Violation."""

    def let_end(self) -> None:
        """Have what runs come to its end. Raises Violation where it does not."""

    def nodes(self) -> Sequence[Node]:
        """The nodes that were made by it."""
        return ()

    def at_rest(self) -> None:
        """Check what is left. Raises Violation."""


class Registry:
    """A registry that has every image."""

    def resolve(self, image: str, architecture: str) -> ImageFacts:
        """What it says of an image."""
        return ImageFacts(DIGEST, (f"linux/{architecture}",))


class Jobs(Part):
    """Jobs on nodes of their own and on those of callers, and people who cancel them."""

    def __init__(self, life: Run) -> None:
        super().__init__(life)
        control.change_config(life.world, {"played_workers": "all"})
        life.world.runs.observers.append(self._started)
        self._shared = PriceBookCache(), life.clock
        requests = NodeRequests(life.units, *self._shared, life.projects)
        self.service = JobService(life.units, *self._shared, requests, life.projects)
        self.jobs: list[Job] = []
        self._cancelled: set[str] = set()

    def works(self, daemon: Daemon) -> Mapping[str, Tick]:
        requests = NodeRequests(daemon.units, *self._shared, self.life.projects)
        clock = self.life.clock
        controller = JobsController(daemon.units, daemon.cloud, Registry(), requests, clock)
        controller.workers = 1
        return {"jobs": controller.tick}

    def begin(self) -> None:
        for _ in range(self.luck.randint(2, 3)):
            self._submit(self._drawn())

    def callers(self) -> Mapping[str, Work]:
        job = self.luck.choice(self.jobs)
        return {
            "submit": partial(self._submit, self._drawn()),
            "cancel": partial(self._cancel, job),
            "cancel too": partial(self._cancel, job),
        }

    def let_end(self) -> None:
        if self.luck.random() < 0.2:
            for job in self.jobs:
                self._cancel(job)
        waiting: list[str] = []
        for _ in range(30):
            self.life.in_turns(1, 60, ("inventory", "lifecycle 0", "lifecycle 1", "jobs"))
            waiting = self._waiting()
            if not waiting:
                break
        else:
            raise Violation(f"in half an hour without trouble, {waiting[0]}")
        for job in self.jobs:
            self._cancel(job)

    def nodes(self) -> Sequence[Node]:
        with self.life.units.reading() as unit:
            attempts = [attempt for job in self.jobs for attempt in unit.jobs.list_attempts(job.id)]
            ours = {node.id for node in self.life.ours}
            return [
                unit.nodes.get(node_id) for node_id in sorted({a.node_id for a in attempts} - ours)
            ]

    def at_rest(self) -> None:
        with self.life.units.reading() as unit:
            for before in self.jobs:
                job, attempts = unit.jobs.get(before.id), unit.jobs.list_attempts(before.id)
                if not job.ended:
                    raise Violation(f"{job.id} never ended: {job.state}")
                if job.id in self._cancelled and job.cancel_requested_at is None:
                    raise Violation(f"the cancellation of {job.id} was lost")
                if [attempt.number for attempt in attempts] != list(range(1, job.attempt + 1)):
                    raise Violation(
                        f"{job.id} has the attempts {[attempt.number for attempt in attempts]}"
                    )
                end = 0
                for attempt in attempts:
                    if (
                        attempt.ended_at is None
                        or attempt.released_at is None
                        or attempt.claimed_at < end
                    ):
                        raise Violation(
                            f"{attempt.id} began at {attempt.claimed_at}, and ended {end}"
                        )
                    end = attempt.ended_at

    def _waiting(self) -> list[str]:
        """The jobs that have not ended, though nothing is in their way."""
        with self.life.units.reading() as unit:
            jobs = [unit.jobs.get(job.id) for job in self.jobs]
            return [
                f"{job.id} is {job.state}: {job.reason} {job.detail}"
                for job in jobs
                if not job.ended and unit.nodes.get(job.node_id).state in ("READY", *ENDED)
            ]

    def _started(self, run: Container) -> None:
        """One attempt of a job at a time runs anywhere, on each worker once."""
        for other in self.life.world.runs:
            if other is run or other.end is not None or other.job != run.job:
                continue
            if other.attempt != run.attempt or other.worker == run.worker:
                what = f"{run.attempt} started while {other.attempt} ran"
                self.life.truth.violations.append(what)

    def _drawn(self) -> Submission:
        luck = self.luck
        spec = JobSpec(
            image=IMAGE,
            args=("train.py",),
            env={
                "EMULATOR_DURATION_SECONDS": str(luck.choice([5, 60, 200])),
                "EMULATOR_EXIT_CODE": luck.choice(["0", "0", "3"]),
            },
            retries=Retries(preemption=3, failure=luck.choice([0, 1])),
        )
        if luck.random() < 0.5:
            return Submission(spec, owner="eve", node=luck.choice(self.life.ours).id)
        request = self.life.request("")
        return Submission(spec, project=request.project, owner=request.owner, node_request=request)

    def _submit(self, submission: Submission) -> None:
        self.jobs.append(self.service.submit(submission).shown.job)

    def _cancel(self, job: Job) -> None:
        if not self.service.cancel(job.id).job.ended:
            self._cancelled.add(job.id)


TIMES = IdleTimes(warmup=60, telemetry=150, start=60, period=60)
DELAY = 45
IDLE_AFTER, GRACE = 300, 60
PUBLIC_URL = "http://127.0.0.1:8080"


@dataclass
class Post:
    """Takes every message; `sent` has the ids since the last look, `links` of each link that was
    sent the node and the token: they are in a message until it is sent."""

    sent: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)

    def send(self, one: Notification, to: Recipient, now: int) -> None:
        """Take a message."""
        self.sent.append(one.id)
        for _, url in sorted(json.loads(one.body).get("links", {}).items()):
            self.links.append((one.about_id, url.rpartition("/")[2]))


class Mail(Part):
    """What is in the outbox is sent once by those who are at it at the same time."""

    def works(self, daemon: Daemon) -> Mapping[str, Tick]:
        post = dict.fromkeys(Channel, self.life.post)
        return {"delivery": NotificationController(daemon.units, post, self.life.clock).tick}

    def prepare(self) -> None:
        self.life.post.sent.clear()

    def played(self) -> None:
        for message, times in Counter(self.life.post.sent).items():
            if times > 1:
                raise Violation(f"the message {message} was sent {times} times at once")

    def at_rest(self) -> None:
        with self.life.units.reading() as unit:
            if left := unit.notifications.list_due(2**40, 1):
                raise Violation(f"nobody was told: {left[0].subject}")


class Cleanup(Part):
    """Idle nodes, and people who keep them, use links, make plans and apply them."""

    def __init__(self, life: Run) -> None:
        super().__init__(life)
        self._shared = PriceBookCache(), life.clock
        units, mode = life.units, IdleMode(Action.DELETE, TIMES)
        self._keeps = KeepService(units, *self._shared)
        self._links = LinkService(units, *self._shared, life.nodes, TIMES)
        self._cleanup = CleanupService(units, *self._shared, life.projects, mode)
        self._plans: list[CleanupPlan] = []
        self._links_at_hand: list[tuple[str, str]] = []
        self._applied: list[CleanupPlan] = []
        self._used: Counter[str] = Counter()

    def works(self, daemon: Daemon) -> Mapping[str, Tick]:
        telemetry = GoogleTelemetry(monitoring_client(daemon.channel), ONCE)
        clock = self.life.clock
        reader = TelemetryReader(telemetry, clock, TIMES.telemetry + TIMES.period, at_once)
        settings = IdleSettings(TIMES, Action.DELETE, lambda: self.life.now)
        acts = DaemonActs(PUBLIC_URL, TIMES)
        idle = IdleController(daemon.units, *self._shared, reader, acts, settings)
        return {"idle": idle.tick}

    def begin(self) -> None:
        told = {"telemetry": {"cores": 1, "delay_seconds": DELAY, "gap_share": 0, "late_share": 0}}
        control.change_config(self.life.world, told)
        rule, people = Rule(IDLE_AFTER, GRACE, Action.DELETE), (Recipient(emails=("a@b.example",)),)
        with self.life.units() as unit:
            for project in self.life.projects:
                unit.idle_policies.save(Policy(f"project:{project}", rule, people))

    def settle(self) -> None:
        self.life.in_turns(10, 60, ("idle", "delivery"))

    def prepare(self) -> None:
        self.life.in_turns(1, 60, ("idle", "delivery"))
        links = list(self.life.post.links)
        if links and self.luck.random() < 0.4:  # two may then use its link and change no node
            kept, _ = self.luck.choice(links)
            self._links_at_hand = [link for link in links if link[0] == kept]
            with suppress(StewardError):
                self._keeps.keep_node(kept, KeepOrder("a demo", for_seconds=21_600))
        else:
            self._links_at_hand = links
        self._plans = [self._cleanup.make_plan(project, "ada") for project in self.life.projects]
        self._applied = []

    def callers(self) -> Mapping[str, Work]:
        plan, links = self.luck.choice(self._plans), self._links_at_hand
        node_id, token = self.luck.choice(links or [(self.luck.choice(self.life.ours).id, "")])
        order = KeepOrder("a demo", for_seconds=self.luck.choice([3_600, 21_600, 21_600]))
        found: dict[str, Work] = {
            "plan": partial(self._cleanup.make_plan, plan.project, "bob"),
            "keep": partial(self._keeps.keep_node, node_id, order),
            "unkeep": partial(self._keeps.end_keep, self.luck.choice(self.life.ours).id),
        }
        if plan.entries:
            found |= {"apply": partial(self._apply, plan), "apply too": partial(self._apply, plan)}
        if token:
            found |= {"link": partial(self._use, token), "link too": partial(self._use, token)}
        return found

    def played(self) -> None:
        for plan, times in Counter(plan.id for plan in self._applied).items():
            if times > 1:
                raise Violation(f"the plan {plan} was applied {times} times")
        for token, times in self._used.items():
            if times > 1:
                raise Violation(f"the link {token} was used {times} times")

    def let_end(self) -> None:
        """A plan that is applied at once is applied, to each node."""
        self.life.in_turns(2, 60, ("idle", "delivery", "inventory"))
        for project in self.life.projects:
            shown = self._cleanup.make_plan(project, "ada")
            try:
                self._cleanup.apply_plan(shown.id, "ada")
            except StewardError as error:
                raise Violation(f"a plan of which nothing has changed: {error}") from error
            for entry in shown.entries:
                if self.life.nodes.get(entry.node_id).asked != "absent":
                    raise Violation(f"{entry.name} stays, and the plan was applied")

    def _apply(self, plan: CleanupPlan) -> None:
        done = self._cleanup.apply_plan(plan.id, "ada")
        self._applied.append(done)
        wanted, ended = [
            {(entry.node_id, entry.basis) for entry in node_id.entries} for node_id in (plan, done)
        ]
        if wanted != ended:
            self.life.oracle.wrong(f"a plan for {wanted} has ended {ended}")

    def _use(self, token: str) -> None:
        offer = self._links.use_link(token)
        if not isinstance(offer, UnknownLink) and offer.refusal is None:
            self._used[token] += 1


class Budgets(Part):
    """Budgets that warn, refuse and delete, and people who set them anew and take them away."""

    def __init__(self, life: Run) -> None:
        super().__init__(life)
        shared = PriceBookCache(), life.clock
        self._shared = shared
        self._service = BudgetService(life.units, *shared, CostService(life.units, *shared))

    def works(self, daemon: Daemon) -> Mapping[str, Tick]:
        plain = Units(self.life.ground.engine)
        books = BudgetService(plain, *self._shared, CostService(plain, *self._shared))
        return {"budgets": BudgetController(daemon.units, *self._shared, books).tick}

    def settle(self) -> None:
        for number in range(self.luck.randint(1, 2)):
            self._service.create(self._drawn(number))

    def callers(self) -> Mapping[str, Work]:
        found: dict[str, Work] = {"budget": partial(self._service.create, self._drawn(9))}
        if budgets := self._service.list_all():
            budget = self.luck.choice(list(budgets))
            amount = budget.amount * self.luck.choice([1, 4, 40]) // 2
            found |= {
                "change budget": partial(
                    self._service.update_fields, budget.id, {"amount": amount}
                ),
                "remove budget": partial(self._service.delete, budget.id),
            }
        return found

    def played(self) -> None:
        """Have what is exceeded by now told, so that nodes are due when all act next; or leave
        it to them to tell."""
        if self.luck.random() < 0.5:
            self.life.in_turns(1, 0, ("budgets", "delivery"))

    def at_rest(self) -> None:
        """Of a budget of which too much is spent, everybody was told."""
        self.life.in_turns(1, 60, ("budgets", "delivery"))
        for budget in self._service.list_all():
            shown = self._service.get(budget.id).shown
            is_told = any(alert.kind == "exceeded" for alert in shown.alerts)
            is_over = shown.standing is not None and shown.standing.spent > budget.amount
            if is_over and not is_told:
                raise Violation(f"nobody was told of {budget.name}, which is exceeded")
            if shown.standing is not None and shown.standing.held.known:
                raise Violation(f"{budget.name} holds {shown.standing.held.known} for what is gone")

    def _drawn(self, number: int) -> Budget:
        luck, scopes = self.luck, [Scope(), Scope(team="nlp"), Scope(owner="ada")]
        return Budget(
            id="",
            name=f"budget-{number}",
            scope=luck.choice(
                [*scopes, *(Scope(project=project) for project in self.life.projects)]
            ),
            amount=int(luck.choice([0.2, 1, 5]) * NANOS),
            period=Period.MONTH,
            tz="UTC",
            created_at=0,
            thresholds=(Threshold(50), Threshold(100)),
            on_exceeded=luck.choice([OnExceeded.NOTIFY, OnExceeded.DELETE, OnExceeded.DELETE]),
            grace_seconds=luck.choice([0, 60]),
            webhook="https://hooks.example.com/1",
            secret="a secret of a budget",
        )
