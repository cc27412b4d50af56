"""A client that is generated from the OpenAPI document, and what its types make of our answers."""

from __future__ import annotations

import importlib
import json
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import ModuleType

import pytest
import uvicorn
from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

from service.domain.clock import HOUR
from service.domain.nodes.node import NodeState
from tests.hands import NOON
from tests.store.given import ran, stored

PACKAGE = "generated_steward"
NOW = datetime.fromtimestamp(NOON, UTC)


@contextmanager
def served(app):
    """The address of a server of this machine that answers for the app."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@pytest.fixture
def warnings(app, tmp_path, monkeypatch):
    """Generate the client. Returns what the generator could not take of the document."""
    document = tmp_path / "openapi.json"
    document.write_text(json.dumps(app.openapi()))
    settings = ConfigFile(package_name_override=PACKAGE, post_hooks=[])
    config = Config.from_sources(
        settings,
        meta_type=MetaType.NONE,
        document_source=document,
        file_encoding="utf-8",
        overwrite=False,
        output_path=tmp_path / "generated" / PACKAGE,
    )
    (tmp_path / "generated").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "generated")
    yield generate(config=config)
    for name in [module for module in sys.modules if module.split(".")[0] == PACKAGE]:
        del sys.modules[name]


class Caller:
    """Calls operations of the generated client by their id."""

    def __init__(self, client) -> None:
        self._client = client
        self.models: ModuleType = importlib.import_module(f"{PACKAGE}.models")

    def __call__(self, operation, *args, **kwargs):
        tag, name = operation.split(".")
        module = importlib.import_module(f"{PACKAGE}.api.{tag}.{name}")
        return module.sync(*args, client=self._client, **kwargs)


@pytest.fixture
def call(app, warnings):
    """The generated client, which speaks to a running server."""
    with served(app) as url, importlib.import_module(PACKAGE).Client(base_url=url) as client:
        yield Caller(client)


def asked(call, **fields):
    """A node that was requested through the client."""
    return call("nodes.request_node", body=call.models.NodeRequest(**fields))


@pytest.mark.deep
def test_a_client_is_generated_without_a_warning_and_lives_through_a_node(call, warnings, units):
    assert [f"{warning.header} {warning.detail}" for warning in warnings] == []
    request_and_get(call)
    list_by_pages(call)
    node_id = patch_with_null(call)
    keep_and_delete(call, node_id)
    ask_for_costs(call, units)
    ask_for_a_node_that_is_not_there(call)


def request_and_get(call):
    models = call.models
    idle = models.IdleRequest(after_seconds=600, action=models.Action.DELETE)
    made = asked(call, accelerator_type="v5litepod-8", ttl_seconds=3_600, idle=idle)
    assert isinstance(made, models.RequestedView)
    assert (made.created_at, made.policy.source) == (NOW, "node")
    node = call("nodes.get_node", made.id)
    assert isinstance(node, models.NodeView)
    assert (node.chips, node.ttl_seconds, node.idle.after_seconds) == (8, 3_600, 600)
    assert node.provisioning_model is models.ProvisioningModel.ON_DEMAND
    assert node.ready_at is None


def list_by_pages(call):
    labels = call.models.NodeRequestLabelsType0.from_dict({"sweep": "a"})
    ids = {asked(call, generation="v5e", chips=8, labels=labels).id for _ in range(3)}
    first = call("nodes.list_nodes", page_size=2, label=["sweep:a"])
    assert isinstance(first, call.models.NodePage)
    token = first.next_page_token
    second = call("nodes.list_nodes", page_size=2, label=["sweep:a"], page_token=token)
    assert (len(first.nodes), len(second.nodes), second.next_page_token) == (2, 1, "")
    assert {node.id for node in [*first.nodes, *second.nodes]} == ids


def patch_with_null(call):
    models = call.models
    labels = models.NodeRequestLabelsType0.from_dict({"run": "17", "draft": "yes"})
    terms = {"ttl_seconds": 3_600, "idle": models.IdleRequest(after_seconds=600)}
    made = asked(call, accelerator_type="v5litepod-8", team="nlp", labels=labels, **terms)
    removed = models.UpdateRequestLabels.from_dict({"draft": None})
    body = models.UpdateRequest(owner="grace", idle=None, labels=removed)
    updated = call("nodes.update_node", made.id, body=body)
    assert isinstance(updated, models.UpdatedView)
    assert (updated.owner, updated.team) == ("grace", "nlp")
    assert (updated.idle, updated.policy.source, updated.ttl_seconds) == (None, "default", 3_600)
    assert updated.labels.additional_properties == {"run": "17"}
    body = models.UpdateRequest(ttl_seconds=None)
    assert call("nodes.update_node", made.id, body=body).ttl_seconds is None
    return made.id


def keep_and_delete(call, node_id):
    models = call.models
    until = NOW + timedelta(days=1)
    kept = call("nodes.keep_node", node_id, body=models.KeepRequest(reason="a demo", until=until))
    assert isinstance(kept, models.ChangedView)
    assert kept.keep.until == until
    gone = call("nodes.delete_node", node_id)
    assert isinstance(gone, models.ChangedView)
    assert (gone.asked, gone.delete_requested_at) == (models.Asked.ABSENT, NOW)
    assert "keep" in gone.warnings[0]


def ask_for_costs(call, units):
    node = stored(units, state=NodeState.READY, ready_at=NOON - HOUR, team="vision")
    ran(units, node, start=NOON - HOUR)
    wanted = ["team:vision", f"zone:{node.zone}"]
    costs = call("costs.get_costs", window="24h", aggregate=["team"], filter_=wanted)
    assert isinstance(costs, call.models.CostView)
    assert costs.step is call.models.Granularity.DAY
    assert [row.additional_properties for row in costs.rows] == [{"team": "vision"}]
    assert costs.rows[0].cost == costs.total == "9.600000000"
    assert (costs.window.start, costs.window.end) == (NOW - timedelta(days=1), NOW)


def ask_for_a_node_that_is_not_there(call):
    missing = call("nodes.get_node", "never")
    assert isinstance(missing, call.models.Problem)
    assert (missing.status, missing.type_) == (404, "urn:tpu-steward:problem:not-found")
