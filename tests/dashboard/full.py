"""A lab with something on every page, and the addresses of all pages of an app."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from random import Random

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from sqlalchemy import Engine, update

from service.application.cleanup.cleanup import CleanupService, IdleMode
from service.dashboard.answers import HtmlRoute
from service.domain.budgets.budget import OnExceeded, Period, Scope, Threshold
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import DAY, HOUR, floor_to
from service.domain.errors import BudgetExceeded
from service.domain.idle.cleanup import EndRecord, RailHold
from service.domain.idle.links import Verb
from service.domain.idle.policy import Action
from service.domain.idle.rails import Rail, Waiting
from service.domain.ids import IdSource, ids_from
from service.domain.jobs.job import Job
from service.domain.nodes.node import Asked, Node, NodeState
from service.domain.nodes.placement import Outcome
from service.domain.orphans.orphan import OrphanKind
from service.domain.placement.quota import Limit, Size, Tier
from service.store.engine import make_engine
from service.store.tables import leases
from service.store.unit import Units
from tests import factories
from tests.bills import json_lines
from tests.commitments import commitment
from tests.controllers.idle.conftest import REST, TIMES, WORK, IdleLab
from tests.dashboard.jobs import JobHouse
from tests.dashboard.lab import Lab
from tests.databases import fresh_database
from tests.garbage import orphan, shown
from tests.hands import NOON, HandClock
from tests.linking import tokens_of, told_of
from tests.plantedcommitments import first_file
from tests.purchases import metered, ran_reserved
from tests.store.test_recommendations import ran

LONG = "a-name-that-goes-on-for-forty-nine-characters-yes"
HOSTILE = (
    "<img src=x onerror=document.title='broken'>",
    "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}" * 20,
    "\u202egnp.exe\u2066",
    "W" * 63,
    "\"'></td></table></main><h1>",
    "\N{ROCKET}" * 12,
)
"""Texts that pages must show as texts, and wrap."""

REVIEW = (
    "step=review&accelerator_type=v5litepod-8&slices=1&provisioning_model=on_demand&name=trainer"
    "&owner=ada&team=vision&ttl_seconds=14400&idle_after=7200&idle_action=delete"
)
"""The fields of the form for a new node, but for its zone."""

REFUSED = (f"/nodes/new?{REVIEW}&zone=us-mars1-a",)
"""The addresses of a full lab that are answered with the reason why they cannot be shown."""

Rename = Callable[[str], str]
"""Replaces the name of a thing, or another text of a caller."""


@dataclass(frozen=True)
class FullLab:
    """A lab, a value for each parameter of its addresses by the first part of the address, and
    addresses that the routes do not name: with a query, or of another state of the same page."""

    lab: Lab
    values: Mapping[str, str]
    more: tuple[str, ...] = ()


def addresses_of(app: FastAPI, full: FullLab) -> list[str]:
    """The addresses of all pages of an app: one for each route, and those of the lab in addition.
    A route whose parameter has no value in the lab is a KeyError."""
    found = [fill_in(path, full.values) for path in paths_of(app, "GET")]
    return [*found, *full.more]


def paths_of(app: FastAPI, method: str) -> list[str]:
    """The paths of the routes for browsers that answer a method."""
    return [
        context.path
        for context in iter_route_contexts(app.routes)
        if isinstance(context.original_route, HtmlRoute)
        and context.path is not None
        and method in (context.methods or ())
    ]


def fill_in(path: str, values: Mapping[str, str]) -> str:
    """The path of a route with a value for each of its parameters. KeyError if one has none."""
    place = path.split("/")[1]
    return re.sub(r"\{(\w+)\}", lambda found: values[f"{place}.{found[1]}"], path)


def plain(name: str) -> str:
    """The name itself."""
    return name


def make_hostile() -> Rename:
    """Replaces each text by one that is hostile, by turns, each with a number of its own."""
    texts, numbers = cycle(HOSTILE), count(1)
    return lambda _: f"{next(texts)}{next(numbers)}"


@contextmanager
def empty_lab(folder: Path) -> Iterator[FullLab]:
    """A lab in which nothing is recorded: a list is empty, and a thing is not there."""
    with fresh_database("sqlite", folder) as address:
        engine = make_engine(address)
        lab = Lab(Units(engine), HandClock(), (factories.PROJECT,))
        lab.looked_at()
        names = ("node_id", "job_id", "reservation_id", "subject", "number", "name", "slug")
        places = ("nodes", "jobs", "reservations", "budgets", "orphans", "manual", "docs")
        values = {f"{place}.{name}": "none" for place in places for name in names}
        values |= {"statements.period": "2026-11", "links.token": "none", "problems.slug": "none"}
        yield FullLab(lab, values, ("/nothing/here", "/costs?window=5y", "/prices?at=never"))
        engine.dispose()


@contextmanager
def full_lab(folder: Path, rename: Rename = plain) -> Iterator[FullLab]:
    """A lab with something on every page, the same each time."""
    random = Random(17)
    clock = HandClock(NOON - 5 * HOUR)
    with (
        fresh_database("sqlite", folder) as address,
        ids_from(IdSource(lambda: float(clock.now), random.getrandbits)),
    ):
        engine = make_engine(address)
        yield _Filling(Units(engine), engine, clock, rename).fill()
        engine.dispose()


class _Filling:
    """Fills a lab step by step."""

    def __init__(self, units: Units, engine: Engine, clock: HandClock, rename: Rename) -> None:
        self.engine, self.clock, self.rename = engine, clock, rename
        self.house = JobHouse(units, engine, clock)
        self.lab = self.house.lab
        self.units = units

    def fill(self) -> FullLab:
        """The lab, with all in it."""
        jobs = self._run_jobs()
        idle = self._watch_nodes()
        nodes = self._add_nodes()
        self._plan_cleanup(idle)
        self._fill_books()
        reserved = self._buy()
        budgets = self._set_budgets()
        self._find_orphans()
        self._try_capacity()
        tokens = self._send_links()
        metered(self.units, self.clock)
        self.lab.looked_at()
        train, services = nodes["train"].id, self.lab.services
        values = {
            "nodes.node_id": train,
            "nodes.subject": train,
            "nodes.number": str(services.nodes.list_ledger_lines(train, 0, 1)[0].id),
            "jobs.job_id": jobs["running"].id,
            "jobs.subject": jobs["running"].id,
            "budgets.subject": budgets[0],
            "orphans.subject": services.orphans.list_all()[0].orphan.id,
            "reservations.reservation_id": reserved,
            "reservations.number": str(
                services.reservations.list_ledger_lines(reserved, 0, 1)[0].id
            ),
            "statements.period": "2026-11",
            "manual.name": "jobs",
            "docs.name": "nodes",
            "problems.slug": "runtime-mismatch",
            "links.token": tokens[Verb.DELETE],
        }
        return FullLab(
            self.lab, values, self._list_more(jobs, idle, nodes, budgets, reserved, tokens)
        )

    def _run_jobs(self) -> dict[str, Job]:
        """Jobs of all sorts. Their daemon ends here, so they stay as they are."""
        house = self.house
        jobs = {
            "done": house.preempted_twice(),
            "failed": house.failed(),
            "cancelled": house.cancelled(),
        }
        if self.rename is not plain:
            jobs["hostile"] = house.hostile()
        jobs["waiting"] = house.in_line()[2]
        jobs["running"] = house.running()
        with self.units() as unit:
            unit.leases.release(house.jobs.lease)
        return jobs

    def _watch_nodes(self) -> dict[str, Node]:
        """Nodes quiet, active and without signals, that a daemon has watched long enough."""
        daemon = IdleLab(self.units, self.clock, Action.OBSERVE)
        with self.engine.begin() as connection:
            connection.execute(update(leases).values(held_since=self.clock.now - 2 * HOUR))
        doing = {"asleep": REST, "notebook": REST, "busy": WORK, "dark": None}
        found = {
            name: daemon.add(values, name=self.rename(name), owner=self.rename("grace"))
            for name, values in doing.items()
        }
        with self.units() as unit:
            for node in found.values():
                unit.usage.save(factories.usage(node_id=node.id, start=self.clock.now))
        daemon.minute((TIMES.warmup + 1_800 + TIMES.telemetry) // 60 + 1)
        with self.units() as unit:
            unit.leases.release(daemon.lease)
        assert self.clock.now <= NOON
        self.clock.now = NOON
        mode = IdleMode(Action.OBSERVE, TIMES)
        service = CleanupService(
            self.units, self.lab.prices, self.clock, (factories.PROJECT,), mode
        )
        self.lab.services = replace(self.lab.services, cleanup=service)
        return found

    def _add_nodes(self) -> dict[str, Node]:
        """A node of each state that a reader meets."""
        lab, now, name = self.lab, self.clock.now, self.rename
        made = {
            "train": lab.ran(
                now - 9_000,
                name=name("train"),
                labels={"stage": name("eval"), "run": "17"},
                kept_until=now + 4 * HOUR,
                kept_because=name("the deadline"),
                ttl_seconds=DAY,
            ),
            "legacy": lab.ran_legacy(now - 7_277, name=name("legacy")),
            "stopped": lab.ran(
                now - 5 * HOUR,
                now - HOUR,
                name=name("stopped"),
                state=NodeState.STOPPED,
                asked=Asked.STOPPED,
                ended_at=None,
            ),
            "preempted": lab.ran(
                now - DAY, now - 2 * HOUR, name=name("preempted"), last_error=name("preempted")
            ),
            "unpriced": lab.ran(
                now - 900, name=name("unpriced"), zone="asia-nowhere1-a", owner=name("ada")
            ),
            "ending": lab.ran(
                now - HOUR,
                name=name("ending"),
                team=name("language"),
                asked=Asked.ABSENT,
                delete_requested_at=now - 60,
                delete_reason=name("no longer needed"),
            ),
            "long": lab.asked_for(name=LONG, owner=name("ada"), team=name("language")),
            "failed": lab.asked_for(
                name=name("failed"), state=NodeState.FAILED, last_error=name("no capacity")
            ),
            "creating": lab.asked_for(
                name=name("creating"), state=NodeState.CREATING, zone="us-east5-a"
            ),
        }
        lab.lives_a_month()
        return made

    def _plan_cleanup(self, idle: Mapping[str, Node]) -> None:
        """What holds the cleanup, who waits, and what it ended before."""
        now, node, name = self.clock.now, idle["asleep"], self.rename
        end = EndRecord(
            *(factories.PROJECT, now - 2 * DAY, node.id, 1, name("weekend"), Action.DELETE),
            *("steward", name("idle for 2 h"), None),
        )
        held = RailHold(Rail.BREAKER, name("3 of 9 nodes became unknown"), now - 60, now + HOUR)
        waits = Waiting(node.id, Rail.HOUR, 1, now + 600, now - 120)
        with self.units() as unit:
            unit.cleanups.add_end(end)
            row = unit.cleanups.get(factories.PROJECT)
            unit.cleanups.save(replace(row, ticked_at=now - 30, holds=(held,), waiting=(waits,)))
        self.lab.services.cleanup.pause("", "ada", name("the deadline"))

    def _fill_books(self) -> None:
        """A bill to compare, and months of use on demand to recommend commitments for."""
        ran(self.units, floor_to(self.clock.now, DAY) - 91 * DAY, None)
        self.lab.services.reconciliations.reconcile(
            io.BytesIO(json_lines(first_file())), name="november.jsonl"
        )

    def _buy(self) -> str:
        """Reservations and a commitment. Answers the id of a reservation that is partly used."""
        now = self.clock.now
        bought = self.lab.bought(name="autumn", start=now - 9 * HOUR)
        self.lab.bought(name="a-name-that-goes-on" * 3, start=now + DAY, end=now + 3 * DAY)
        ran_reserved(
            self.units,
            now - 7 * HOUR,
            name=self.rename("reserved"),
            zone="asia-south2-a",
            reservation="autumn",
            generation="v5p",
            accelerator_type="v5p-32",
            chips=16,
            hosts=4,
        )
        self.lab.services.commitments.record(commitment(start=now - 9 * HOUR))
        return bought.id

    def _set_budgets(self) -> list[str]:
        """Budgets under and over their amount, one that refused, and one that ends."""
        budgets, now, name = self.lab.services.budgets, self.clock.now, self.rename
        half = (Threshold(50), Threshold(80))
        made = [
            factories.budget(name=name("all"), scope=Scope(), amount=90_000 * 10**9),
            factories.budget(name=name("vision monthly"), thresholds=half),
            factories.budget(name=name("language"), scope=Scope(team="language"), amount=1),
            factories.budget(
                name=name("deadline"),
                period=Period.CUSTOM,
                start=now - DAY,
                end=now + 2 * DAY,
                on_exceeded=OnExceeded.DELETE,
                amount=10_000 * 10**9,
            ),
            factories.budget(
                name=name("nobody"),
                scope=Scope(team="nobody"),
                on_exceeded=OnExceeded.REFUSE,
                amount=1,
            ),
        ]
        ids = [budgets.create(node).shown.budget.id for node in made]
        with suppress(BudgetExceeded):
            self.lab.services.nodes.request(factories.request(team="nobody"))
        return ids

    def _find_orphans(self) -> None:
        self.lab.found(
            orphan(),
            orphan(
                kind=OrphanKind.STRANGER,
                shown=shown("a-name-that-goes-on" * 3, labels={"owner": self.rename("grace")}),
            ),
        )

    def _try_capacity(self) -> None:
        """Attempts that ended in every way, one kind of hardware in a cooldown, and a quota."""
        lab, spot = self.lab, ProvisioningModel.SPOT
        lab.tried(lab.asked_for(name=self.rename("nowhere")), (60, Outcome.STOCK_OUT, None))
        lab.tried(lab.asked_for(provisioning_model=spot), (45, Outcome.STOCK_OUT, None))
        lab.tried(
            lab.asked_for(zone="us-east5-a"),
            (7_200, Outcome.PREEMPTED, 100),
            (3_600, Outcome.READY, 200),
            (1_800, Outcome.QUOTA, None),
            (900, Outcome.OPEN, None),
        )
        limit = Limit(
            *(factories.PROJECT, "", "us-west4", "v5e", Tier.ON_DEMAND, Size.ANY),
            *(0, self.clock.now - 1_800, "Limit: 0."),
        )
        with self.units() as unit:
            unit.quotas.save(limit)

    def _send_links(self) -> dict[Verb, str]:
        """The tokens of links in a message."""
        return tokens_of(self.units, told_of(self.units, name=self.rename("told")))

    def _list_more(
        self,
        jobs: Mapping[str, Job],
        idle: Mapping[str, Node],
        nodes: Mapping[str, Node],
        budgets: list[str],
        reserved: str,
        tokens: Mapping[Verb, str],
    ) -> tuple[str, ...]:
        node = nodes["train"].id
        return (
            "/?window=90d&group=team",
            "/nodes?state=all&sort=name",
            "/nodes?team=nobody",
            *(f"/nodes/{one.id}" for key, one in nodes.items() if key != "train"),
            *(f"/nodes/{node.id}" for node in idle.values()),
            f"/nodes/{node}/ledger?window=7d",
            f"/nodes/{nodes['stopped'].id}/start",
            f"/nodes/{nodes['ending'].id}/delete",
            *(f"/jobs/{job.id}" for key, job in jobs.items() if key != "running"),
            "/jobs?team=nobody",
            "/costs?window=7d&aggregate=team,owner,zone&step=day&filter=team:vision",
            "/costs?aggregate=team&exact=1&show=usage",
            "/prices?show=all",
            f"/nodes/new?{REVIEW}&zone=us-central1-a",
            *REFUSED,
            f"/budgets/{budgets[-1]}/delete",
            "/manual?q=zone",
            "/docs?q=zone",
            f"/links/{tokens[Verb.KEEP]}",
            f"/reservations/{reserved}/ledger?window=7d",
        )
