"""What other people's clients ask for, as they ask for it: each request names who makes it."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from google.cloud import monitoring_v3
from google.cloud.monitoring_v3.services.metric_service.transports.grpc import (
    MetricServiceGrpcTransport,
)

from service.emulator.clock import LAST_MOMENT
from service.emulator.errors import ApiError, Code
from service.emulator.queued.timing import LONGEST_SECONDS
from service.emulator.surfaces.channel import LocalChannel
from tests.emulator.factories import PARENT, START, configured, moment, name_of
from tests.emulator.queued_resources import look, submit

OLD_ZONE = "projects/lab/locations/us-central1-c"
TERRAFORM = {
    "name": "tf",
    "description": "Text description of the TPU.",
    "runtimeVersion": "tpu-vm-tf-2.13.0",
    "acceleratorConfig": {"type": "V2", "topology": "2x2"},
    "cidrBlock": "10.0.0.0/29",
    "networkConfig": {
        "canIpForward": True,
        "enableExternalIps": True,
        "network": "projects/lab/global/networks/n",
        "subnetwork": "projects/lab/regions/us-central1/subnetworks/s",
        "queueCount": 32,
    },
    "schedulingConfig": {"preemptible": True, "spot": True},
    "shieldedInstanceConfig": {"enableSecureBoot": True},
    "serviceAccount": {
        "email": "sa@lab.iam.gserviceaccount.com",
        "scope": ["https://www.googleapis.com/auth/cloud-platform"],
    },
    "dataDisks": [{"sourceDisk": "projects/lab/zones/us-central1-c/disks/d", "mode": "READ_ONLY"}],
    "labels": {"foo": "bar", "goog-terraform-provisioned": "true"},
    "metadata": {"foo": "bar"},
    "tags": ["foo"],
}


def test_terraform_reads_back_every_setting_of_its_fullest_vm(web):
    path = f"/v2/{OLD_ZONE}/nodes"
    status, _ = web.ask("POST", f"{path}?nodeId=tf&alt=json", TERRAFORM)
    assert status == 200
    web.ask("POST", "/_emulator/settle")
    _, shown = web.ask("GET", f"{path}/tf?alt=json")
    asked = {key: value for key, value in TERRAFORM.items() if key != "name"}
    asked["schedulingConfig"] = {"preemptible": True, "reserved": False, "spot": True}
    assert {key: shown[key] for key in asked} == asked


def test_terraforms_spot_and_preemptible_vm_is_a_spot_one(cloud):
    cloud.ready(scheduling_config={"preemptible": True, "spot": True})
    assert cloud.world.get_node(name_of("a")).provisioning_model == "spot"


@pytest.mark.parametrize("other", ["spot", "preemptible"])
def test_reserved_still_goes_with_nothing_else(cloud, other):
    with pytest.raises(ApiError, match="more than one of") as caught:
        cloud.create(scheduling_config={"reserved": True, other: True})
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("which", ["valid_until", "valid_after"])
def test_googles_sample_of_a_time_bound_request_reads_a_moment(cloud, which):
    submit(cloud, queueing_policy={f"{which}_duration": {"seconds": 90}})
    policy = look(cloud).queueing_policy
    assert policy.WhichOneof("start_timing_constraints") == f"{which}_time"
    assert moment(getattr(policy, f"{which}_time")) == START + 90


def test_a_wait_beyond_all_time_is_shown_as_the_end_of_time(cloud):
    submit(cloud, queueing_policy={"valid_until_duration": {"seconds": LONGEST_SECONDS}})
    assert look(cloud).queueing_policy.valid_until_time.seconds == LAST_MOMENT


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_a_time_bound_request_is_shown_alike_in_every_version(web, version):
    body = {
        # SkyPilot sends a bare object for the list, axlearn the names in snake_case.
        "tpu": {
            "node_spec": {
                "parent": PARENT,
                "node_id": "n",
                "node": {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"},
            }
        },
        "queueingPolicy": {"validUntilDuration": "3600s"},
    }
    path = f"/{version}/{PARENT}/queuedResources"
    assert web.ask("POST", f"{path}?queuedResourceId=q", body)[0] == 200
    _, shown = web.ask("GET", f"{path}/q")
    assert list(shown["queueingPolicy"]) == ["validUntilTime"]


def test_googles_monitoring_sample_groups_by_the_short_name_of_a_label():
    cloud = configured(telemetry={"delay_seconds": 0})
    cloud.ready()
    cloud.wait(3600)
    client = monitoring_v3.MetricServiceClient(
        transport=MetricServiceGrpcTransport(channel=LocalChannel(cloud.world))
    )
    found = client.list_time_series(
        request={
            "name": "projects/lab",
            "filter": 'metric.type = "tpu.googleapis.com/cpu/utilization"',
            "interval": {
                "start_time": {"seconds": int(cloud.now) - 3600},
                "end_time": {"seconds": int(cloud.now)},
            },
            "aggregation": {
                "alignment_period": {"seconds": 1200},
                "per_series_aligner": monitoring_v3.Aggregation.Aligner.ALIGN_MEAN,
                "cross_series_reducer": monitoring_v3.Aggregation.Reducer.REDUCE_MEAN,
                "group_by_fields": ["resource.zone"],
            },
        }
    )
    (series,) = found
    assert dict(series.resource.labels) == {"zone": "us-central2-b"}


@pytest.mark.parametrize("expression", ["type=v4-8", 'type = "v4-8"'])
@pytest.mark.parametrize("version", ["v1", "v2", "v2alpha1"])
def test_a_type_is_filtered_by_the_name_that_curl_and_go_know(web, version, expression):
    place = "us-central1-a" if version == "v1" else "us-central2-b"
    wanted = expression.replace("v4-8", "v2-8") if version == "v1" else expression
    path = f"/{version}/projects/lab/locations/{place}/acceleratorTypes"
    _, shown = web.ask("GET", f"{path}?{urlencode({'filter': wanted})}")
    kinds = [each["type"] for each in shown["acceleratorTypes"]]
    assert wanted.strip('"').endswith(kinds[0])
    assert len(kinds) == 1
    _, shown = web.ask("GET", f"{path}?orderBy=type%20desc")
    every = [each["type"] for each in shown["acceleratorTypes"]]
    assert every == sorted(every, reverse=True)
