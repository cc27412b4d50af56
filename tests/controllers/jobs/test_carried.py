"""The metadata of a node that is made without a job, as the emulator received it in the create."""

from __future__ import annotations

import base64
import gzip
import hashlib
from importlib import resources

import pytest

from service.api.nodes.node_request import NodeRequest
from service.domain.jobs.startup import CALLERS_SCRIPT, METER, SCRIPT, SUPERVISOR, build_script
from tests.controllers.jobs.crossings import Crossings
from tests.controllers.jobs.lives import TICK, Ground

CALLERS = "#!/bin/bash\necho hello\n"
LONGEST_TICKS = 20
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def created_with(engine, **body):
    """The metadata of a node with that request, before anything could update it."""
    house = Ground(engine).house(Crossings())
    asked = {"accelerator_type": "v5litepod-8", "zone": "us-west4-a", **body}
    house.nodes.request(NodeRequest.model_validate(asked).to_request())
    for _ in range(LONGEST_TICKS):
        house.tick()
        if house.world.nodes:
            break
    (record,) = house.world.nodes.values()
    assert record.state == "CREATING", f"within {TICK} s it is not READY"
    return dict(record.message.metadata)


def test_a_node_without_a_job_carries_our_two_programs_from_its_create(engine):
    found = created_with(engine)
    assert found.keys() == {SCRIPT, SUPERVISOR, METER}
    assert found[SCRIPT] == build_script()
    for key, name in ((SUPERVISOR, "supervisor.py"), (METER, "meter.py")):
        source = resources.files("service.supervisor").joinpath(name).read_bytes()
        assert gzip.decompress(base64.b64decode(found[key])) == source
        assert hashlib.sha256(source).hexdigest() in found[SCRIPT]


def test_the_callers_startup_script_travels_beside_the_supervisor_unchanged(engine):
    found = created_with(engine, startup_script=CALLERS)
    assert found.keys() == {SCRIPT, SUPERVISOR, METER, CALLERS_SCRIPT}
    assert found[SCRIPT] == build_script()
    assert found[CALLERS_SCRIPT] == CALLERS


@pytest.mark.parametrize(
    ("body", "metadata"), [({}, {}), ({"startup_script": CALLERS}, {SCRIPT: CALLERS})]
)
def test_a_node_that_opts_out_carries_nothing_of_ours(engine, body, metadata):
    assert created_with(engine, supervisor=False, **body) == metadata
