"""A scenario: timed events from a file, which are the same each time for the same seed.

A scenario is TOML: a `[config]` table to begin with, and `[[step]]` tables. A step happens `at` so
many seconds after the start (and then `every` so many), or `after_ready` so many seconds after any
matching node became READY, at most `times` times. A step has one action, with the name and the
fields of a control route.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from service.emulator.api.calls.match_facts import record_facts
from service.emulator.config.config import MAX_SECONDS, patched_config
from service.emulator.errors import ApiError
from service.emulator.faults.fault import FACTS
from service.emulator.faults.fault_parser import fault_of
from service.emulator.nodes.nodes import NodeRecord
from service.emulator.surfaces import control
from service.emulator.validation import (
    invalid_value,
    parse_integer,
    parse_number,
    require_known_keys,
)
from service.emulator.world.bill import Transition
from service.emulator.world.world import World

Do = Callable[[World, Any], object]

# Actions on the world, and actions on the nodes that a step names or matches.
WORLD_ACTIONS: dict[str, Do] = {
    "config": control.change_config,
    "fault": control.add_fault,
    "clear_faults": lambda world, _: control.drop_faults(world, ""),
}
NODE_ACTIONS: dict[str, Do] = {
    "preempt": control.preempt_node,
    "maintenance": control.maintain_node,
    "host_error": control.break_host,
    "health": control.set_health,
    "activity": control.set_activity,
}
ACTIONS = WORLD_ACTIONS | NODE_ACTIONS
WHEN = ("at", "every", "after_ready", "times")
SELECTION = ("match", "count")
LEAST_EVERY = 1.0
"""Seconds. A pause of 0 would repeat a step for ever at one moment."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScenarioStep:
    """One step. At most `count` of the matching nodes are chosen; 0 chooses all of them."""

    action: str
    order: Mapping[str, object]
    match: Mapping[str, object]
    count: int
    at: float
    every: float
    after_ready: float | None
    times: int


@dataclass(frozen=True)
class Scenario:
    config: Mapping[str, object]
    steps: tuple[ScenarioStep, ...]


def read_file(path: Path) -> Scenario:
    """Return the scenario in a file. Raises OSError, or ApiError that names the wrong step."""
    try:
        script = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise invalid_value(f"{path}: {error}") from None
    return scenario_of(script)


def scenario_of(script: Mapping[str, Any]) -> Scenario:
    require_known_keys(script, ("config", "step"), "table")
    steps = script.get("step", [])
    if not isinstance(steps, list):
        raise invalid_value("steps are written as [[step]]")
    parsed = []
    for number, raw in enumerate(steps, start=1):
        where = f"step {number}"
        if not isinstance(raw, Mapping):
            raise invalid_value(f"{where} must be a table")
        actions = sorted(set(raw) - set(WHEN))
        if len(actions) != 1 or actions[0] not in ACTIONS:
            raise invalid_value(f"{where} must say one thing to do, of: {', '.join(ACTIONS)}")
        action = actions[0]
        order = raw[action] if isinstance(raw[action], Mapping) else {}
        # A fault has its own match, whose keys its parser checks.
        if action == "fault":
            parsed.append(ScenarioStep(action, order, {}, 0, **_parse_times(raw, where)))
            continue
        match = order.get("match", {})
        if not isinstance(match, Mapping) or set(match) - set(FACTS):
            raise invalid_value(f"{where}: match must be a table of {', '.join(FACTS)}")
        kept = {key: value for key, value in order.items() if key not in SELECTION}
        count = parse_integer(order.get("count", 1), f"{where}: count")
        parsed.append(ScenarioStep(action, kept, match, count, **_parse_times(raw, where)))
    return Scenario(script.get("config", {}), tuple(parsed))


def start_scenario(world: World, scenario: Scenario) -> None:
    """Start a scenario now. Raises ApiError for an invalid configuration or fault."""
    control.change_config(world, scenario.config)
    for step in scenario.steps:
        if step.action == "fault":
            fault_of(step.order, world.rpcs, 0, 0.0)
        if step.action == "config":
            patched_config(world.config, step.order)
    random = Random(f"{world.seed}/scenario")  # noqa: S311 - repeatable on purpose
    for step in scenario.steps:
        _Playing(world, step, random).start()


@dataclass
class _Playing:
    world: World
    step: ScenarioStep
    random: Random
    played: int = 0

    def start(self) -> None:
        self.timeline = self.world.timeline
        if self.step.after_ready is not None:
            self.world.observers.append(self._follow_transition)
        else:
            self._schedule_action(self.world.run_due_events() + self.step.at, self._play_step)

    def _play_step(self, at: float) -> None:
        if self.step.action in NODE_ACTIONS:
            name = self.step.order.get("name")
            matching = [
                record
                for node_name, record in sorted(self.world.nodes.items())
                if name in {None, node_name} and _is_match(record, self.step.match)
            ]
            count = min(self.step.count or len(matching), len(matching))
            for record in self.random.sample(matching, count):
                self._act_on_node(record)
        else:
            self._run_action(self.step.order)
        self.played += 1
        if self.step.every and not self._is_over():
            self._schedule_action(at + self.step.every, self._play_step)

    def _follow_transition(self, transition: Transition) -> None:
        # A reset replaces the timeline and so ends the scenario.
        ended = self._is_over() or self.world.timeline is not self.timeline
        if transition.after == "READY" and not ended:
            record = self.world.nodes[transition.name]
            if _is_match(record, self.step.match):
                self.played += 1
                due = transition.at + (self.step.after_ready or 0)
                self._schedule_action(due, lambda _: self._act_on_node(record))

    def _act_on_node(self, record: NodeRecord) -> None:
        if self.step.action in WORLD_ACTIONS:
            self._run_action(self.step.order)
        # Another node may have this name by now.
        elif self.world.nodes.get(record.name) is record:
            self._run_action({**self.step.order, "name": record.name})

    def _run_action(self, order: Mapping[str, object]) -> None:
        try:
            ACTIONS[self.step.action](self.world, order)
        except ApiError as error:
            log.warning("scenario: %s had no effect: %s", self.step.action, error)

    def _schedule_action(self, due: float, act: Callable[[float], None]) -> None:
        what = f"scenario: {self.step.action}"
        self.world.timeline.schedule_event(due, "scenario", what, act, fate=True)

    def _is_over(self) -> bool:
        return 0 < self.step.times <= self.played


def _is_match(record: NodeRecord, match: Mapping[str, object]) -> bool:
    facts = record_facts(record)
    return all(
        facts.get(key, "") in (wanted if isinstance(wanted, list) else [wanted])
        for key, wanted in match.items()
    )


def _parse_times(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    def parse_seconds(key: str, lowest: float = 0) -> float:
        return parse_number(raw[key], f"{where}: {key}", lowest, MAX_SECONDS) if key in raw else 0.0

    return {
        "at": parse_seconds("at"),
        "every": parse_seconds("every", LEAST_EVERY),
        "after_ready": parse_seconds("after_ready") if "after_ready" in raw else None,
        "times": parse_integer(raw.get("times", 0), f"{where}: times"),
    }
