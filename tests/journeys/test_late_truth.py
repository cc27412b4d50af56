"""What happened while nobody looked is known to the second after all, by what Google wrote down."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.house import House
from tests.journeys.test_tiers import cost_of

pytestmark = pytest.mark.deep

PAST_THE_FREE_MINUTE = 57
"""Seconds of READY after which a node that took five to create is charged for if it is lost."""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house of one's own, in which a node takes five seconds to come up."""
    made = House(tmp_path, speed=4)
    yield made
    made.stop()


@pytest.mark.long
def test_a_preemption_while_the_daemon_was_down_is_charged_to_the_second_by_itself(
    house: House,
) -> None:
    """The log is late, too: it has the entry only ten seconds after the preemption."""
    house.configure(telemetry={"log_delay_seconds": 10})
    node = house.post(
        "/v1/nodes",
        {
            "name": "train",
            "accelerator_type": "v6e-8",
            "zone": "us-east5-b",
            "provisioning_model": "spot",
        },
    )
    house.until_state(node, "READY")
    house.kill("daemon")
    house.until(lambda: house.bill("train")[0]["seconds"] >= PAST_THE_FREE_MINUTE, "it to run")
    house.happens("preempt", house.in_cloud("train")[0])
    house.start("daemon")
    house.until_state(node, "DELETED")
    house.until(lambda: "by Google's audit log" in "\n".join(house.story(node)), "the log's word")
    cost = house.get(f"/v1/nodes/{node['id']}/cost")
    assert cost["uncertainty"] == "0.000000000"
    assert cost["cost"] == cost_of(house.bill("train"), node["hourly_cost"])
    assert not cost["estimated"]
    (told,) = [line for line in house.story(node) if "by Google's audit log" in line]
    assert "is credited: $" in told, "all of the time in between was charged until then"
