"""What befalls nodes by itself: how often, how repeatably, and with what notice."""

from __future__ import annotations

from typing import Any

import pytest

from service.emulator.errors import ApiError
from service.emulator.incidents.random_events import DAY, HOUR
from service.emulator.limits.spot_cycle import demand_at, left_for_spot
from service.emulator.surfaces import control
from service.emulator.wire import Node
from tests.emulator.factories import Cloud, configured, name_of

WEDNESDAY_20_UTC = 1_800_403_200 + 20 * HOUR


def lucky(**odds) -> Cloud:
    """A cloud with misfortunes in which nodes are READY after a second."""
    return configured(durations={"create": 1, "repair": 60, "restart": 30}, odds=odds)


def states(cloud: Cloud, node_id: str = "a") -> list[str]:
    name = name_of(node_id)
    return [each.after for each in cloud.history if each.name == name]


def spot_nodes(cloud: Cloud, count: int, model: str = "spot") -> None:
    for index in range(count):
        cloud.create(f"n{index}", scheduling_config={model: True})


def preempted(cloud: Cloud) -> dict[str, float]:
    return {each.name: each.at for each in cloud.history if each.after == "PREEMPTED"}


def test_nothing_befalls_a_node_unless_told_so():
    cloud = Cloud()
    cloud.ready(scheduling_config={"spot": True})
    cloud.wait(365 * DAY)
    assert states(cloud) == ["CREATING", "READY"]


def test_spot_nodes_are_preempted_about_as_often_as_asked():
    cloud = lucky(preemptions_per_hour={"*": 0.5})
    spot_nodes(cloud, 400)
    cloud.wait(2 * HOUR)
    # After two half-lives' worth of hazard 1 - 1/e of them are gone: 253, give or take.
    assert 220 < len(preempted(cloud)) < 285


def test_the_same_seed_preempts_the_same_nodes_at_the_same_moments():
    def day(seed: int) -> dict[str, float]:
        cloud = lucky(preemptions_per_hour={"v4": 1})
        cloud = Cloud(config=cloud.config, seed=seed)
        spot_nodes(cloud, 20)
        cloud.wait(HOUR)
        return preempted(cloud)

    assert day(1) == day(1)
    assert day(1) != day(2)


def test_what_befalls_a_node_does_not_depend_on_how_often_the_clock_is_read():
    def day(steps: int) -> dict[str, float]:
        cloud = lucky(preemptions_per_hour={"*": 1})
        spot_nodes(cloud, 20)
        for _ in range(steps):
            cloud.wait(HOUR / steps)
        return preempted(cloud)

    assert day(1).keys() == day(64).keys()
    assert day(1) == pytest.approx(day(64))


@pytest.mark.parametrize("model", ["on_demand", "reserved"])
def test_only_spot_and_preemptible_nodes_are_preempted(model):
    cloud = lucky(preemptions_per_hour={"*": 100})
    cloud.create("a", scheduling_config={"reserved": model == "reserved"})
    cloud.wait(DAY)
    assert states(cloud) == ["CREATING", "READY"]


def test_the_narrowest_rate_counts():
    rates = {"*": 1000, "v4": 1000, "us-central2-b/v4": 0}
    cloud = lucky(preemptions_per_hour=rates)
    spot_nodes(cloud, 5)
    cloud.wait(DAY)
    assert preempted(cloud) == {}


def test_a_node_may_be_preempted_while_it_is_created():
    cloud = configured(odds={"preemptions_per_hour": {"*": 100_000}})
    operation = cloud.create(scheduling_config={"spot": True})
    cloud.wait(20)
    assert states(cloud) == ["CREATING", "PREEMPTED"]
    assert (
        "update is not supported while in state PREEMPTED"
        in cloud.operation(operation).error.message
    )


def test_odds_that_change_count_from_then_on():
    cloud = lucky()
    spot_nodes(cloud, 3)
    cloud.wait(DAY)
    control.change_config(cloud.world, {"odds": {"preemptions_per_hour": {"*": 3600}}})
    cloud.wait(60)
    assert len(preempted(cloud)) == 3
    control.change_config(cloud.world, {"odds": {"preemptions_per_hour": {}}})
    assert control.describe_state(cloud.world)["pending"] == []


def test_a_preemptible_node_lives_for_a_day_and_is_listed_terminated():
    cloud = lucky()
    spot_nodes(cloud, 1, "preemptible")
    cloud.wait(DAY - 1)
    assert cloud.state("n0") == "READY"
    cloud.wait(1)
    assert cloud.state("n0") == "TERMINATED"
    assert cloud.bill()[0]["seconds"] == DAY - 1
    cloud.ask("DeleteNode", name=name_of("n0"))
    cloud.wait(10)
    assert cloud.state("n0") == "GONE"


