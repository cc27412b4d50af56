"""What people do in a run: they keep, pause, apply plans, click links, delete and stop nodes; and
hosts fail."""

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
from service.controllers.notifications import mint_links
from service.domain.errors import Conflict, RateLimited, Rejected, StewardError
from service.domain.idle.links import KEEP_SECONDS, Verb
from service.domain.idle.plan import CleanupPlan
from service.domain.nodes.node import Asked
from service.emulator.errors import ApiError
from service.emulator.surfaces import control
from tests.simulation.cleanup.oracle import KeepSpan
from tests.simulation.invariants import Violation
from tests.simulation.replica import PROJECT

if TYPE_CHECKING:
    from tests.simulation.cleanup.run import Run

PUBLIC_URL = "http://127.0.0.1:8080"
POST_SECONDS = 45
FAR = 10**12


class People:
    """Everybody but the daemon. What they are told arrives within a minute."""

    def __init__(self, life: Run, luck: Random, more: Random) -> None:
        """`more` is the luck of those who delete, stop and click on *delete now*."""
        self._life = life
        self._luck = luck
        self._more = more
        self._read: set[str] = set()
        self._used: set[str] = set()

    def begin(self, node_ids: Iterable[str]) -> None:
        """Decide who does what when; a throng is left in peace."""
        fate = self._life.fate
        if fate.is_throng:
            return
        luck, later = self._luck, self._life.agenda.after
        for node_id in node_ids:
            self._decide_fate(node_id)
            if fate.has_deleters:
                self._decide_end(node_id)
        if luck.random() < 0.3:
            later(luck.uniform(600, 3_600), partial(self._pause, luck.uniform(60, 3_000)))
        for _ in range(12 if fate.is_meddled else luck.choice([0, 0, 1, 2])):
            later(luck.uniform(1_500, 6_000), self._look_at_the_plan)
        later(POST_SECONDS, self._read_the_post)

    def _decide_fate(self, node_id: str) -> None:
        luck, later, fate = self._luck, self._life.agenda.after, self._life.fate
        is_other = fate.has_jobs or fate.has_beats or fate.has_faults
        share = 0.1 if fate.is_crowd or fate.is_mass else 0.2 if is_other else 0.5
        if luck.random() < share:
            when, seconds = luck.uniform(300, 2_700), luck.choice([3_600, 7_200])
            later(when, partial(self._keep, node_id, seconds))
        if luck.random() < 0.2:
            later(luck.uniform(1_200, 5_400), partial(self._trouble, node_id, "host"))
        if luck.random() < 0.5:
            later(luck.uniform(1_200, 5_400), partial(self._trouble, node_id, "preempt"))

    def _decide_end(self, node_id: str) -> None:
        luck, later = self._more, self._life.agenda.after
        fate, when = luck.random(), luck.uniform(600, 4_200)
        if fate < 0.2:
            later(when, partial(self._delete, node_id))
        elif fate < 0.4:
            later(when, partial(self._stop, node_id))
            if luck.random() < 0.5:
                later(when + luck.uniform(120, 1_200), partial(self._start, node_id))

    def _keep(self, node_id: str, seconds: int) -> None:
        with suppress(StewardError):
            self._life.keeps.keep_node(node_id, KeepOrder("a demo", for_seconds=seconds))
            self._life.oracle.has_kept(node_id, seconds)

    def _trouble(self, node_id: str, what: str) -> None:
        """The host fails and comes back, or the cloud takes the node and it is made again."""
        oracle, now = self._life.oracle, self._life.agenda.seconds()
        with self._life.units.reading() as unit:
            node = unit.nodes.get(node_id)
        name = {"name": f"{self._life.parent}/nodes/{node.cloud_id}"}
        if what == "preempt" and not node.spec.recreate_on_preemption:
            return
        oracle.troubled[node_id] = now
        with suppress(ApiError):
            if what == "host":
                control.break_host(self._life.world, name)
            else:
                oracle.lost[node_id] = now
                control.preempt_node(self._life.world, name)

    def _delete(self, node_id: str) -> None:
        """Nothing holds back a person, and a keep ends with it."""
        try:
            self._life.nodes.request_end(node_id, actor="ada")
        except Conflict as error:
            raise Violation(f"{node_id} was deleted by a person: {error}") from error
        self._check_gone(node_id)

    def _check_gone(self, node_id: str) -> None:
        with self._life.units.reading() as unit:
            node = unit.nodes.get(node_id)
        self._life.oracle.has_asked(node_id, Asked.ABSENT)
        if node.asked is not Asked.ABSENT:
            raise Violation(f"{node.name} was deleted by a person, and is to stay")

    def _stop(self, node_id: str) -> None:
        now = self._life.agenda.seconds()
        with self._life.units.reading() as unit:
            node, claim = unit.nodes.get(node_id), unit.jobs.find_claim(node_id)
        try:
            self._life.nodes.request_stop(node_id, actor="ada")
        except (Conflict, Rejected) as error:
            if node.spec.stoppable and node.asked is Asked.PRESENT and claim is None:
                raise Violation(f"{node.name} was stopped by a person: {error}") from error
            return
        self._life.oracle.troubled[node_id] = now
        self._life.oracle.has_asked(node_id, Asked.STOPPED)

    def _start(self, node_id: str) -> None:
        with suppress(StewardError):
            self._life.nodes.start(node_id, actor="ada")
            self._life.oracle.has_asked(node_id, Asked.PRESENT)

    def _pause(self, seconds: float) -> None:
        self._life.cleanup.pause(PROJECT, "ada", "a demo")
        self._life.oracle.paused = True
        self._life.oracle.pauses.append(KeepSpan(self._life.agenda.seconds(), FAR))
        self._life.agenda.after(seconds, self._resume)

    def _resume(self) -> None:
        self._life.oracle.paused = False
        self._life.oracle.pauses[-1].until = self._life.agenda.seconds()
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
            self._life.oracle.has_applied(done.entries)

    def _read_the_post(self) -> None:
        """Take what was sent; some use the links in it, and some of these once more later."""
        agenda = self._life.agenda
        with self._life.units() as unit:
            for notification in unit.notifications.list_due(agenda.seconds(), 100):
                sent = replace(notification, tries=1, sent_at=agenda.seconds(), next_try_at=None)
                unit.notifications.save(sent)
                tokens = _tokens_in(mint_links(unit, notification, agenda.seconds()).body)
                if tokens and notification.id not in self._read:
                    self._read.add(notification.id)
                    self._click(notification.about_id, tokens)
        agenda.after(POST_SECONDS, self._read_the_post)

    def _click(self, node_id: str, tokens: Mapping[Verb, str]) -> None:
        fate = self._life.fate
        if self._luck.random() < (0.8 if fate.is_meddled else 0.2):
            self._use_twice(self._luck, node_id, Verb.KEEP, tokens)
        if fate.has_clickers and self._more.random() < 0.4:
            self._use_twice(self._more, node_id, Verb.DELETE, tokens)

    def _use_twice(
        self, luck: Random, node_id: str, verb: Verb, tokens: Mapping[Verb, str]
    ) -> None:
        when, later = luck.uniform(1, 400), self._life.agenda.after
        later(when, partial(self._use, node_id, verb, tokens[verb]))
        later(when + luck.uniform(1, 3_600), partial(self._use, node_id, verb, tokens[verb]))

    def _use(self, node_id: str, verb: Verb, token: str) -> None:
        """Use a link. It works once; after that the answer is a refusal, and nothing else."""
        is_again = token in self._used
        try:
            offer: Any = self._life.links.use_link(token)
        except RateLimited:
            return
        except StewardError as error:
            if is_again:
                raise Violation(f"a used link of {node_id} was answered by {error}") from error
            return
        if isinstance(offer, UnknownLink) or offer.refusal is not None:
            return
        if is_again:
            raise Violation(f"a link of {node_id} was used twice")
        self._used.add(token)
        if verb is Verb.KEEP:
            self._life.oracle.has_kept(node_id, KEEP_SECONDS)
        else:
            self._check_gone(node_id)


def _tokens_in(body: str) -> Mapping[Verb, str]:
    links: Mapping[str, str] = json.loads(body).get("links", {})
    return {Verb(verb): address.rpartition("/")[2] for verb, address in links.items()}


def _nodes_of(plan: CleanupPlan) -> set[str]:
    return {entry.name for entry in plan.entries}
