"""`nodes connect` and `nodes reimage`, read as a person would."""

from __future__ import annotations

import json

import pytest

from tests.cli.given import ID, node, page, steward

FOUND = {
    "architecture": "node",
    "summary": "A legacy TPU Node has no machine to log in to.",
    "ssh": "",
    "everywhere": "",
    "upload": "",
    "address": "grpc://10.240.1.2:8470",
    "vm_software": "TensorFlow 2.12.0",
    "workers": [
        {"cloud_id": "old-1a2b3c4d", "worker": 0, "ip": "10.240.1.2", "port": 8470}
        | {"external_ip": ""}
    ],
    "recipes": [
        {
            "framework": "tensorflow",
            "works": True,
            "note": "The program runs on your VM.",
            "shell": ["python3 train.py"],
            "python": ["import tensorflow as tf"],
        },
        {"framework": "jax", "works": False, "note": "JAX cannot", "shell": [], "python": []},
    ],
    "not_included": ["the VM that drives the legacy TPU Node is billed by Compute Engine"],
}


def test_a_connection_is_a_page_of_lines_to_paste(api):
    api.when("GET", "/v1/nodes", page(node()))
    api.when("GET", f"/v1/nodes/{ID}/connection", FOUND)
    assert steward("nodes", "connect", "trainer").stdout.splitlines() == [
        "A legacy TPU Node has no machine to log in to.",
        "",
        "WORKER          ADDRESS          FROM OUTSIDE",
        "old-1a2b3c4d/0  10.240.1.2:8470  -",
        "",
        "Its address:",
        "  grpc://10.240.1.2:8470",
        "",
        "Your own VM has to run:",
        "  TensorFlow 2.12.0",
        "",
        "TensorFlow:",
        "  python3 train.py",
        "  # in train.py",
        "  import tensorflow as tf",
        "  # The program runs on your VM.",
        "",
        "JAX: JAX cannot",
        "",
        "Not in its cost here: the VM that drives the legacy TPU Node is billed by Compute Engine",
    ]


def test_a_tpu_vm_shows_how_to_log_in_and_no_address(api):
    vm = {"ssh": "gcloud ssh", "everywhere": "gcloud all", "upload": "gcloud scp", "address": ""}
    found = FOUND | vm | {"vm_software": "", "recipes": [], "not_included": []}
    api.when("GET", f"/v1/nodes/{ID}/connection", found)
    shown = steward("nodes", "connect", ID).stdout.splitlines()
    assert shown[-9:] == [
        "",
        "A shell on the first worker:",
        "  gcloud ssh",
        "",
        "A command on every worker:",
        "  gcloud all",
        "",
        "Your program to every worker:",
        "  gcloud scp",
    ]


def test_json_is_the_text_of_the_api(api):
    api.when("GET", f"/v1/nodes/{ID}/connection", FOUND)
    assert json.loads(steward("nodes", "connect", ID, "--json").stdout) == FOUND


def test_a_node_that_cannot_be_reached_yet_says_so(api):
    problem = {"detail": "node n is CREATING: only a READY node can be reached"}
    api.when("GET", f"/v1/nodes/{ID}/connection", problem, status=409)
    result = steward("nodes", "connect", ID)
    assert (result.exit_code, result.stderr) == (1, f"{problem['detail']}\n")


@pytest.mark.parametrize(
    ("typed", "body"),
    [
        (["--runtime-version", "2.16.1"], {"runtime_version": "2.16.1"}),
        (
            ["--framework", "pytorch=1.11"],
            {"framework": {"name": "pytorch", "version": "1.11"}},
        ),
    ],
)
def test_a_reimage_says_what_the_node_is_to_run(api, typed, body):
    api.when("POST", f"/v1/nodes/{ID}:reimage", node(runtime_version="2.16.1"), status=202)
    result = steward("nodes", "reimage", ID, *typed)
    assert api.calls[-1].body == body
    assert result.stdout == "trainer is READY and is to run 2.16.1\n"


@pytest.mark.parametrize("typed", [[], ["--runtime-version", "2.16.1", "--framework", "jax"]])
def test_a_reimage_to_nothing_or_to_two_things_is_a_usage_error(typed):
    result = steward("nodes", "reimage", ID, *typed)
    assert result.exit_code == 2
    assert "give exactly one of --runtime-version and --framework" in result.stderr


def test_a_legacy_node_is_asked_for_and_shown_as_one(api):
    made = node(architecture="node", runtime_version="2.12.0")
    api.when("POST", "/v1/nodes", {**made, "warnings": []}, status=201)
    steward("nodes", "create", "--accelerator-type", "v2-8", "--architecture", "node")
    assert api.calls[-1].body == {"accelerator_type": "v2-8", "architecture": "node"}
    api.when("GET", f"/v1/nodes/{ID}", made)
    assert "2.12.0, on a legacy TPU Node" in steward("nodes", "show", ID).stdout
