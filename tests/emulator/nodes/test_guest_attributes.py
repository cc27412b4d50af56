"""Guest attributes, from the worker that publishes to the owner who reads."""

from __future__ import annotations

import pytest

from service.emulator.errors import ApiError, Code
from service.emulator.nodes import guest_attributes
from tests.emulator.factories import name_of


def read(cloud, query_path="", workers=()):
    answer = cloud.ask(
        "GetGuestAttributes", name=name_of("a"), query_path=query_path, worker_ids=list(workers)
    )
    return [
        [(item.namespace, item.key, item.value) for item in each.query_value.items]
        for each in answer.guest_attributes
    ]


@pytest.fixture
def pod(cloud):
    record = cloud.world.get_node(cloud.ready(accelerator_type="v4-16"))
    guest_attributes.publish_value(record, 0, "job", "state", "running")
    guest_attributes.publish_value(record, 1, "job", "state", "done")
    guest_attributes.publish_value(record, 1, "hostkeys", "rsa", "key")
    return cloud


@pytest.mark.parametrize(
    ("query_path", "workers", "expected"),
    [
        ("job/", [], [[("job", "state", "running")], [("job", "state", "done")]]),
        ("job/state", ["1"], [[("job", "state", "done")]]),
        ("hostkeys/", [], [[], [("hostkeys", "rsa", "key")]]),
        ("", ["0"], [[("job", "state", "running")]]),
    ],
)
def test_values_are_read_by_path_and_worker(pod, query_path, workers, expected):
    assert read(pod, query_path, workers) == expected


def test_an_empty_namespace_is_not_found(pod):
    with pytest.raises(ApiError) as caught:
        read(pod, "nothing/")
    assert caught.value.code is Code.INVALID_ARGUMENT
    assert caught.value.message.startswith(
        'Cloud TPU received an invalid argument. The "GuestAttributes" value "" was not found.'
    )


def test_a_worker_that_does_not_exist_is_refused(pod):
    with pytest.raises(ApiError, match="has 2 workers"):
        read(pod, "job/", ["2"])
