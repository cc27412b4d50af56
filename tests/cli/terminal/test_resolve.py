"""Which one is meant: never the only one there is, where nothing was said."""

from __future__ import annotations

import pytest

from service.cli.terminal.errors import Failure
from service.cli.terminal.resolve import pick_node
from tests.cli.given import ID, node, page, steward

BY_NAME = [
    *(["nodes", verb] for verb in ("show", "delete", "stop", "start", "events", "cost", "ledger")),
    *(["nodes", verb] for verb in ("connect", "explain")),
    ["nodes", "reimage", "--framework", "jax"],
    ["nodes", "set", "--team", "vision"],
    *(["reservations", verb] for verb in ("show", "ledger")),
    ["reservations", "withdraw", "--reason", "wrong"],
    ["commitments", "show"],
    ["commitments", "withdraw", "--reason", "wrong"],
    *(["budgets", verb] for verb in ("show", "delete")),
    *(["orphans", verb] for verb in ("adopt", "delete")),
    ["prices", "discount", "end"],
]


@pytest.mark.parametrize("command", BY_NAME, ids=" ".join)
@pytest.mark.parametrize("name", ["", " "])
def test_a_blank_name_is_a_usage_error_and_nobody_is_asked(api, command, name):
    result = steward(*command, name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "it is empty; give a name or an id" in result.stderr
    assert not api.calls


@pytest.mark.parametrize(
    "command",
    [
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--name", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--project", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--idempotency-key", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--reservation", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--zone", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--region", ""],
        ["nodes", "create", "--accelerator-type", "v5litepod-8", "--accelerator-type", ""],
        ["estimate", "--accelerator-type", ""],
        ["orphans", "adopt", "somebodys", "--name", ""],
        ["budgets", "create", "", "--amount", "10"],
    ],
    ids=" ".join,
)
def test_what_has_a_default_does_not_have_it_for_an_empty_name(api, command):
    result = steward(*command)
    assert result.exit_code == 2
    assert "it is empty; give a name or an id" in result.stderr
    assert not api.calls


@pytest.mark.parametrize("to_read", [True, False])
def test_the_only_one_is_not_meant_by_another_name(to_read):
    with pytest.raises(Failure, match="no node is named 'other'"):
        pick_node("other", [node(name="trainer")], to_read=to_read)


def test_a_service_that_lists_more_than_was_asked_for_does_no_harm(api):
    """So would one whose way drops what is asked, as some proxies do."""
    api.when("GET", "/v1/nodes", page(node(name="another")))
    result = steward("nodes", "delete", "trainer")
    assert result.exit_code == 1
    assert result.stderr == "no node is named 'trainer'; see: tpu-steward nodes list\n"
    assert [call.method for call in api.calls] == ["GET"]


def test_the_one_of_that_name_is_meant_among_others(api):
    api.when("GET", "/v1/nodes", page(node(name="another", id="x"), node()))
    api.when("DELETE", f"/v1/nodes/{ID}", node(asked="absent"), status=202)
    assert steward("nodes", "delete", "trainer").exit_code == 0
    assert api.calls[0].query["name"] == ["trainer"]


def test_an_id_is_one_segment_of_the_path(api):
    path = "/v1/prices/discounts/..%2F..%2Fnodes%3Fx:end"
    api.when("POST", path, {"detail": "there is no such discount"}, status=404)
    result = steward("prices", "discount", "end", "../../nodes?x")
    assert result.stderr == "there is no such discount\n"