def test_a_maintenance_is_announced_before_it_begins_and_passes():
    cloud = lucky(maintenances_per_day=1, maintenance_notice_seconds=600)
    cloud.ready()
    record: Any = cloud.world.nodes[name_of("a")]
    while record.maintenance is None:
        cloud.wait(60)
    start, _ = record.maintenance
    assert cloud.state() == "READY"
    cloud.wait(start - cloud.now)
    node = cloud.get()
    assert (cloud.state(), node.health) == ("REPAIRING", Node.Health.UNHEALTHY_MAINTENANCE)
    cloud.wait(60)
    assert (cloud.state(), record.maintenance) == ("READY", None)


def test_a_host_error_restarts_a_node_and_is_not_billed():
    cloud = lucky()
    name = cloud.ready()
    cloud.wait(100)
    control.break_host(cloud.world, {"name": name})
    assert (cloud.state(), cloud.get().health) == ("RESTARTING", Node.Health.TIMEOUT)
    cloud.wait(30)
    assert (cloud.state(), cloud.get().health) == ("READY", Node.Health.HEALTHY)
    assert [entry["seconds"] for entry in cloud.bill()] == [100, 0]


def test_a_host_that_does_not_recover_leaves_its_node_unknown():
    cloud = lucky(host_errors_per_day=24, lost_repairs=1)
    cloud.ready()
    cloud.wait(2 * DAY)
    assert states(cloud) == ["CREATING", "READY", "RESTARTING", "UNKNOWN"]
    cloud.ask("DeleteNode", name=name_of("a"))
    cloud.wait(10)
    assert cloud.state() == "GONE"


def test_settling_hurries_what_is_under_way_and_not_what_is_fated():
    cloud = lucky(preemptions_per_hour={"*": 1})
    cloud.create(scheduling_config={"spot": True})
    control.settle_world(cloud.world)
    assert cloud.state() == "READY"


def test_a_reset_forgets_every_fate():
    cloud = lucky(preemptions_per_hour={"*": 1})
    cloud.ready(scheduling_config={"spot": True})
    control.reset_world(cloud.world)
    assert control.describe_state(cloud.world)["pending"] == []


@pytest.mark.parametrize(
    ("odds", "complaint"),
    [
        ({"luck": 1}, "unknown odds luck; known: preemptions_per_hour"),
        ({"lost_repairs": 1.5}, "lost_repairs must be a number from 0 to 1"),
        ({"preemptions_per_hour": 3}, "preemptions_per_hour must be a JSON object"),
        ({"preemptions_per_hour": {"*": -1}}, "must be a number from 0"),
        ({"host_errors_per_day": True}, "must be a number from 0"),
        (7, "odds must be a JSON object"),
    ],
)
def test_odds_that_make_no_sense_are_refused(cloud, odds, complaint):
    with pytest.raises(ApiError, match=complaint.replace("*", r"\*")):
        control.change_config(cloud.world, {"odds": odds})


def test_spot_capacity_is_scarce_in_american_working_hours_and_plenty_at_the_weekend():
    assert demand_at(WEDNESDAY_20_UTC) == pytest.approx(1)
    assert demand_at(WEDNESDAY_20_UTC + 12 * HOUR) == pytest.approx(0)
    assert demand_at(WEDNESDAY_20_UTC + 3 * DAY) == pytest.approx(0.3)
    assert left_for_spot(100, 0.6, WEDNESDAY_20_UTC) == 40
    assert left_for_spot(100, 0, WEDNESDAY_20_UTC) == 100


def test_with_the_rhythm_of_the_week_preemptions_happen_by_day():
    cloud = lucky(preemptions_per_hour={"*": 0.2}, spot_rhythm=1)
    cloud.wait(WEDNESDAY_20_UTC - 6 * HOUR - cloud.now)
    spot_nodes(cloud, 300)
    cloud.wait(24 * HOUR)
    middle = WEDNESDAY_20_UTC
    by_day = sum(abs(at - middle) <= 6 * HOUR for at in preempted(cloud).values())
    by_night = len(preempted(cloud)) - by_day
    assert by_day > 3 * by_night > 0


def test_a_node_that_ends_amid_its_maintenance_has_none_to_come():
    cloud = configured(durations={"repair": 600})
    name = cloud.ready(scheduling_config={"preemptible": True})
    cloud.wait(86_400 - 120)
    control.maintain_node(cloud.world, {"name": name})
    assert cloud.world.get_node(name).maintenance is not None
    cloud.wait(1000)
    assert cloud.state() == "TERMINATED"
    assert cloud.world.get_node(name).maintenance is None


def test_nothing_more_is_in_store_for_what_was_preempted():
    cloud = configured(odds={"preemptions_per_hour": {"*": 1e6}, "host_errors_per_day": 9.0})
    cloud.create(scheduling_config={"spot": True})
    cloud.wait(10)
    assert cloud.state() == "PREEMPTED"
    assert control.describe_state(cloud.world)["pending"] == []
