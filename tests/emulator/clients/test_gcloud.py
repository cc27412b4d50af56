"""The command line of Google takes the emulator for the cloud, where it is installed."""

from __future__ import annotations

import pytest

from service.emulator.nodes import guest_attributes
from tests.emulator.clients.gcloud import Gcloud, needs_gcloud

ZONE = "--zone=us-west4-a"
OLD_ZONE = "--zone=us-central1-a"
VM = ("--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite")
LEGACY = ("--accelerator-type=v2-8", "--version=2.12.0", "--range=10.240.0.0/29")
VM_LIST = ["NAME", "ZONE", "ACCELERATOR_TYPE", "TYPE", "TOPOLOGY", "NETWORK", "RANGE", "STATUS"]
LEGACY_LIST = ["NAME", "ZONE", "ACCELERATOR_TYPE", "NETWORK", "RANGE", "STATUS"]

pytestmark = needs_gcloud


@pytest.fixture
def gcloud(emulator, tmp_path):
    return Gcloud(emulator, tmp_path)


@pytest.mark.deep
def test_a_tpu_vm_lives_its_life(gcloud):
    gcloud.told("tpu-vm", "create", "lit-1", ZONE, *VM, "--labels=team=nlp", "--tags=x")
    head, row = gcloud.rows("tpu-vm", "list", "--zone=-")
    assert head == VM_LIST
    assert row[:6] == ["lit-1", "us-west4-a", "v5litepod-4", "V5LITE_POD", "2x2", "default"]
    assert row[7] == "READY"
    change = ("--description=mine", "--update-labels=a=b", "--update-metadata=k=v")
    gcloud.told("tpu-vm", "update", "lit-1", ZONE, *change, "--add-tags=y", "--internal-ips")
    node = gcloud.json("tpu-vm", "describe", "lit-1", ZONE)
    assert (node["description"], node["tags"]) == ("mine", ["x", "y"])
    assert (node["labels"], node["metadata"]) == ({"team": "nlp", "a": "b"}, {"k": "v"})
    assert "externalIp" not in node["networkEndpoints"][0]["accessConfig"]
    assert gcloud.json("tpu-vm", "stop", "lit-1", ZONE)["response"]["state"] == "STOPPED"
    assert gcloud.json("tpu-vm", "start", "lit-1", ZONE)["response"]["state"] == "READY"
    gcloud.told("tpu-vm", "delete", "lit-1", ZONE)
    assert "was not found" in gcloud.refused("tpu-vm", "describe", "lit-1", ZONE)


@pytest.mark.deep
def test_a_legacy_node_lives_its_life(gcloud):
    gcloud.told("create", "old", OLD_ZONE, *LEGACY, "--network=default")
    assert gcloud.rows("list", OLD_ZONE) == [
        LEGACY_LIST,
        ["old", "us-central1-a", "v2-8", "default", "10.240.0.0/29", "READY"],
    ]
    done = gcloud.json("reimage", "old", OLD_ZONE, "--version=2.16.1")
    assert done["response"]["tensorflowVersion"] == "2.16.1"
    told = gcloud.told("describe", "old", OLD_ZONE)
    assert "ipAddress: 10.240.0.2\n" in told
    assert "port: '8470'\n" in told
    assert gcloud.json("stop", "old", OLD_ZONE)["response"]["state"] == "STOPPED"
    assert gcloud.json("start", "old", OLD_ZONE)["response"]["state"] == "READY"
    # The two kinds are listed together, and gcloud tells them apart.
    assert gcloud.rows("tpu-vm", "list", OLD_ZONE) == []
    refusal = gcloud.refused("tpu-vm", "describe", "old", OLD_ZONE)
    assert 'use "gcloud compute tpus describe"' in refusal
    gcloud.told("delete", "old", OLD_ZONE)
    assert gcloud.rows("list", OLD_ZONE) == []


@pytest.mark.deep
def test_what_is_offered_for_tpu_vms_is_listed(gcloud):
    assert ["v5litepod-16"] in gcloud.rows("tpu-vm", "accelerator-types", "list", ZONE)
    kind = gcloud.json("tpu-vm", "accelerator-types", "describe", "v5litepod-16", ZONE)
    assert kind["acceleratorConfigs"] == [{"topology": "4x4", "type": "V5LITE_POD"}]
    assert ["v2-alpha-tpuv6e"] in gcloud.rows("tpu-vm", "versions", "list", ZONE)
    version = gcloud.json("tpu-vm", "versions", "describe", "v2-alpha-tpuv6e", ZONE)
    assert version["version"] == "v2-alpha-tpuv6e"
    rows = gcloud.rows("topologies", "list", ZONE)
    assert ["4x4", "V5LITE_POD", "v5litepod-16"] in rows


@pytest.mark.deep
def test_what_is_offered_for_legacy_nodes_is_listed(gcloud):
    assert ["v3-8"] in gcloud.rows("accelerator-types", "list", OLD_ZONE)
    assert gcloud.json("accelerator-types", "describe", "v3-8", OLD_ZONE)["type"] == "v3-8"
    assert ["2.16.1"] in gcloud.rows("versions", "list", OLD_ZONE)
    assert gcloud.json("versions", "describe", "2.16.1", OLD_ZONE)["version"] == "2.16.1"


@pytest.mark.deep
def test_the_zones_are_listed(gcloud):
    head, *rows = gcloud.rows("locations", "list")
    assert head == ["LOCATION", "LOCATION_NAME"]
    assert ["us-west4-a", "projects/lab/locations/us-west4-a"] in rows
    place = gcloud.json("locations", "describe", "us-west4-a")
    assert place["labels"] == {"cloud.googleapis.com/region": "us-west4"}


@pytest.mark.deep
def test_guest_attributes_are_shown_in_a_table(gcloud, emulator):
    gcloud.told("tpu-vm", "create", "lit-1", ZONE, *VM)
    (record,) = emulator.world.nodes.values()
    guest_attributes.publish_value(record, 0, "job", "state", "done")
    assert gcloud.rows("tpu-vm", "get-guest-attributes", "lit-1", ZONE, "--query-path=job/") == [
        ["NAMESPACE", "KEY", "WORKER_ID", "VALUE"],
        ["job", "state", "0", "done"],
    ]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("create", "old", OLD_ZONE, "--version=2.4"), '"TensorflowVersion" cannot be "2.4"'),
        (("tpu-vm", "delete", "none", ZONE), "NOT_FOUND: Resource 'projects/lab/"),
        (("tpu-vm", "list", "--zone=mars-1"), "PERMISSION_DENIED: Permission denied on"),
    ],
)
def test_a_refusal_is_told_in_googles_words(gcloud, command, text):
    assert text in gcloud.refused(*command)


@pytest.mark.deep
def test_a_stockout_is_told_in_googles_words(gcloud, web):
    web.ask("POST", "/_emulator/faults", {"rpc": "CreateNode", "action": "stockout"})
    told = gcloud.refused("tpu-vm", "create", "lit-1", ZONE, *VM)
    assert "There is no more capacity in the zone" in told
