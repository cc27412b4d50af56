"""What no record accounts for, and images that a zone lacks: Google's client, the emulator's cloud.

Each is lived through with the real controllers, in the hours that it takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.application.orphans import OrphanKind
from service.domain.nodes.node import Node, NodeState
from service.domain.orphans.fleet_watch import WINDOW_SECONDS
from service.domain.orphans.orphan import OrphanVerdict
from service.emulator import catalog
from service.emulator.api.calls.dispatch import answer_message
from service.emulator.surfaces import control
from service.store.engine import make_engine
from tests.databases import fresh_database
from tests.journeys.sky import ZONE, Sky
from tests.simulation.clock import Agenda, set_databases_clock
from tests.simulation.cloud_faults import METHODS

pytestmark = pytest.mark.deep


@pytest.fixture
def sky(tmp_path: Path) -> Iterator[Sky]:
    """A service and a cloud on one clock in hand, which the database goes by as well."""
    agenda = Agenda()
    with fresh_database("sqlite", tmp_path) as address:
        engine = make_engine(address)
        set_databases_clock(engine, agenda)
        yield Sky(engine, agenda)
        engine.dispose()


def given_up(sky: Sky, **changes: object) -> Node:
    """A node whose request is still on its way when its deletion has come to its end."""
    node = sky.ask(**changes)
    sky.until(lambda: sky.wire.on_its_way, "the request to be sent")
    sky.nodes.delete(node.id)
    return sky.until_state(node, NodeState.DELETED)


def test_a_node_that_no_record_accounts_for_is_found_and_swept(sky: Sky) -> None:
    """Its create takes effect after Google has said for minutes that there is no such node."""
    sky.wire.slow = {"create"}
    node = given_up(sky)
    sky.land()
    landed = sky.agenda.now
    (name,) = sky.world.nodes
    sky.until(sky.orphans.list_all, "it to be found", seconds=30)
    (found,) = sky.orphans.list_all()
    assert (found.orphan.shown.path, found.orphan.kind) == (name, OrphanKind.OURS)
    assert found.orphan.verdict is OrphanVerdict.OBSERVE
    sky.until(lambda: not sky.world.nodes, "it to be swept")
    assert sky.agenda.now - landed > WINDOW_SECONDS, "and not before it was watched for a while"
    sky.until(lambda: not sky.orphans.list_all(), "that to be seen")
    assert f"deleting {name} (ours_without_record)" in sky.story(node)


def test_what_is_not_ours_is_found_and_never_swept(sky: Sky) -> None:
    asked = METHODS["CreateNode"].request(
        parent=f"projects/lab/locations/{ZONE}",
        node_id="somebodys",
        node={"accelerator_type": "v5litepod-8", "runtime_version": "v2-alpha-tpuv5-lite"},
    )
    assert answer_message(sky.world, METHODS["CreateNode"], asked).error is None
    sky.agenda.pass_(6 * WINDOW_SECONDS)
    (found,) = sky.orphans.list_all()
    assert (found.orphan.kind, found.orphan.verdict) == (OrphanKind.STRANGER, OrphanVerdict.LEAVE)
    assert len(sky.world.nodes) == 1
    assert "delete" not in sky.wire.calls


def test_a_zombie_in_the_queue_is_found_and_swept(sky: Sky) -> None:
    """It was asked for late, came to nothing, and would hold its quota for ever."""
    sky.wire.slow = {"create"}
    node = given_up(sky, queued=True)
    control.add_fault(sky.world, {"rpc": "CreateQueuedResource", "action": "fail_provisioning"})
    sky.land()
    sky.until(lambda: sky.orphans.list_all(kind=OrphanKind.ZOMBIE), "it to be found", seconds=600)
    (found,) = sky.orphans.list_all(kind=OrphanKind.ZOMBIE)
    assert (found.orphan.shown.queued, found.orphan.shown.state) == (True, "FAILED")
    assert list(sky.world.queue.records) == [found.orphan.shown.path]
    sky.until(lambda: not sky.world.queue.records, "it to be swept")
    sky.until(lambda: not sky.orphans.list_all(), "that to be seen")
    assert f"deleting {found.orphan.shown.path} (zombie_queue)" in sky.story(node)
    assert not sky.world.nodes


def test_a_zombie_that_its_preempted_node_left_behind_is_swept_with_it(sky: Sky) -> None:
    """Nobody sees the node come up: its queued resource is SUSPENDED, and holds what it had."""
    sky.wire.slow = {"create"}
    given_up(sky, queued=True, provisioning_model="spot")
    sky.land()
    sky.until(lambda: sky.world.nodes, "Google to have the hardware")
    (name,) = sky.world.nodes
    sky.until(lambda: sky.world.nodes[name].message.state == READY, "it to come up")
    control.preempt_node(sky.world, {"name": name})
    sky.until(lambda: sky.orphans.list_all(kind=OrphanKind.ZOMBIE), "it to be found", seconds=600)
    sky.until(lambda: not sky.orphans.list_all(), "both to be swept")
    assert not sky.world.queue.records
    assert not sky.world.nodes


READY = 2
"""Google's number of the state."""

IMAGE = "v2-alpha-tpuv5-lite"


def test_an_image_that_the_zones_own_list_lacks_is_never_asked_for(
    sky: Sky, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Google takes a create with an image that does not fit; its list is asked before that."""
    listed = {name: fits for name, fits in catalog.runtime_versions().items() if name != IMAGE}
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(catalog, "runtime_versions", lambda: listed)
        lacking = sky.until_state(sky.ask(runtime_version=IMAGE), NodeState.FAILED)
        assert lacking.last_error.startswith(
            f"{ZONE} does not list the runtime version {IMAGE}; the nearest that it has: v2-alpha-"
        )
        assert "create" not in sky.wire.calls
        assert sky.wire.calls.count("runtime_versions") >= 1
    sky.agenda.pass_(60)
    ready = sky.until_state(sky.ask(runtime_version=IMAGE), NodeState.READY)
    assert ready.spec.runtime_version == IMAGE
    (record,) = sky.world.nodes.values()
    assert record.message.runtime_version == IMAGE
