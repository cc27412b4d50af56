"""The command line of Google takes the emulator for the cloud, where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

GCLOUD = shutil.which("gcloud")
ZONE = "--zone=us-west4-a"

pytestmark = pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed on this machine")


@pytest.fixture
def gcloud(emulator, tmp_path):
    environment = {
        **os.environ,
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{emulator.rest_url}/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_PROJECT": "lab",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CONFIG": str(tmp_path),
    }

    def run(*arguments: str):
        command = [str(GCLOUD), "compute", "tpus", *arguments, "--format=json"]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_gcloud_runs_a_node_from_create_to_delete(gcloud):
    kind = ("--accelerator-type=v5litepod-4", "--version=v2-alpha-tpuv5-lite", "--labels=team=nlp")
    gcloud("tpu-vm", "create", "lit-1", ZONE, *kind)
    (node,) = gcloud("tpu-vm", "list", "--zone=-")
    assert (node["state"], node["labels"]) == ("READY", {"team": "nlp"})
    assert node["networkEndpoints"][0]["accessConfig"]["externalIp"]
    assert gcloud("tpu-vm", "stop", "lit-1", ZONE)["response"]["state"] == "STOPPED"
    gcloud("tpu-vm", "delete", "lit-1", ZONE)


def test_gcloud_lists_what_is_offered(gcloud):
    assert len(gcloud("locations", "list")) == 40
    kinds = {each["type"] for each in gcloud("tpu-vm", "accelerator-types", "list", ZONE)}
    assert "v5litepod-16" in kinds
