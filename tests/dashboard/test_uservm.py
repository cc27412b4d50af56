"""A legacy TPU Node and the VM that drives it, as pages: two lines that come to one figure."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from service.dashboard.kit.visible_text import to_sentence
from service.domain.catalog.provisioning import ProvisioningModel
from service.domain.clock import HOUR
from service.domain.metering.meter import Evidence
from service.domain.money import parse_usd
from service.domain.nodes.node import Node
from service.domain.pricing.discounts import Discount
from service.domain.pricing.driver_vm import UserVm
from tests.dashboard.lab import Lab
from tests.dashboard.reading import HOSTILE, cells_of, links_of, nanos_of, text_of
from tests.hands import NOON

TIMES = "\N{MULTIPLICATION SIGN}"


def api_cost(caller: TestClient, node: Node) -> int:
    return parse_usd(caller.get(f"/v1/nodes/{node.id}/cost").json()["cost"])


@pytest.mark.parametrize("later", [0, 777, 2 * HOUR + 1])
@pytest.mark.parametrize("end", [None, NOON - 11])
def test_the_sum_of_a_node_with_a_vm_adds_up_to_the_last_digit(
    lab: Lab, caller: TestClient, later: int, end: int | None
) -> None:
    node = lab.ran_legacy(NOON - HOUR - 77, end)
    lab.clock.pass_(later)
    heads, *parts, total = cells_of(caller.get(f"/nodes/{node.id}").text)
    assert heads == ["What", f"How many {TIMES} seconds", "One, per hour", "Amount"]
    assert sum(nanos_of(row[3]) for row in parts) == nanos_of(total[3]) == api_cost(caller, node)
    assert {row[0].partition(",")[0] for row in parts} == {"v2-8", "VM n1-standard-8"}
    for _, quantity, price, amount in parts:
        many, of, seconds = re.findall(r"(\d+) (chips|VM) \S ([\d,]+) s", quantity)[0]
        assert of == ("VM" if price == "$0.379998" else "chips")
        product = int(many) * int(seconds.replace(",", "")) * nanos_of(price)
        assert abs(product / 3_600 - nanos_of(amount)) <= 1


def test_a_node_says_which_vm_drives_it_and_what_that_costs(lab: Lab, caller: TestClient) -> None:
    node = lab.ran_legacy(NOON - HOUR)
    said = text_of(caller.get(f"/nodes/{node.id}"))
    assert "Cost so far $4.88" in said
    assert "Of the cost, its VM $0.38 charged while its TPU is" in said
    assert f"Per hour $4.88 4 {TIMES} $1.125 per chip-hour + $0.379998 for the VM" in said
    assert "Its VM n1-standard-8, on_demand" in said
    assert "What its VM costs Compute Engine bills the VM of a legacy" in said
    without = text_of(caller.get(f"/nodes/{lab.ran_legacy(NOON - HOUR, vm=None).id}"))
    assert "Of the cost, its VM" not in without
    assert "Not in its cost the VM that drives the legacy TPU Node is billed by" in without


def test_a_vm_whose_price_nobody_knows_is_not_free(lab: Lab, caller: TestClient) -> None:
    node = lab.ran_legacy(NOON - 600, vm=UserVm("c9-standard-8", ProvisioningModel.SPOT))
    page = caller.get(f"/nodes/{node.id}")
    said = text_of(page)
    assert "No price is known for 10 min of its VM (c9-standard-8)." in said
    assert "Of the cost, its VM not known" in said
    assert "Per hour no price none is known for c9-standard-8" in said
    *parts, total = cells_of(page.text)[1:]
    assert parts[-1] == [
        "VM c9-standard-8, at no known price",
        *(f"1 VM {TIMES} 600 s", "\N{EN DASH}", "not known"),
    ]
    assert nanos_of(total[3]) == nanos_of(parts[0][3]) == 750_000_000


def test_the_first_page_says_that_it_is_the_vm_whose_price_nobody_knows(
    lab: Lab, caller: TestClient
) -> None:
    lab.ran_legacy(NOON - 600, vm=UserVm("c9-standard-8", ProvisioningModel.SPOT))
    said = text_of(caller.get("/"))
    assert "1 running VM has no known price: what it costs is in no figure here." in said
    assert "READY node has no known price" not in said


def test_seconds_at_no_known_price_are_one_part_and_no_other(lab: Lab, caller: TestClient) -> None:
    node = lab.ran(NOON - 600, zone="asia-nowhere1-a")
    parts = cells_of(caller.get(f"/nodes/{node.id}").text)[1:-1]
    assert [row[0] for row in parts] == ["at no known price"]


def test_the_ledger_says_of_what_each_line_is_and_comes_to_the_total(
    lab: Lab, caller: TestClient
) -> None:
    node = lab.ran_legacy(NOON - 2 * HOUR - 77)
    lab.clock.pass_(600)
    heads, *rows = cells_of(caller.get(f"/nodes/{node.id}/ledger").text)
    *amounts, total = [nanos_of(row[-1]) for row in rows]
    assert heads[3:5] == [f"How many {TIMES} seconds", "One, per hour"]
    assert sum(amounts) == total == api_cost(caller, node)
    assert {row[1] for row in rows[1:-1]} == {"usage, v2-8", "usage, VM n1-standard-8"}
    assert ["1 VM \N{MULTIPLICATION SIGN} 3,600 s", "$0.379998"] in [row[3:5] for row in rows]


@pytest.mark.parametrize(
    "only",
    [
        "accelerator_type:v2-8",
        "accelerator_type:n1-standard-8",
        "generation:n1-standard-8",
        "provisioning_model:spot",
        "region:us-central1",
        "zone:us-central1-b",
    ],
)
def test_a_figure_of_one_of_both_leads_to_lines_that_come_to_it(
    lab: Lab, caller: TestClient, only: str
) -> None:
    node = lab.ran_legacy(NOON - 2 * HOUR, NOON)
    page = caller.get(f"/nodes/{node.id}/ledger", params={"filter": only, "window": "7d"})
    *amounts, total = [nanos_of(row[-1]) for row in cells_of(page.text)[1:]]
    asked = {"window": "7d", "aggregate": "node", "filter": only}
    assert total == sum(amounts) == parse_usd(caller.get("/v1/costs", params=asked).json()["total"])
    assert "not posted yet" not in page.text


def test_both_lines_are_explained(lab: Lab, caller: TestClient) -> None:
    node = lab.ran_legacy(NOON - 1_800, NOON)
    said = ""
    for line in lab.services.nodes.list_ledger_lines(node.id, 0, 10):
        page = caller.get(f"/nodes/{node.id}/ledger/{line.id}")
        said = text_of(page)
        for sentence in caller.get(f"/v1/nodes/{node.id}/ledger/{line.id}").json()["explanation"]:
            assert to_sentence(sentence) in said
        address, _, anchor = links_of(page.text)["See it in the price list of that hour"].partition(
            "#"
        )
        assert f'id="{anchor.replace("%2F", "/")}"' in caller.get(address).text
    assert "1 VM x 1,800 s x $0.379998 an hour / 3,600 = $0.189999." in said
    assert "is charged for the time of its TPU" in said


def test_a_discount_on_the_machine_is_told_with_what_the_list_says(
    lab: Lab, caller: TestClient
) -> None:
    lab.services.prices.discounts.add(Discount("", "n1-standard-8", "", 250_000, 0, None, HOSTILE))
    node = lab.ran_legacy(NOON)
    lab.clock.pass_(HOUR)
    lab.learned(node)
    vm = lab.services.nodes.list_ledger_lines(node.id, 0, 10)[-1]
    page = caller.get(f"/nodes/{node.id}/ledger/{vm.id}")
    assert "On demand at list price the same seconds are $0.379998, at $0.379998 an hour." in (
        text_of(page)
    )
    assert "<img" not in page.text
    row = text_of(caller.get(links_of(page.text)["See it in the price list of that hour"]))
    assert "$0.379998 an hour $0.2849985 less 25 %" in row
    assert "25 % off n1-standard-8, from" in row


def test_a_correction_takes_back_of_both(lab: Lab, caller: TestClient) -> None:
    node = lab.ran_legacy(NOON - HOUR, NOON)
    end = NOON - 600
    lab.learned(node, end=end, end_lo=end, end_evidence=Evidence.AUDIT)
    rows = cells_of(caller.get(f"/nodes/{node.id}/ledger").text)[1:-1]
    taken_back = [row for row in rows if row[1].startswith("adjustment")]
    assert sorted(row[3] for row in taken_back) == [
        f"1 VM {TIMES} -600 s",
        f"4 chips {TIMES} -600 s",
    ]
    number = links_of(caller.get(f"/nodes/{node.id}/ledger").text)
    assert any("/ledger/" in address for address in number.values())
    assert sum(nanos_of(row[-1]) for row in rows) == api_cost(caller, node)


def test_a_month_has_both_with_what_each_price_is_for(lab: Lab, caller: TestClient) -> None:
    lab.ran_legacy(NOON - 2 * HOUR, NOON - HOUR - 1_800)
    said = text_of(caller.get("/statements/2026-11"))
    assert "n1-standard-8, on_demand us-central1-b lab $0.379998 an hour 0.5 of the VM" in said
    assert "v2-8, on_demand us-central1-b lab $1.125 2 $2.25" in said


def test_the_price_list_may_be_asked_for_a_machine(caller: TestClient) -> None:
    page = caller.get("/prices?generation=n1-standard-8")
    rows = cells_of(page.text)[1:]
    assert {row[0] for row in rows} == {"n1-standard-8"}
    assert "$0.379998an hour" in [row[3] for row in rows]
    assert links_of(page.text)["n1-standard-8"].startswith("/prices?generation=n1-standard-8")
