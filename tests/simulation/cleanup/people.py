"""What people do in a run: they keep, pause, apply plans and click links; and hosts fail."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from service.application.cleanup.keeps import KeepOrder
from service.application.cleanup.links import UnknownLink
from service.controllers.budgets.notifications import mint_links
from service.domain.errors import StewardError
from service.domain.idle.links import KEEP_SECONDS
from service.domain.idle.plan import CleanupPlan
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from tests.simulation.invariants import Violation
from tests.simulation.replica import PROJECT

if TYPE_CHECKING:
    from tests.simulation.cleanup.run import Run

PUBLIC_URL = "http://127.0.0.1:8080"
POST_SECONDS = 45


class People:
    """Everybody but the daemon. What they are told arrives within a minute."""

    def __init__(self, life: Run, luck: Random) -> None:
        self._life = life
        self._luck = luck
        self.has_paused = False
        self._told: set[str] = set()

    def begin(self, node_ids: Iterable[str]) -> None:
        """Decide who does what when; a throng is left in peace."""
        if self._life.is_throng:
            return
        luck, later = self._luck, self._life.agenda.after
        for node_id in node_ids:
            if luck.random() < (0.1 if self._life.is_crowd else 0.5):
                when, seconds = luck.uniform(300, 2_700), luck.choice([3_600, 7_200])
                later(when, partial(self._keep, node_id, seconds))
            if luck.random() < 0.2:
                later(luck.uniform(1_200, 5_400), partial(self._trouble, node_id, "host"))
            if luck.random() < 0.5:
                later(luck.uniform(1_200, 5_400), partial(self._trouble, node_id, "preempt"))
        if luck.random() < 0.3:
            self.has_paused = True
            later(luck.uniform(600, 3_600), partial(self._pause, luck.uniform(60, 3_000)))
        for _ in range(12 if self._life.is_meddled else luck.choice([0, 0, 1, 2])):
            later(luck.uniform(1_500, 6_000), self._look_at_the_plan)
        later(POST_SECONDS, self._read_the_post)

    def _keep(self, node_id: str, seconds: int) -> None:
        with suppress(StewardError):
            self._life.keeps.keep_node(node_id, KeepOrder("a demo", for_seconds=seconds))
            self._has_kept(node_id, seconds)

    def _has_kept(self, node_id: str, seconds: int) -> None:
        oracle = self._life.oracle
        until = self._life.agenda.seconds() + seconds
        oracle.keeps[node_id] = max(oracle.keeps.get(node_id, 0), until)
        oracle.troubled.add(node_id)

    def _trouble(self, node_id: str, what: str) -> None:
        """The host fails and comes back, or the cloud takes the node and it is made again."""
        self._life.oracle.troubled.add(node_id)
        with self._life.units.reading() as unit:
            node = unit.nodes.get(node_id)
        name = {"name": f"{self._life.parent}/nodes/{node.cloud_id}"}
        if what == "preempt" and not node.spec.recreate_on_preemption:
            return
        with suppress(ApiError):
            if what == "host":
                control.break_host(self._life.world, name)
            else:
                control.preempt_node(self._life.world, name)

    def _pause(self, seconds: float) -> None:
        self._life.cleanup.pause(PROJECT, "ada", "a demo")
        self._life.oracle.paused = True
        self._life.agenda.after(seconds, self._resume)

    def _resume(self) -> None:
        self._life.oracle.paused = False
        self._life.cleanup.resume(PROJECT)

    def _look_at_the_plan(self) -> None:
        plan = self._life.cleanup.make_plan(PROJECT, "ada")
        self._life.agenda.after(self._luck.uniform(1, 1_800), partial(self._apply, plan))

    def _apply(self, shown: CleanupPlan) -> None:
        """Apply what was shown: exactly that is ended, or nothing."""
        with suppress(StewardError):
            done = self._life.cleanup.apply_plan(shown.id, "ada")
            before, after = _nodes_of(shown), _nodes_of(done)
            if before != after:
                raise Violation(f"a plan for {sorted(before)} has ended {sorted(after)}")
            self._life.oracle.has_applied([entry.node_id for entry in done.entries])

    def _read_the_post(self) -> None:
        """Take what was sent; some use the links in it, and some of these once more later."""
        agenda = self._life.agenda
        with self._life.units() as unit:
            for one in unit.notifications.list_due(agenda.seconds(), 100):
                sent = replace(one, tries=1, sent_at=agenda.seconds(), next_try_at=None)
                unit.notifications.save(sent)
                body = mint_links(unit, one, agenda.seconds()).body
                links: Mapping[str, str] = json.loads(body).get("links", {})
                if links and one.id not in self._told:
                    self._told.add(one.id)
                    self._click(one.about_id, links)
        agenda.after(POST_SECONDS, self._read_the_post)

    def _click(self, node_id: str, links: Mapping[str, str]) -> None:
        luck, later = self._luck, self._life.agenda.after
        if luck.random() < (0.8 if self._life.is_meddled else 0.2):
            token, when = links["keep"].rpartition("/")[2], luck.uniform(1, 400)
            later(when, partial(self._use, node_id, token))
            later(when + luck.uniform(1, 3_600), partial(self._use, node_id, token))

    def _use(self, node_id: str, token: str) -> None:
        with suppress(StewardError):
            offer: Any = self._life.links.use_link(token)
            if isinstance(offer, UnknownLink) or offer.refusal is not None:
                return
            if token in self._told:
                raise Violation(f"a link of {node_id} was used twice")
            self._told.add(token)
            self._has_kept(node_id, KEEP_SECONDS)


def _nodes_of(plan: CleanupPlan) -> set[str]:
    return {entry.name for entry in plan.entries}
