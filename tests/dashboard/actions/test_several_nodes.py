"""Several nodes are deleted or kept at once, after their number is typed."""

from __future__ import annotations

import re

import pytest

from service.domain.clock import DAY, HOUR
from service.domain.nodes.node import Asked
from tests import factories
from tests.dashboard.actions.sending import BROWSER, hidden_fields
from tests.dashboard.reading import HOSTILE, text_of
from tests.hands import NOON


def send(caller, verb, nodes, **typed):
    """Choose nodes on the page of nodes and send the form, with what is typed on the next page."""
    token = hidden_fields(caller.get("/nodes").text)["form_token"]
    fields = {"form_token": token, "node": [node.id for node in nodes], **typed}
    path = f"/nodes/several/{verb}"
    return caller.post(path, data=fields, headers=BROWSER, follow_redirects=False)


def asked(lab, *nodes):
    return [lab.services.nodes.get(node.id).asked for node in nodes]


@pytest.fixture
def three(lab):
    """Two nodes of 9.60 dollars an hour, and one whose deletion is requested."""
    return (
        lab.ran(NOON - HOUR, name="one"),
        lab.ran(NOON - HOUR, name="two", owner=HOSTILE),
        lab.ran(NOON - HOUR, name="three", asked=Asked.ABSENT, delete_requested_at=NOON),
    )


def test_the_page_before_a_deletion_lists_the_nodes_and_their_cost(lab, caller, three):
    page = send(caller, "delete", three)
    said = text_of(page)
    assert page.status_code == 200
    assert "Together 2 nodes, $19.20 an hour now" in said
    assert "one READY, $9.60 an hour, v5litepod-8, us-west4-a, ada, vision" in said
    assert "Already deleted, or being deleted: three." in said
    assert "Type the number of nodes to confirm: 2" in said
    assert HOSTILE not in page.text
    assert asked(lab, *three) == [Asked.PRESENT, Asked.PRESENT, Asked.ABSENT]


@pytest.mark.parametrize("verb", ["delete", "keep"])
def test_the_shown_costs_add_up_to_what_they_cost_together(lab, caller, verb):
    lab.services.prices.add(factories.price(1_003_333_333))
    nodes = [lab.ran(NOON - HOUR, name=f"third-{number}") for number in range(3)]
    said = text_of(send(caller, verb, nodes))
    total, *each = re.findall(r"\$(\d+)\.(\d\d) an hour", said)
    assert total == ("24", "08")
    assert sum(100 * int(dollars) + int(cents) for dollars, cents in each) == 2_408
    assert len(each) == len(nodes)


@pytest.mark.parametrize(("typed", "status"), [("3", 422), ("", 422), ("one", 422), ("2", 303)])
def test_nodes_are_deleted_only_by_their_number(lab, caller, three, typed, status):
    answer = send(caller, "delete", three, confirm=typed)
    assert answer.status_code == status
    wanted = Asked.ABSENT if status == 303 else Asked.PRESENT
    assert asked(lab, *three[:2]) == [wanted, wanted]
    if status == 303:
        said = text_of(caller.get(answer.headers["location"]))
        assert "The deletion of 2 nodes is requested." in said


def test_one_node_is_confirmed_by_its_name(lab, caller, three):
    said = text_of(send(caller, "delete", three[:1]))
    assert "Delete 1 node? The node and all data on its disks will be lost." in said.replace(
        "Nodes ", ""
    )
    assert "Type the name of the node to confirm: one" in said
    assert send(caller, "delete", three[:1], confirm="1").status_code == 422
    assert send(caller, "delete", three[:1], confirm="one").status_code == 303
    assert asked(lab, *three[:2]) == [Asked.ABSENT, Asked.PRESENT]


def test_nodes_are_kept_with_a_reason(lab, caller, three):
    page = send(caller, "keep", three)
    assert 'name="reason"' in page.text
    assert "A keep never becomes shorter." in text_of(page)
    refused = send(caller, "keep", three, confirm="2", for_seconds=str(DAY), reason=" ")
    assert (refused.status_code, "why are the nodes kept?" in refused.text) == (422, True)
    done = send(caller, "keep", three, confirm="2", for_seconds=str(DAY), reason="demo")
    assert done.status_code == 303
    kept = [lab.services.nodes.get(node.id) for node in three]
    assert [node.kept_because for node in kept] == ["demo", "demo", ""]


def test_the_refusal_of_one_node_stops_no_other(lab, caller, three):
    kinds = {"provisioning_model": "flex_start", "ttl_seconds": 2 * HOUR}
    flex = lab.ran(NOON - HOUR, name="flex", **kinds)
    fields = {"confirm": "2", "for_seconds": str(DAY), "reason": "demo"}
    answer = send(caller, "keep", (three[0], flex), **fields)
    said = text_of(caller.get(answer.headers["location"]))
    assert (
        "The keep of 1 node is written. Note: 1 node refused; flex: Google ends this node" in said
    )
    assert lab.services.nodes.get(three[0].id).kept_because == "demo"


def test_a_form_without_nodes_or_without_its_token_changes_nothing(lab, caller, three):
    empty = send(caller, "delete", ())
    assert (empty.status_code, "choose at least one node" in empty.text) == (422, True)
    fields = {"node": [node.id for node in three], "confirm": "2"}
    headers = BROWSER | {"Sec-Fetch-Site": "cross-site"}
    forged = caller.post("/nodes/several/delete", data=fields, headers=headers)
    assert forged.status_code == 403
    assert asked(lab, *three[:2]) == [Asked.PRESENT, Asked.PRESENT]


def test_only_nodes_that_can_be_changed_are_offered(caller, three):
    page = caller.get("/nodes").text
    assert [f'value="{node.id}" form="several"' in page for node in three] == [True, True, False]
