"""A legacy TPU Node and the VM that drives it, on the command line: asked for, shown, paid."""

from __future__ import annotations

from typing import Any

from tests.cli.given import ID, node, steward

VM = {"machine_type": "n1-standard-8", "provisioning_model": "on_demand"}
OLD = {"architecture": "node", "accelerator_type": "v2-8", "runtime_version": "2.12.0", "vm": VM}
TYPED = ("nodes", "create", "--accelerator-type", "v2-8", "--architecture", "node")
LEDGER = f"/v1/nodes/{ID}/ledger"
AT = {"start": "2026-11-05T11:00:00Z", "end": "2026-11-05T12:00:00Z"}
TPU_HOUR = AT | {
    "number": 7,
    "what": "v2-8",
    "kind": "usage",
    "corrects": None,
    "unit": "chip_hour",
    "chip_seconds": 14_400,
    "vm_seconds": 0,
    "usd_per_chip_hour": "1.125000000",
    "amount": "4.500000000",
}
VM_HOUR = TPU_HOUR | {
    "number": 8,
    "what": "n1-standard-8",
    "unit": "vm_hour",
    "chip_seconds": 0,
    "vm_seconds": 3_600,
    "usd_per_chip_hour": "0.379998000",
    "amount": "0.379998000",
}


def test_the_vm_is_asked_for_by_its_machine_type(api):
    note = "no on_demand price is known for n1-standard-8 in us-south1"
    api.when("POST", "/v1/nodes", node(**OLD, warnings=[note]), status=201)
    shown = steward(*TYPED, "--vm-machine-type", "n1-standard-8").stdout
    assert api.calls[-1].body["vm"] == {"machine_type": "n1-standard-8"}
    assert f"note: {note}" in shown
    steward(*TYPED, "--vm-machine-type", "n1-standard-8", "--vm-spot")
    assert api.calls[-1].body["vm"] == {
        "machine_type": "n1-standard-8",
        "provisioning_model": "spot",
    }
    steward(*TYPED)
    assert "vm" not in api.calls[-1].body


def test_a_spot_vm_of_no_type_is_a_slip(api):
    result = steward(*TYPED, "--vm-spot")
    assert result.exit_code == 2
    assert "--vm-machine-type" in result.stderr
    assert api.calls == []


def test_the_vm_is_shown_with_its_node(api):
    api.when("GET", f"/v1/nodes/{ID}", node(**OLD))
    lines = steward("nodes", "show", ID).stdout.splitlines()
    assert "Its VM          n1-standard-8, on_demand" in lines
    api.when("GET", f"/v1/nodes/{ID}", node(**OLD | {"vm": None}))
    assert "VM" not in steward("nodes", "show", ID).stdout


def test_a_cost_of_two_lines_says_both(api):
    cost: dict[str, Any] = {
        "cost": "7.319997000",
        "list_cost": "7.319997000",
        "chip_seconds": 21_600,
        "uncertainty": "0.000000000",
        "estimated": False,
        "unpriced_seconds": 0,
        "not_included": [],
        "lines": [
            {
                "what": "v2-8",
                "kind": "tpu",
                "cost": "6.750000000",
                "list_cost": "6.750000000",
                "seconds": 5_400,
                "unpriced_seconds": 0,
            },
            {
                "what": "n1-standard-8",
                "kind": "vm",
                "cost": "0.569997000",
                "list_cost": "0.569997000",
                "seconds": 5_400,
                "unpriced_seconds": 0,
            },
        ],
        "as_of": "2026-11-05T12:00:00Z",
    }
    api.when("GET", f"/v1/nodes/{ID}/cost", cost)
    assert steward("nodes", "cost", ID).stdout.splitlines() == [
        "Cost                $7.319997",
        "  v2-8              $6.750000 for 1h30m",
        "  VM n1-standard-8  $0.569997 for 1h30m",
        "Chip-hours          6.00",
        "As of               2026-11-05 12:00:00 UTC",
    ]
    cost["lines"][1] |= {"cost": "0.000000000", "unpriced_seconds": 5_400}
    api.when("GET", f"/v1/nodes/{ID}/cost", cost | {"unpriced_seconds": 5_400})
    lines = steward("nodes", "cost", ID).stdout.splitlines()
    assert "  VM n1-standard-8  unpriced for 1h30m" in lines
    api.when("GET", f"/v1/nodes/{ID}/cost", cost | {"lines": cost["lines"][:1]})
    assert "v2-8" not in steward("nodes", "cost", ID).stdout, "it is all of the cost"


