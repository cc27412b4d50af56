"""The emulator's README leaves nothing out, and its examples work."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import service.emulator
from service.emulator.config.config import Config
from service.emulator.config.event_rates import Odds
from service.emulator.faults.fault import FACTS, Action, Fault
from service.emulator.incidents.scenario import ACTIONS, scenario_of, start_scenario
from service.emulator.surfaces import control
from service.emulator.surfaces.web import build_app
from service.emulator.workers.docker import plan

PAGE = (Path(service.emulator.__file__).parent / "README.md").read_text()

DIGEST = f"sha256:{'a' * 64}"
V6E = {
    "accelerator_type": "v6e-8",
    "runtime_version": "v2-alpha-tpuv6e",
    "scheduling_config": {"spot": True},
}


def examples(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def names(kind: type) -> list[str]:
    return [each.name for each in fields(kind)]


@pytest.mark.parametrize(
    "name",
    [
        *Action,
        *FACTS,
        *set(names(Fault)) - {"id", "hits", "since", "message"},
        *set(names(Config)) - {"durations"},
        *names(Odds),
        *ACTIONS,
    ],
)
def test_it_names_everything_that_can_be_said(name):
    assert re.search(rf"\b{re.escape(name)}\b", PAGE), name


def test_it_names_every_control_route(cloud):
    routes = [getattr(route, "path", "") for route in build_app(cloud.world).routes]
    own = [path.removeprefix("/_emulator/") for path in routes if path.startswith("/_emulator/")]
    assert len(own) > 10
    for path in own:
        assert path.partition("/{")[0] in PAGE, path


def test_its_faults_are_some(cloud):
    stockout, detailed = map(json.loads, examples("json")[:2])
    assert control.add_fault(cloud.world, stockout)["action"] == "stockout"
    assert control.add_fault(cloud.world, detailed)["details"] == detailed["details"]


def test_its_permissions_are_some(cloud):
    permissions = json.loads(examples("json")[2])
    found = control.change_config(cloud.world, permissions)["permissions"]
    assert set(found) == {"ci-token", "*"}


def test_its_configuration_is_one(cloud):
    *_, patch = examples("json")
    found = control.change_config(cloud.world, json.loads(patch.replace("sha256:…", DIGEST)))
    assert found["images"]["us-docker.pkg.dev/p/r/i"]["times"] == 2
    assert found["buckets"]["ckpt"]["location"] == "US-EAST5"


def test_it_names_every_variable_that_a_played_container_knows():
    known = re.findall(r'"(EMULATOR_\w+)"', Path(plan.__file__).read_text())
    assert len(known) > 10
    for name in known:
        assert name in PAGE, name


def test_its_scenario_plays(cloud):
    (script,) = examples("toml")
    start_scenario(cloud.world, scenario_of(tomllib.loads(script)))
    cloud.create("a", "projects/lab/locations/us-east5-a", **V6E)
    cloud.wait(200)
    states = [each.after for each in cloud.history]
    assert states == ["CREATING", "READY", "PREEMPTED"]


def test_its_client_without_a_server_works():
    (script,) = examples("python")
    names: dict[str, Any] = {}
    exec(script, names)
    parent = "projects/lab/locations/us-east5-a"
    names["client"].create_node(parent=parent, node_id="a", node=V6E)
    assert [each.name for each in names["client"].list_nodes(parent=parent)]
