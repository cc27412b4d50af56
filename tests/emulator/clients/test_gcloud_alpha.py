"""The alpha track of Google's command line speaks v2alpha1, where it is installed."""

from __future__ import annotations

import pytest

from tests.emulator.clients.gcloud import Gcloud, needs_gcloud

ZONE = "--zone=us-west4-a"
VM = ("--accelerator-type=v5litepod-16", "--version=v2-alpha-tpuv5-lite")
QUEUED = ("--accelerator-type=v5litepod-8", "--runtime-version=v2-alpha-tpuv5-lite")
DISK = "projects/lab/zones/us-west4-a/disks/d"

pytestmark = [needs_gcloud, pytest.mark.deep]


@pytest.fixture
def gcloud(emulator, tmp_path):
    return Gcloud(emulator, tmp_path, "alpha")


def test_a_node_has_what_only_this_track_can_ask_for(gcloud):
    boot = "--boot-disk=kms-key=key,confidential-compute=true"
    gcloud.told("tpu-vm", "create", "a", ZONE, *VM, "--autocheckpoint-enabled", boot, "--spot")
    node = gcloud.json("tpu-vm", "describe", "a", ZONE)
    assert node["autocheckpointEnabled"] is True
    assert node["bootDiskConfig"] == {
        "customerEncryptionKey": {"kmsKeyName": "key"},
        "enableConfidentialCompute": True,
    }
    assert (node["apiVersion"], node["schedulingConfig"]["spot"]) == ("V2_ALPHA1", True)
    assert node["schedulingConfig"]["provisioningModel"] == "SPOT"
    # Its list of the legacy API names the version of each node.
    head, row = gcloud.rows("list", ZONE)
    assert (head[-1], row[-1]) == ("API_VERSION", "V2_ALPHA1")
    gcloud.told("tpu-vm", "delete", "a", ZONE)


def test_disks_come_and_go(gcloud):
    gcloud.told("tpu-vm", "create", "a", ZONE, *VM)
    disk = f"--attach-disk=source={DISK},mode=read-write"
    gcloud.told("tpu-vm", "update", "a", ZONE, disk, "--worker=1")
    (shown,) = gcloud.json("tpu-vm", "describe", "a", ZONE)["dataDisks"]
    assert shown == {"mode": "READ_WRITE", "sourceDisk": DISK, "workerIds": ["1"]}
    gcloud.told("tpu-vm", "detach-disk", "a", ZONE, f"--disk={DISK}")
    assert "dataDisks" not in gcloud.json("tpu-vm", "describe", "a", ZONE)


def test_maintenance_is_simulated_and_begun_by_hand(gcloud, emulator):
    gcloud.told("tpu-vm", "create", "a", ZONE, *VM)
    done = gcloud.json("tpu-vm", "simulate-maintenance-event", "a", ZONE, "--workers=0,1")
    assert done["metadata"]["verb"] == "simulateMaintenanceEvent"
    assert done["response"]["state"] == "READY"
    refusal = gcloud.refused("tpu-vm", "perform-maintenance", "a", ZONE)
    assert "There is no upcoming maintenance" in refusal
    (record,) = emulator.world.nodes.values()
    record.maintenance = (4_000_000_000.0, 4_000_000_060.0)
    shown = gcloud.json("tpu-vm", "describe", "a", ZONE)["upcomingMaintenance"]
    assert (shown["type"], shown["maintenanceStatus"]) == ("SCHEDULED", "PENDING")
    done = gcloud.json("tpu-vm", "perform-maintenance", "a", ZONE)
    assert done["response"]["state"] == "READY"


def test_reservations_are_listed(gcloud, web):
    order = {"zone": "us-west4-a", "generation": "v5e", "chips": 64, "name": "mine"}
    web.ask("PATCH", "/_emulator/config", {"reservations": [order]})
    _, row = gcloud.rows("reservations", "list", ZONE)
    assert row == ["mine", "us-west4-a", "64", "CHIPS", "v5e"]


def test_flex_start_is_queued(gcloud, web):
    run = ("--provisioning-model=flex-start", "--max-run-duration=2h")
    gcloud.told("queued-resources", "create", "q", ZONE, *QUEUED, "--node-id=n", *run)
    web.ask("POST", "/_emulator/settle")
    shown = gcloud.json("queued-resources", "describe", "q", ZONE)
    assert (shown["state"]["state"], shown["provisioningModel"]) == ("ACTIVE", "FLEX_START")
    assert shown["runDuration"] == {"maxRunDuration": "7200s"}
    refusal = gcloud.refused("queued-resources", "perform-maintenance", "q", ZONE, "--node-names=n")
    assert "There is no upcoming maintenance" in refusal
    done = gcloud.json("queued-resources", "reset", "q", ZONE)
    assert done["response"]["@type"].endswith("v2alpha1.QueuedResource")


def test_several_nodes_are_queued_at_best_effort(gcloud, web):
    several = ("--node-count=2", "--node-prefix=s", "--workload-type=AVAILABILITY_OPTIMIZED")
    gcloud.told("queued-resources", "create", "q", ZONE, *QUEUED, *several, "--best-effort")
    web.ask("POST", "/_emulator/settle")
    (shown,) = gcloud.json("queued-resources", "list", ZONE)
    assert shown["bestEffort"] == {}
    (spec,) = shown["tpu"]["nodeSpec"]
    assert spec["multiNodeParams"] == {
        "nodeCount": 2,
        "nodeIdPrefix": "s",
        "workloadType": "AVAILABILITY_OPTIMIZED",
    }
    gcloud.told("queued-resources", "delete", "q", ZONE, "--force")
    assert gcloud.rows("queued-resources", "list", ZONE) == []
