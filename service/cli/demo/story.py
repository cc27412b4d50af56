"""What three teams of a lab do in the month before the demo, and what the cloud does to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from service.application.cleanup.keeps import KeepOrder
from service.cli.demo.past import Past
from service.cli.demo.workloads import Workload, Workloads
from service.cloud.google.channel import tpu_client
from service.domain.budgets.budget import Budget, Measure, OnExceeded, Period, Scope, Threshold
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.errors import BudgetExceeded
from service.domain.idle.policy import Action, Recipient, Rule
from service.domain.jobs.job import JobSpec, Retries
from service.domain.jobs.submission import Submission
from service.domain.money import NANOS
from service.domain.nodes.node import Node
from service.domain.nodes.request import RequestedNode
from service.emulator.surfaces import control
from service.emulator.surfaces.channel import LocalChannel
from service.emulator.world.operations import metadata_of

PROJECT = "lab"
SECRET = "a secret of the demo only"  # noqa: S105 - it signs messages on this machine
WEST, EAST, EAST_V5P = "us-west4-a", "us-east5-b", "us-east5-a"
FULL, FULL_V6E = "us-west4-b", "us-east1-d"
"""Zones without hardware: the first for v5e, the second for v6e."""

WATCHED_SECONDS = 26 * HOUR
"""For how long before the end Cloud Monitoring can be read. Reading it takes most of the time."""
LAST_SECONDS = HOUR
"""For how long before the end all metrics are measured, as they are in real time."""

UNREAD = (
    "accelerator/duty_cycle",
    "accelerator/tensorcore_utilization",
    "instance/tpu/active_chips",
    "instance/tpu/utilized_chips",
    "instance/tpu/scheduled_chips",
)
"""Metrics that are not measured before the last hours: the others prove rest, too."""

DENIED = {"*": {"denied": ["monitoring.timeSeries.list"]}}
SPOT, ON_DEMAND = ProvisioningModel.SPOT, ProvisioningModel.ON_DEMAND


@dataclass(frozen=True, slots=True)
class Standing:
    """A node that works until the end. `born` is a share of the whole time."""

    name: str
    owner: str
    accelerator_type: str
    zone: str
    born: float
    model: ProvisioningModel = ON_DEMAND

    @property
    def team(self) -> str:
        return self.name.partition("-")[0]


FLEET = (
    Standing("nlp-serve", "lea", "v5litepod-4", WEST, 0.0),
    Standing("vision-resnet", "mira", "v5litepod-8", WEST, 0.1),
    Standing("vision-segment", "tomas", "v6e-4", EAST, 0.15, SPOT),
    Standing("rl-actors-0", "ines", "v5litepod-1", WEST, 0.2, SPOT),
    Standing("rl-actors-1", "ines", "v5litepod-1", WEST, 0.2, SPOT),
    Standing("rl-actors-2", "ines", "v5litepod-1", WEST, 0.2, SPOT),
    Standing("nlp-pretrain", "ada", "v5p-8", EAST_V5P, 0.25),
    Standing("nlp-ablation", "jun", "v5p-8", EAST_V5P, 0.3, SPOT),
    Standing("rl-learner", "omar", "v6e-8", EAST, 0.4),
    Standing("rl-sweep", "omar", "v5litepod-8", WEST, 0.5, SPOT),
)
EXPERIMENTS = (
    ("vision", "mira", "v5litepod-8", WEST, ON_DEMAND),
    ("nlp", "jun", "v5p-8", EAST_V5P, SPOT),
    ("rl", "omar", "v5litepod-4", WEST, ON_DEMAND),
    ("vision", "tomas", "v6e-4", EAST, SPOT),
    ("nlp", "lea", "v5litepod-8", WEST, SPOT),
    ("rl", "ines", "v6e-4", EAST, ON_DEMAND),
)
"""Nodes of some hours, one a day: team, owner, type, zone and provisioning model."""


class Story:
    """Puts on the clock what people do. `tell` has to be called before the time passes."""

    def __init__(self, past: Past, inbox: str, seconds: float, seed: int) -> None:
        self._past = past
        self._clock = past.clock
        self._services = past.services
        self._inbox = inbox
        self.start = past.clock.seconds()
        self.end = self.start + seconds
        self.watched_from = self.end - WATCHED_SECONDS
        self._seconds = seconds
        self._luck = Random(f"{seed}/people")  # noqa: S311 - repeatable on purpose
        self._works = Workloads(past.world, Random(f"{seed}/work"))  # noqa: S311 - likewise
        self.nodes: dict[str, str] = {}
        """Ids of the nodes by their names."""

    def tell(self) -> None:
        """Set up the cloud, and put all acts on the clock."""
        middle = floor_to(int(self.start + self._seconds / 2), HOUR)
        cheaper = {"generation": "v5e", "region": "us-west4", "usd": "0.4623", "at": middle}
        self._configure(
            {
                "played_workers": "all",
                "capacity": {f"{FULL}/v5e": 0, f"{FULL_V6E}/v6e": 0},
                "odds": {"preemptions_per_hour": {"*": 0.012}, "sibling_death_seconds": 20},
                "telemetry": {"delay_seconds": 30, "cores": 1, "missing": list(UNREAD)},
                "prices": {"spot_price_changes": [cheaper]},
                "permissions": DENIED,
            }
        )
        self._clock.at(self.watched_from, partial(self._configure, {"permissions": {}}))
        measured: Mapping[str, object] = {"telemetry": {"missing": []}}
        self._clock.at(self.end - LAST_SECONDS, partial(self._configure, measured))
        self._clock.at(self.start, self._set_up_budgets)
        self._clock.at(self.watched_from, self._set_up_policies)
        for standing in FLEET:
            ask = partial(
                self._ask,
                standing.name,
                standing.owner,
                standing.accelerator_type,
                standing.zone,
                provisioning_model=standing.model,
                recreate_on_preemption=standing.model is SPOT,
            )
            self._at_share(standing.born, ask)
        for day in range(int(self._seconds // DAY)):
            self._tell_day(day)
        self._at_share(0.12, partial(self._ask, "vision-archive", "tomas", "v5litepod-4", WEST))
        self._at_share(
            0.7, lambda: self._services.nodes.stop(self.nodes["vision-archive"], actor="tomas")
        )
        # Nodes that are forgotten and cleaned up, and what nobody recorded.
        for hours, name, owner in ((25, "vision-scratch", "mira"), (21, "nlp-probe", "jun")):
            self._before_end(hours, partial(self._ask_idle, name, owner, "v5litepod-4", 2))
        self._before_end(26, self._make_orphan)
        self._before_end(24, partial(self._ask_idle, "vision-paper", "tomas", "v5litepod-1", 8))
        self._before_end(20, self._keep_paper)
        # A queued resource that waits: its zone has no hardware.
        big = partial(self._ask, "nlp-scale-up", "ada", "v6e-64", FULL_V6E, queued=True)
        self._before_end(22, big)
        self._before_end(18, self._ask_for_large_sweep)
        self._before_end(17, partial(self._ask, "rl-replay", "ines", "v5litepod-4", WEST))
        self._before_end(4, self._delete_in_vain)
        self._before_end(16, self._ask_crashing)
        self._tell_last_hours()

    # the cloud, the money and the rules

    def _configure(self, changes: Mapping[str, object]) -> None:
        control.change_config(self._past.world, changes)

    def _set_up_budgets(self) -> None:
        days = self._seconds / DAY
        self._limit("whole lab", Scope(), 48_000)
        self._limit("vision monthly", Scope(team="vision"), 12_000)
        self._limit("nlp monthly", Scope(team="nlp"), 20_000)
        self._limit("rl grant", Scope(team="rl"), 300 * days, lasts=1.5 * self._seconds)
        large = Scope(label=("run", "sweep-xl"))
        self._limit("large sweeps", large, 500, on_exceeded=OnExceeded.REFUSE)

    def _limit(
        self, name: str, scope: Scope, dollars: float, lasts: float = 0, **changes: Any
    ) -> None:
        """Create a budget: for each month, or from now on for `lasts` seconds."""
        now = int(self._clock())
        budget = Budget(
            id="",
            name=name,
            scope=scope,
            amount=int(dollars) * NANOS,
            period=Period.CUSTOM if lasts else Period.MONTH,
            tz="UTC",
            created_at=now,
            thresholds=(Threshold(50), Threshold(80), Threshold(100, Measure.FORECAST)),
            start=now if lasts else None,
            end=now + int(lasts) if lasts else None,
            webhook=f"{self._inbox}/budgets",
            secret=SECRET,
            **changes,
        )
        self._services.budgets.create(budget)

    def _set_up_policies(self) -> None:
        for team, after, grace in (("vision", HOUR, 9_000), ("nlp", HOUR, 2_000)):
            self._rule(f"team:{team}", Rule(after, grace, Action.DELETE))
        self._rule("team:rl", Rule(2 * HOUR, HOUR, Action.NOTIFY))

    def _rule(self, scope: str, rule: Rule) -> None:
        recipient = Recipient(webhook=f"{self._inbox}/{scope.partition(':')[2]}", secret=SECRET)
        self._services.policies.save(scope, rule, [recipient])

    # nodes and jobs

    def _ask(self, name: str, owner: str, kind: str, *zones: str, **changes: Any) -> Node:
        """Request a node; its name begins with the team. Before the last day it has no supervisor,
        whose reports each minute would take time."""
        is_old = self._clock.seconds() < self.watched_from
        wanted = RequestedNode(
            project=PROJECT,
            name=name,
            owner=owner,
            team=name.partition("-")[0],
            accelerator_type=kind,
            zones=zones,
            supervisor=not is_old,
            **changes,
        )
        node = self._services.nodes.request(wanted, actor=owner).node
        self.nodes[name] = node.id
        return node

    def _ask_idle(self, name: str, owner: str, kind: str, works: float, **changes: Any) -> None:
        """Request a node that comes to rest after some hours of work."""
        node = self._ask(name, owner, kind, WEST, **changes)
        ends_at = self._clock.seconds() + works * HOUR
        self._works.assign(node.id, Workload.TRAINING, ends_at)

    def _delete(self, name: str, owner: str) -> None:
        self._services.nodes.delete(self.nodes[name], actor=owner)

    def _submit(
        self, name: str, owner: str, kind: str, hours: float, zone: str = WEST, **changes: Any
    ) -> None:
        """Submit a job with a node of its own. `env` is read by the emulator's played workers."""
        team, _, image = name.partition("-")
        model = changes.pop("model", ON_DEMAND)
        retries = changes.pop("retries", Retries())
        env = {
            "EMULATOR_DURATION_SECONDS": str(int(hours * HOUR)),
            "EMULATOR_LOG_EVERY_SECONDS": "300",
            **changes.pop("env", {}),
        }
        spec = JobSpec(
            image=f"us-docker.pkg.dev/lab/{team}/{image}:2.4",
            command=("python", "-m", f"{team}.{image.replace('-', '_')}"),
            env=env,
            max_duration_seconds=int(hours * HOUR) + 2 * HOUR,
            retries=retries,
            run_name=name,
        )
        node = RequestedNode(
            project=PROJECT, accelerator_type=kind, zone=zone, provisioning_model=model
        )
        submission = Submission(
            spec, project=PROJECT, owner=owner, team=team, node_request=node, **changes
        )
        self._services.jobs.submit(submission, actor=owner)
        for attempt in range(1, retries.failure + 2):
            # The daemon has to look when the attempt ends: no change announces that.
            self._clock.after(attempt * (hours * HOUR + 150), self._past.wake)

    # the days

    def _at_share(self, share: float, act: Callable[[], object]) -> None:
        self._clock.at(self.start + share * self._seconds + 60, act)

    def _before_end(self, hours: float, act: Callable[[], object]) -> None:
        self._clock.at(self.end - hours * HOUR, act)

    def _tell_day(self, day: int) -> None:
        """An experiment of some hours, and on most days a job."""
        self._clock.at(self.start + day * DAY, self._forget_operations)
        morning = self.start + day * DAY + self._luck.uniform(1, 4) * HOUR
        team, owner, kind, zone, model = EXPERIMENTS[day % len(EXPERIMENTS)]
        name, hours = f"{team}-exp-{day + 1:02}", self._luck.uniform(3, 11)
        # The first zone is full, so that the request goes on to the second.
        zones = (FULL, WEST) if zone == WEST else (zone,)
        ask = partial(self._ask, name, owner, kind, *zones, provisioning_model=model)
        self._clock.at(morning, ask)
        self._clock.at(morning + hours * HOUR, partial(self._delete, name, owner))
        noon = morning + self._luck.uniform(2, 6) * HOUR
        match day % 4:
            case 0:
                job = partial(self._submit, "nlp-finetune", "ada", "v5litepod-8", 3.5)
            case 1:
                job = partial(self._submit, "vision-eval", "mira", "v5litepod-4", 1.5, model=SPOT)
            case 2:
                crash = {"EMULATOR_EXIT_CODE": "1"}
                job = partial(
                    self._submit,
                    *("rl-rollout", "omar", "v5litepod-4", 0.1),
                    env=crash,
                    retries=Retries(failure=3),
                )
            case _:
                return
        if noon < self.end - 12 * HOUR:
            self._clock.at(noon, job)

    def _forget_operations(self) -> None:
        """Drop the operations that are older than a day: each look would read all of them."""
        operations = self._past.world.operations
        for operation in operations.list_all():
            created = metadata_of(operation).create_time.seconds
            if operation.done and created < self._clock.seconds() - DAY:
                operations.delete(operation.name)

    def _keep_paper(self) -> None:
        order = KeepOrder("figures for the paper, until the reviews are in", for_seconds=7 * DAY)
        self._services.keeps.keep_node(self.nodes["vision-paper"], order, actor="tomas")

    def _make_orphan(self) -> None:
        """Somebody creates a node beside the service."""
        theirs: Any = {
            "accelerator_type": "v5litepod-4",
            "runtime_version": "v2-alpha-tpuv5-lite",
            "labels": {"made-by": "omar"},
        }
        client = tpu_client(LocalChannel(self._past.world, self._clock.sleep))
        client.create_node(
            parent=f"projects/{PROJECT}/locations/{WEST}", node_id="omars-quick-test", node=theirs
        )

    def _ask_for_large_sweep(self) -> None:
        """A request beyond its budget, which is refused."""
        with suppress(BudgetExceeded):
            self._ask("nlp-sweep-xl", "jun", "v5p-8", EAST_V5P, labels={"run": "sweep-xl"})

    def _ask_crashing(self) -> None:
        node = self._ask("rl-env-check", "ines", "v5litepod-1", WEST)
        self._works.assign(node.id, Workload.CRASHING)

    def _delete_in_vain(self) -> None:
        """A deletion that the cloud refuses each time."""
        node = self._services.nodes.get(self.nodes["rl-replay"])
        fault = {
            "rpc": "DeleteNode",
            "action": "error",
            "code": "INTERNAL",
            "message": "Internal error: the node could not be deleted.",
            "match": {"node_id": node.cloud_id},
            "times": -1,
        }
        control.add_fault(self._past.world, fault)
        self._delete("rl-replay", "ines")

    def _tell_last_hours(self) -> None:
        """What is under way at the end, and what happens next by itself."""
        self._before_end(9, self._ask_sandbox)
        self._before_end(7, partial(self._ask_idle, "vision-notebook", "mira", "v5litepod-4", 3.8))
        self._before_end(6, partial(self._ask_idle, "nlp-tokenizer", "lea", "v5litepod-1", 4.45))
        ttl = partial(
            self._ask, "vision-workshop", "tomas", "v5litepod-4", WEST, ttl_seconds=3 * HOUR
        )
        self._before_end(2.6, ttl)
        finetune = partial(self._submit, "nlp-finetune", "ada", "v5litepod-8", 9)
        self._before_end(3, finetune)
        checkpoints = {
            "EMULATOR_STEPS": "4000",
            "EMULATOR_STEP_SECONDS": "5",
            "EMULATOR_CHECKPOINT_EVERY": "250",
        }
        distill = partial(
            self._submit,
            *("vision-distill", "mira", "v6e-4", 6, EAST),
            env=checkpoints,
            model=SPOT,
        )
        self._before_end(1.5, distill)

    def _ask_sandbox(self) -> None:
        """A node whose small budget is exceeded within the last hour, and deletes it later."""
        self._ask("rl-sandbox", "omar", "v5litepod-4", WEST, labels={"run": "sandbox"})
        self._limit(
            "sandbox",
            Scope(label=("run", "sandbox")),
            40,
            lasts=DAY,
            on_exceeded=OnExceeded.DELETE,
            grace_seconds=2 * HOUR,
        )
