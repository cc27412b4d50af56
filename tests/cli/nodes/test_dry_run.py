"""`nodes create --dry-run`: the cost, the budgets and the refusal, and no node."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import Api, steward

CREATE = ("nodes", "create", "--accelerator-type", "v5litepod-8", "--dry-run")
YEAR = 31_536_000


def share(**overrides):
    return {
        "budget_id": "b1",
        "name": "vision",
        "on_exceeded": "refuse",
        "amount": "100.000000000",
        "left": "80.800000000",
        "percent": 19,
        "fits": True,
        **overrides,
    }


def estimate(*shares, seconds=14_400):
    return {
        "accelerator_type": "v5litepod-8",
        "chips": 8,
        "duration_seconds": seconds,
        "estimates": [
            {
                "zone": "us-west4-a",
                "provisioning_model": "on_demand",
                "hourly_cost": "9.600000000",
                "cost": "38.400000000",
            }
        ],
        "budgets": list(shares),
    }


def requests_of(api: Api) -> list[tuple[str, str]]:
    return [(call.method, call.path) for call in api.calls]


def test_the_cost_until_the_end_and_the_share_of_a_budget_are_shown(api):
    api.when("POST", "/v1/estimates", estimate(share()))
    options = ("--ttl", "4h", "--zone", "us-west4-a", "--team", "vision", "--label", "run=17")
    result = steward(*CREATE, *options)
    assert (result.exit_code, requests_of(api)) == (0, [("POST", "/v1/estimates")])
    assert api.calls[0].body == {
        "accelerator_type": "v5litepod-8",
        "zone": "us-west4-a",
        "team": "vision",
        "labels": {"run": "17"},
        "provisioning_model": "on_demand",
        "duration_seconds": 14_400,
    }
    assert result.stdout.splitlines() == [
        "v5litepod-8, 8 chips, for 4h",
        "",
        "ZONE        MODEL      PER CHIP-HOUR  PER HOUR  FOR 4h",
        "us-west4-a  on_demand          $1.20     $9.60  $38.40",
        "vision: the cheapest takes 19 % of $100.00; $80.80 is left after it",
        "",
        "note: not checked are the name, the quota and the runtime version",
        "nothing was created; no budget would refuse it",
    ]


def test_a_node_without_an_end_is_checked_until_the_budgets_end(api):
    api.when("POST", "/v1/estimates", estimate(seconds=YEAR))
    shown = steward(*CREATE).stdout.splitlines()
    assert shown[0] == "v5litepod-8, 8 chips, until it is deleted"
    assert shown[2].split()[-2:] == ["PER", "HOUR"], "and no cost in all"
    assert api.calls[0].body["duration_seconds"] == YEAR
    steward(*CREATE, "--flex-start")
    assert api.calls[1].body["duration_seconds"] == 7 * 86_400


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"fits": False, "left": "-3.000000000"}, "too little of it is left"),
        ({"fits": None, "left": None}, "its rest is unknown"),
        ({"fits": False, "left": "-3.000000000", "on_exceeded": "delete"}, "too little of it"),
        ({"fits": False, "left": "-3.000000000", "on_exceeded": "notify"}, None),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_refusal_that_would_come_is_told_and_is_a_failure(api, fields, refused, options):
    api.when("POST", "/v1/estimates", estimate(share(), share(**fields)))
    result = steward(*CREATE, *options)
    assert result.exit_code == (0 if refused is None else 1)
    assert (refused or "") in result.stderr
    assert bool(result.stderr) == (refused is not None)
    assert ("no budget would refuse" in result.stdout) == (refused is None and not options)


def test_of_several_types_one_that_fits_is_enough(api):
    api.when("POST", "/v1/estimates", estimate(share(fits=False, left="-1")), estimate(share()))
    result = steward(*CREATE, "--accelerator-type", "v6e-8", "--json")
    assert result.exit_code == 0
    assert [call.body["accelerator_type"] for call in api.calls] == ["v5litepod-8", "v6e-8"]
    assert len([json.loads(line) for line in result.stdout.splitlines()]) == 2


def test_hardware_that_does_not_exist_is_refused_as_the_request_would_be(api):
    api.when("POST", "/v1/estimates", {"detail": "v5litepod-9 is not known"}, status=422)
    result = steward(*CREATE)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0] == "v5litepod-9 is not known"


def test_the_figures_are_of_all_slices(api):
    api.when("POST", "/v1/estimates", estimate(share()) | {"slices": 2, "chips": 16})
    shown = steward(*CREATE, "--slices", "2").stdout
    assert api.calls[0].body["slices"] == 2
    assert shown.splitlines()[0].startswith("v5litepod-8, 2 slices, 16 chips")
    assert "no budget would refuse it" in shown


@pytest.mark.parametrize(
    ("shares", "is_known"),
    [((), True), ((share(on_exceeded="notify"),), True), ((share(),), False)],
)
def test_no_budget_is_promised_to_accept_a_vm_whose_cost_is_not_included(api, shares, is_known):
    api.when("POST", "/v1/estimates", estimate(*shares))
    vm = ("--architecture", "node", "--vm-machine-type", "n1-standard-8")
    shown = steward("nodes", "create", "--accelerator-type", "v2-8", *vm, "--dry-run").stdout
    assert "the cost of your VM is not included" in shown
    assert ("no budget would refuse it" in shown) is is_known
    assert ("with the cost of your VM, a budget may refuse it" in shown) is not is_known
