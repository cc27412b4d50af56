"""The command line of Google queues a request, looks at it and deletes it, where it is installed.

The general release speaks v2; its alpha track speaks v2alpha1, and its beta has no such commands.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

GCLOUD = shutil.which("gcloud")
KIND = ("--accelerator-type=v5litepod-4", "--runtime-version=v2-alpha-tpuv5-lite")

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
        command = [str(GCLOUD), "compute", "tpus", "queued-resources", *arguments]
        done = subprocess.run(
            [*command, "--zone=us-west4-a", "--format=json"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout or "null")

    return run


@pytest.mark.deep
def test_gcloud_runs_a_queued_resource_from_create_to_delete(gcloud, web):
    gcloud("create", "q", "--node-count=2", "--node-prefix=s", *KIND, "--spot")
    web.ask("POST", "/_emulator/settle")
    (listed,) = gcloud("list")
    assert (listed["state"]["state"], listed["spot"]) == ("ACTIVE", {})
    described = gcloud("describe", "q")
    (spec,) = described["tpu"]["nodeSpec"]
    assert spec["multisliceParams"] == {"nodeCount": 2, "nodeIdPrefix": "s"}
    gcloud("delete", "q", "--force")
    status, _ = web.ask("GET", f"/v2/{described['name']}")
    assert status == 404
