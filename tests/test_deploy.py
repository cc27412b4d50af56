"""What is shipped for Prometheus and Grafana asks for what `/metrics` answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import typer
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from service.api.app import create_app
from service.cli.app import app
from service.domain.nodes.node import NodeState
from service.domain.nodes.placement import Outcome, Placement
from tests import factories
from tests.dashboard.lab import Lab
from tests.hands import NOON

DEPLOY = Path(__file__).parents[1] / "deploy"
ALERTS = DEPLOY / "prometheus" / "tpu-steward-alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "tpu-steward.json"


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(ALERTS.read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return found


def expressions() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel["targets"]]
    texts = [*(rule["expr"] for rule in rules()), *asked]
    return [text.replace("$__rate_interval", "5m") for text in texts]


def selectors(node: Any) -> Iterator[Any]:
    """The series that an expression selects."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for name in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
        below = getattr(node, name, None)
        for child in below if isinstance(below, list) else [below]:
            if child is not None:
                yield from selectors(child)


@pytest.fixture
def shown(units, clock) -> dict[str, set[str]]:
    """The labels of each series that a service with one budget and one price shows."""
    lab = Lab(units, clock, ["lab"])
    node = factories.node(state=NodeState.READY)
    with units() as unit:
        unit.budgets.add(factories.budget(id="b-1"))
        unit.nodes.add(node)
        unit.usage.save(factories.usage(node_id=node.id))
        unit.placements.add(
            Placement(node.id, 1, node.zone, "spot", "n-1", NOON, Outcome.PREEMPTED)
        )
    clock.pass_(600)
    client = TestClient(create_app(lab.services, None), base_url="http://localhost")
    client.get("/v1/fleet")
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_every_expression_is_understood_and_asks_for_what_is_shown(shown):
    asked = [
        (text, selector)
        for text in expressions()
        for selector in selectors(promql_parser.parse(text))
    ]
    assert len(asked) >= len(expressions())
    for text, one in asked:
        assert one.name in shown, text
        known = shown[one.name] | {"instance"}
        assert {matcher.name for matcher in one.matchers.matchers} <= known, text


def test_a_name_that_is_not_shown_is_found(shown):
    (one,) = selectors(promql_parser.parse("max without (instance) (steward_gone) > 1"))
    assert one.name not in shown


def test_alerts_name_commands_that_exist():
    named = re.findall(r"`tpu-steward ([a-z ]+)`", ALERTS.read_text())
    assert len(named) >= 3
    for words in named:
        command: Any = typer.main.get_command(app)
        for word in words.split():
            assert word in command.commands, words
            command = command.commands[word]


def test_each_alert_says_what_it_is_and_how_grave():
    assert len({rule["alert"] for rule in rules()}) == len(rules())
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule
        assert rule["annotations"]["summary"].endswith("."), rule


def test_panels_do_not_overlap():
    taken: dict[tuple[int, int], str] = {}
    for panel in panels():
        place = panel["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, (panel["title"], taken[x, y])
                taken[x, y] = panel["title"]
    assert max(x for x, _ in taken) == 23