def test_a_ledger_of_two_lines_says_of_what_each_is(api):
    api.when("GET", LEDGER, {"entries": [TPU_HOUR, VM_HOUR], "next_page_token": ""})
    heading, first, second, _, total = steward("nodes", "ledger", ID).stdout.splitlines()
    assert heading.split()[5:] == [
        *("WHAT", "KIND", "QUANTITY", "PER", "HOUR", "OF", "ONE", "AMOUNT")
    ]
    assert first.split()[5:] == [
        *("v2-8", "usage", "14,400", "chip-seconds", "$1.125000", "$4.500000"),
    ]
    assert second.split()[5:] == [
        *("n1-standard-8", "usage", "3,600", "VM-seconds", "$0.379998", "$0.379998"),
    ]
    assert total == "$4.879998 in 2 entries"
    api.when("GET", LEDGER, {"entries": [TPU_HOUR], "next_page_token": ""})
    assert "CHIP-SECONDS  PER CHIP-HOUR" in steward("nodes", "ledger", ID).stdout


def test_a_price_of_a_machine_is_one_of_an_hour(api):
    price = {
        "generation": "n1-standard-8",
        "provisioning_model": "on_demand",
        "region": "us-central1",
        "usd": "0.379998000",
        "unit": "vm_hour",
        "effective_from": "2024-09-05T00:00:00Z",
        "source": "a catalog",
    }
    api.when("GET", "/v1/prices", {"prices": [price], "next_page_token": ""})
    shown = steward("prices", "list", "--generation", "n1-standard-8").stdout.splitlines()
    assert shown[1].split()[3:6] == ["$0.379998", "hour", "2024-09-05"]
    assert api.calls[-1].query["generation"] == ["n1-standard-8"]


def test_a_discount_on_a_machine_and_one_on_every_tpu_are_told_apart(api):
    said = {
        "id": ID,
        "percent": "20",
        "generation": "n1-standard-8",
        "provisioning_model": "",
        "effective_from": "2026-11-05T12:00:00Z",
        "effective_until": None,
        "source": "our contract",
    }
    api.when("POST", "/v1/prices/discounts", said, status=201)
    add = ("prices", "discount", "add", "20")
    assert steward(*add, "--generation", "n1-standard-8").stdout.startswith(
        "20 % off n1-standard-8 from 2026-11-05 12:00:00 (UTC)"
    )
    every = said | {"generation": "", "provisioning_model": "spot"}
    api.when("POST", "/v1/prices/discounts", every, status=201)
    assert steward(*add).stdout.startswith("20 % off every spot TPU from")


def test_a_month_says_how_long_the_vm_was_used(api):
    line = {
        "team": "vision",
        "owner": "ada",
        "accelerator_type": "n1-standard-8",
        "provisioning_model": "on_demand",
        "zone": "us-central1-b",
        "corrects": "",
        "usd_per_chip_hour": "0.379998000",
        "chip_seconds": 0,
        "vm_seconds": 5_400,
        "reservation": "",
        "reservation_status": "",
        "amount": "0.569997000",
    }
    month = {"period": "2026-11", "state": "open", "amount": "0.569997000", "lines": [line]}
    api.when("GET", "/v1/statements/2026-11", month)
    shown = steward("costs", "statement", "2026-11").stdout.splitlines()
    assert shown[1].split()[5:] == ["$0.379998", "1.50", "of", "the", "VM", "$0.57"]
