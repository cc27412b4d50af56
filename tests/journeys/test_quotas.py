"""A quota of nothing, through the whole house: met once, it is told at once from then on."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

NODE_REQUEST = {"accelerator_type": "v6e-8", "zone": "us-east5-a", "provisioning_model": "spot"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own."""
    made = House(tmp_path)
    yield made
    made.stop()


def configure(house: House, **config: object) -> None:
    request = urllib.request.Request(
        f"{house.emulator}/_emulator/config",
        method="PATCH",
        data=json.dumps(config).encode(),
        headers={"content-type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=20).close()


def limits(house: House) -> list[int]:
    """What Google said that is allowed, of all that is told."""
    told = house.get("/v1/catalog/quotas")["quotas"]
    return [quota["allowed"] for quota in told if quota["allowed"] is not None]


def test_a_request_that_cannot_fit_says_so_at_once_until_the_limit_is_forgotten(
    house: House,
) -> None:
    configure(house, quotas={"us-east5/v6e": 0})
    first = house.post("/v1/nodes", NODE_REQUEST | {"name": "first"})
    house.until(lambda: bool(limits(house)), "the limit to be learned")
    (quota,) = house.get("/v1/catalog/quotas?region=us-east5")["quotas"]
    assert (quota["allowed"], quota["where"], quota["tier"]) == (0, "us-east5", "preemptible")
    assert quota["said"] in house.node(first)["placements"][0]["reason"]

    with pytest.raises(urllib.error.HTTPError) as refusal:
        house.post("/v1/nodes", NODE_REQUEST)
    problem = json.loads(refusal.value.read())
    assert (refusal.value.code, problem["quotas"][0]["id"]) == (422, quota["id"])
    elsewhere = {"zone": problem["other_zones"][0], "name": "elsewhere"}
    house.until_state(house.post("/v1/nodes", NODE_REQUEST | elsewhere), "READY")

    house.post(f"/v1/catalog/quotas/{quota['id']}:forget")
    assert limits(house) == []
    (held,) = house.get("/v1/catalog/quotas")["quotas"]
    assert (held["used_chips"], held["tier"]) == (8, "preemptible"), "the one that came up"
    assert house.post("/v1/nodes", NODE_REQUEST | {"name": "again"})["warnings"] == []
