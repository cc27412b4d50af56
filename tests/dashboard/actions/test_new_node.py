"""A node is created by a form that first shows its cost, its budgets and its refusal."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from service.dashboard.actions.answers import sentence_of
from service.domain.budgets.budget import Budget, OnExceeded, Period, Scope
from service.domain.clock import HOUR
from service.domain.errors import Rejected
from service.domain.money import NANOS
from tests.dashboard.actions.sending import BROWSER, hidden_fields
from tests.dashboard.reading import HOSTILE, links_of, text_of
from tests.hands import NOON

WANTED = {
    "step": "review",
    "accelerator_type": "v5litepod-8",
    "slices": "1",
    "zone": "us-west4-a",
    "provisioning_model": "on_demand",
    "ttl_seconds": str(4 * HOUR),
    "name": "trainer",
    "owner": "ada",
    "team": "vision",
    "labels": "run=17\n\nnote = a-b \n",
    "idle_after": str(2 * HOUR),
    "idle_action": "delete",
}


def _cap(lab, dollars: int, on_exceeded: OnExceeded = OnExceeded.REFUSE) -> None:
    budget = Budget("", "vision", Scope(team="vision"), dollars * NANOS, Period.MONTH, "UTC", 0)
    object.__setattr__(budget, "on_exceeded", on_exceeded)
    lab.services.budgets.create(budget)


def _names(caller) -> list[str]:
    return [node["name"] for node in caller.get("/v1/nodes").json()["nodes"]]


def _review(caller, **changes: Any):
    return caller.get("/nodes/new", params=WANTED | changes)


def _create(caller, page, **changes: str):
    fields = hidden_fields(page.text) | changes
    return caller.post("/nodes/new", data=fields, headers=BROWSER, follow_redirects=False)


def test_the_estimate_comes_before_the_button_and_agrees_with_the_api(lab, caller):
    _cap(lab, 100)
    form = caller.get("/nodes/new")
    assert "Create the node" not in form.text
    assert '<option value="v5litepod-8">' in form.text
    page = _review(caller)
    said = text_of(page)
    body = {
        "accelerator_type": "v5litepod-8",
        "zone": "us-west4-a",
        "provisioning_model": "on_demand",
        "ttl_seconds": 4 * HOUR,
        "team": "vision",
    }
    api = caller.post("/v1/estimates", json=body).json()
    (offer,), (share,) = api["estimates"], api["budgets"]
    assert f"Cost per hour ${float(offer['hourly_cost']):.2f} once READY" in said
    assert f"Cost for 4 h ${float(offer['cost']):.2f}, until its time to live ends" in said
    takes = f"${float(share['cost']):.2f} ({share['percent']} %)"
    assert f"vision \N{CHECK MARK} fits {takes} ${float(share['left']):.2f} refuse" in said
    assert "When idle observe after 2 h (policy: node)" in said
    assert _names(caller) == []
    answer = _create(caller, page)
    assert answer.status_code == 303
    node_id = urlsplit(answer.headers["location"]).path.rpartition("/")[2]
    made = caller.get(f"/v1/nodes/{node_id}").json()
    assert (made["name"], made["owner"], made["team"]) == ("trainer", "ada", "vision")
    assert (made["labels"], made["ttl_seconds"]) == ({"run": "17", "note": "a-b"}, 4 * HOUR)
    assert (made["idle"]["after_seconds"], made["idle"]["action"]) == (2 * HOUR, "delete")
    assert "Node trainer is requested." in text_of(caller.get(answer.headers["location"]))


def test_slices_multiply_the_estimate(caller):
    one, two = (text_of(_review(caller, slices=n, provisioning_model="spot")) for n in ("1", "2"))

    def hourly(said: str) -> float:
        return float(said.partition("Cost per hour $")[2].split()[0])

    assert hourly(two) == pytest.approx(2 * hourly(one), abs=0.01)
    assert "2 slices of v5litepod-8: 16 chips" in two


def test_a_form_sent_twice_is_one_node(caller):
    page = _review(caller)
    first, second = _create(caller, page), _create(caller, page)
    assert (first.status_code, second.status_code) == (303, 303)
    assert urlsplit(first.headers["location"]).path == urlsplit(second.headers["location"]).path
    assert "Nothing was created now." in text_of(caller.get(second.headers["location"]))
    assert _names(caller) == ["trainer"]
    changed = _create(caller, page, owner="grace")
    assert changed.status_code == 422
    assert _names(caller) == ["trainer"]


def test_a_budget_refuses_before_the_button_and_again_after_it(lab, caller):
    page = _review(caller)
    _cap(lab, 1)
    refused = _review(caller)
    assert "A budget refuses this node:" in text_of(refused)
    assert "Create the node" not in refused.text
    assert "\N{BALLOT X} does not fit" in text_of(refused)
    (budget,) = lab.services.budgets.list_all()
    assert lab.services.budgets.get(budget.id).refusals == []
    late = _create(caller, page)
    assert late.status_code == 403
    assert "Nothing was changed: " in text_of(late)
    assert hidden_fields(late.text)["name"] == "trainer"
    assert _names(caller) == []
    assert len(lab.services.budgets.get(budget.id).refusals) == 1
    back = parse_qs(urlsplit(links_of(late.text)["Change the request"]).query)
    assert back["accelerator_type"] == ["v5litepod-8"]
    assert "form_token" not in back


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"accelerator_type": "v5litepod-9"}, "accelerator_type", "v5litepod-9"),
        ({"accelerator_type": HOSTILE}, "accelerator_type", "img src=x"),
        ({"zone": "us-nowhere1-a"}, "zone", "not offered in us-nowhere1-a"),
        ({"slices": "-1"}, "slices", "whole number"),
        ({"slices": "0"}, "slices", "greater than or equal to 1"),
        ({"owner": "\u202eada"}, "owner", "control characters"),
        ({"team": "x" * 201}, "team", "at most 200 characters"),
        ({"labels": "nonsense"}, "labels", "run=17"),
        ({"labels": "UPPER=1"}, "labels", "UPPER"),
        ({"name": "Not A Name"}, "name", "Not A Name"),
        ({"provisioning_model": "free"}, "provisioning_model", "on_demand"),
        ({"idle_after": "x"}, "idle_after", "whole number"),
        ({"ttl_seconds": "99999999999"}, "ttl_seconds", "less than or equal to"),
    ],
)
def test_an_invalid_request_keeps_the_form_and_says_why(caller, changes, field, said):
    page = _review(caller, **changes)
    assert page.status_code == 422
    error = page.text.partition(f'id="error-{field}">')[2].partition("</p>")[0]
    assert said in error
    assert "This node cannot be created. The reason is at the marked field." in text_of(page)
    assert HOSTILE not in page.text
    assert "\u202e" not in text_of(page)
    assert "Create the node" not in page.text
    assert _names(caller) == []


def test_the_reason_at_a_field_is_said_once(caller):
    said = text_of(_review(caller, accelerator_type="v5litepod-9"))
    assert said.count("there is no accelerator type 'v5litepod-9'; did you mean") == 1


@pytest.mark.parametrize(
    ("message", "sentence"), [("is it?", "is it?"), ("no.", "no."), ("no", "no.")]
)
def test_the_message_of_an_error_ends_with_one_mark(message, sentence):
    assert sentence_of(Rejected(message)) == sentence


def test_a_taken_name_and_an_unknown_price_are_said_before_the_button(lab, caller):
    lab.ran(NOON - 60, name="trainer")
    page = _review(caller)
    assert page.status_code == 409
    assert "This node cannot be created:" in text_of(page)
    unpriced = _review(caller, name="", zone="", accelerator_type="v6e-8", ttl_seconds="")
    assert "Time to live none" in text_of(unpriced)
