"""The software that a node gets when its owner names none, and what is refused before it costs."""

from __future__ import annotations

import json
import urllib.error
from typing import Any

import pytest

from tests.journeys.house import House

pytestmark = pytest.mark.deep

IMAGES = [
    ("v2-8", "us-central1-f", "jax", "tpu-ubuntu2204-base"),
    ("v3-8", "us-central1-b", "jax", "tpu-ubuntu2204-base"),
    ("v4-8", "us-central2-b", "jax", "tpu-ubuntu2204-base"),
    ("v5litepod-8", "us-west4-b", "jax", "v2-alpha-tpuv5-lite"),
    ("v5p-8", "us-east5-b", "jax", "v2-alpha-tpuv5"),
    ("v6e-8", "us-east5-c", "jax", "v2-alpha-tpuv6e"),
    ("v5litepod-8", "us-west4-b", "tensorflow", "tpu-vm-tf-2.17.1-pjrt"),
    ("v5litepod-16", "us-west4-b", "tensorflow", "tpu-vm-tf-2.17.1-pod-pjrt"),
]


@pytest.mark.parametrize(("accelerator_type", "zone", "framework", "image"), IMAGES)
def test_a_node_gets_the_image_that_fits_it_and_google_takes_it(
    home: House, accelerator_type: str, zone: str, framework: str, image: str
) -> None:
    name = f"image-{accelerator_type}-{framework}"
    body = {"name": name, "accelerator_type": accelerator_type, "zone": zone}
    node = home.post("/v1/nodes", {**body, "framework": {"name": framework}})
    assert home.until_state(node, "READY")["runtime_version"] == image
    (seen,) = home.in_cloud(name)
    assert seen["runtimeVersion"] == image
    home.delete_and_see_it_gone(node)


def refused(home: House, body: dict[str, Any]) -> Any:
    """The problem that the request is answered with."""
    with pytest.raises(urllib.error.HTTPError) as answer:
        home.post("/v1/nodes", body)
    with answer.value:
        assert answer.value.code == 422
        return json.loads(answer.value.read())


def test_a_framework_that_no_image_of_the_hardware_has_is_refused_with_those_that_fit(
    home: House,
) -> None:
    body = {"name": "old-tf", "accelerator_type": "v5litepod-8", "zone": "us-west4-b"}
    problem = refused(home, {**body, "framework": {"name": "tensorflow", "version": "2.10"}})
    assert "v5e and newer need TensorFlow 2.15 or newer" in problem["detail"]
    assert "tpu-vm-tf-2.17.1-pjrt" in problem["compatible"]
    assert home.in_cloud("old-tf") == []


def test_a_generation_that_nobody_knows_is_refused_and_no_image_is_guessed_for_it(
    home: House,
) -> None:
    problem = refused(home, {"name": "v9", "accelerator_type": "v9x-8"})
    assert "v9x-8" in problem["detail"]
    assert problem["closest"]
    assert home.get("/v1/nodes?name=v9")["nodes"] == home.in_cloud("v9") == []
