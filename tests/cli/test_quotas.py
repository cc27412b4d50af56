"""What Google said that the projects may have, on the terminal."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import steward

ID = "5f2b7c0d9e8a4b1c5f2b7c0d9e8a4b1c"
QUOTA = {
    "id": ID,
    "project": "lab",
    "limit": "TPUV5PPerProjectPerZoneForTPUAPI",
    "where": "us-east5-a",
    "generation": "v5p",
    "tier": "on_demand",
    "size": "any",
    "allowed": 1_536,
    "used_chips": 512,
    "used_cores": 1_024,
    "held_chips": 0,
    "held_cores": 0,
    "dead_chips": 0,
    "dead_cores": 0,
    "observed_at": "2026-11-05T11:59:00Z",
    "standing": "fresh",
    "believed_until": "2026-11-06T11:59:00Z",
    "said": "Quota limit has been exceeded. Limit: 1536 in zone us-east5-a.\x1b[31m",
}


def listed(api, *quotas):
    api.when("GET", "/v1/catalog/quotas", {"quotas": list(quotas), "next_page_token": ""})


def test_limits_are_a_table_with_googles_own_words_below(api):
    listed(api, QUOTA)
    lines = steward("catalog", "quotas", "--region", "us-east5").stdout.splitlines()
    assert lines[0].split()[:6] == ["WHERE", "GENERATION", "TIER", "SIZE", "PROJECT", "ALLOWED"]
    assert lines[1].split() == [
        *("us-east5-a", "v5p", "on_demand", "any", "lab", "1,536", "512", "(1,024", "cores)", "0"),
        *("2026-11-05", "11:59:00", "2026-11-06", "11:59:00", ID),
    ]
    assert lines[2:] == [
        "",
        "us-east5-a: Quota limit has been exceeded. Limit: 1536 in zone us-east5-a. [31m",
    ]
    assert api.calls[0].query["region"] == ["us-east5"]


def test_quota_held_by_dead_resources_is_told(api):
    listed(api, QUOTA | {"held_chips": 16, "held_cores": 32, "dead_chips": 8, "dead_cores": 16})
    said = " ".join(steward("catalog", "quotas").stdout.split())
    assert "us-east5-a: 8 (16 cores) is held by preempted nodes" in said


@pytest.mark.parametrize(
    ("standing", "said"),
    [("old", "no longer: old"), ("contradicted", "no longer: more was granted")],
)
def test_what_refuses_nothing_any_more_says_so(api, standing, said):
    listed(api, QUOTA | {"standing": standing, "believed_until": None})
    assert said in steward("catalog", "quotas").stdout


UNKNOWN = QUOTA | {
    "id": None,
    "limit": "",
    "where": "us-west4",
    "allowed": None,
    "observed_at": None,
    "standing": None,
    "believed_until": None,
    "said": "",
}


def test_what_is_held_under_a_limit_that_nobody_named_is_told_as_not_known(api):
    listed(api, UNKNOWN)
    lines = steward("catalog", "quotas").stdout.splitlines()
    assert lines[1].split() == [
        *("us-west4", "v5p", "on_demand", "any", "lab", "not", "known", "512", "(1,024", "cores)"),
        *("0", "-", "-", "-"),
    ]
    assert lines[2:] == [
        "",
        "Google has no API for these limits: a limit is known after the first refusal",
    ]


def test_without_any_refusal_and_any_node_that_is_said(api):
    listed(api)
    assert steward("catalog", "quotas").stdout == (
        "no quota is held, and Google has not refused a request for lack of quota yet\n"
    )


def test_json_is_what_the_api_said(api):
    listed(api, QUOTA)
    assert json.loads(steward("catalog", "quotas", "--json").stdout)["quotas"] == [QUOTA]


def test_a_limit_that_was_raised_is_forgotten(api):
    api.when("POST", f"/v1/catalog/quotas/{ID}:forget", QUOTA)
    assert steward("catalog", "forget-quota", ID).stdout == (
        "forgotten: TPUV5PPerProjectPerZoneForTPUAPI of 1,536 in us-east5-a; waiting nodes are"
        " retried within half an hour\n"
    )


def test_what_is_no_id_is_refused_with_where_to_find_it(api):
    result = steward("catalog", "forget-quota", "../nodes")
    assert result.exit_code == 1
    assert result.stderr == (
        "'../nodes' is not the id of a quota; see: tpu-steward catalog quotas\n"
    )
    assert api.calls == []


def test_a_request_that_cannot_fit_is_told_with_where_it_might(api):
    problem = {
        "type": "urn:tpu-steward:problem:quota-too-small",
        "detail": "v6e-8 (spot) fits no quota: us-east5-a cannot hold 8 chips",
        "status": 422,
        "quotas": [{"id": ID, "allowed": 0}],
        "other_zones": ["us-east1-d"],
    }
    api.when("POST", "/v1/nodes", problem, status=422)
    result = steward("nodes", "create", "--accelerator-type", "v6e-8")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [problem["detail"], "  other zones: us-east1-d"]
