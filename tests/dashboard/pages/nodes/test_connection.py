"""How to reach a node, and the output of its job, on the page of the node."""

from __future__ import annotations

import re
from html import unescape

import pytest
from fastapi.testclient import TestClient

from service.domain.clock import HOUR
from service.domain.nodes.node import Endpoint, NodeState
from tests.dashboard.jobs import JobHouse
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON


def snippets_of(html: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<pre[^>]*><code>(.*?)</code>", html, re.DOTALL)]


def test_the_lines_are_those_of_the_api(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - HOUR, name="train", endpoints=(Endpoint("10.0.0.2", 0),))
    offered = caller.get(f"/v1/nodes/{node.id}/connection").json()
    page = caller.get(f"/nodes/{node.id}")
    shown = snippets_of(page.text)
    assert offered["ssh"].startswith("gcloud")
    assert shown[:3] == [offered["ssh"], offered["everywhere"], offered["upload"]]
    for recipe in offered["recipes"]:
        assert recipe["note"] in text_of(page)
        assert not recipe["works"] or any(recipe["shell"][0] in text for text in shown)
    assert "tpu-steward nodes keep train --for 4h --reason 'a demo'" in shown[3]


def test_a_node_that_cannot_be_reached_says_why(lab: Lab, caller: TestClient) -> None:
    node = lab.asked_for(state=NodeState.CREATING)
    said = text_of(caller.get(f"/nodes/{node.id}"))
    assert "CREATING: only a READY node can be reached." in said
    assert "nodes connect" not in said


@pytest.mark.parametrize("name", [HOSTILE, "a b;reboot", "$(reboot)"])
def test_a_name_stays_one_word_of_a_command(lab: Lab, caller: TestClient, name: str) -> None:
    node = lab.ran(NOON - HOUR, name=name)
    [commands] = snippets_of(caller.get(f"/nodes/{node.id}").text)
    assert f"tpu-steward nodes show '{name}'\n" in commands


def test_an_ended_node_is_named_by_its_id_and_offers_no_change(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran(NOON - HOUR, NOON - 60)
    [commands] = snippets_of(caller.get(f"/nodes/{node.id}").text)
    assert f"tpu-steward nodes show {node.id}" in commands
    assert not re.search("delete|keep|stop", commands)


def test_the_output_of_the_job_that_runs_is_on_the_page_of_its_node(house: JobHouse) -> None:
    job = house.running()
    for number in range(30):
        house.tell(job, f"step {number}")
    node = house.jobs.node_of(job)
    with TestClient(house.lab.whole(), base_url="http://localhost") as caller:
        html = caller.get(f"/nodes/{node.id}").text
    assert f'href="/jobs/{job.id}#log-heading"' in html
    lines = re.findall(r'<span class="text">(.*?)</span>', html)
    assert lines == [f"step {number}" for number in range(10, 30)]
