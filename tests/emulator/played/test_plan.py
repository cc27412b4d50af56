"""Played containers do what their environment and their command say."""

from __future__ import annotations

import pytest

from service.emulator.artifacts.registry import Registry, RegistryImage
from service.emulator.played.plan import PlayedPlan, plan_of
from service.emulator.played.task import TaskError, task_of
from tests.emulator.played.given import task


def plan(command=(), worker=0, image="", **env) -> PlayedPlan:
    text = task(command=list(command), env=env)
    told = task_of(text.replace("gcr.io/lab/trainer", image) if image else text)
    return plan_of(told, worker, Registry({"gcr.io/lab/gone": RegistryImage("missing")}))


def test_a_container_runs_for_a_minute_and_ends_well_unless_told_otherwise():
    assert plan() == PlayedPlan()
    assert (PlayedPlan().seconds, PlayedPlan().exit_code) == (60.0, 0)


@pytest.mark.parametrize(
    ("words", "seconds", "code"),
    [
        (["true"], 0, 0),
        (["false"], 0, 1),
        (["/bin/false"], 60, 0),
        (["echo", "hello"], 0, 0),
        (["sleep", "5"], 5, 0),
        (["sleep", "x"], 60, 0),
        (["bash", "-c", "exit 7"], 0, 7),
        (["/bin/sh", "-c", "sleep 5; exit 300"], 5, 44),
        (["bash", "-c", "sleep 1.5 && sleep 2\nfalse"], 3.5, 1),
        (["bash", "-c", "false; exit"], 0, 1),
        (["bash", "-c", "exit 3; sleep 9"], 0, 3),
        (["bash", "-c", "python train.py; exit 7"], 60, 0),
        (["bash", "-c", "echo '"], 60, 0),
        (["python", "train.py"], 60, 0),
    ],
)
def test_a_command_of_the_shell_is_understood(words, seconds, code):
    assert (plan(words).seconds, plan(words).exit_code) == (seconds, code)


@pytest.mark.parametrize(
    ("env", "field", "value"),
    [
        ({"EMULATOR_DURATION_SECONDS": "90"}, "seconds", 90),
        ({"EMULATOR_DURATION_SECONDS": "soon"}, "seconds", 60),
        ({"EMULATOR_DURATION_SECONDS": "nan"}, "seconds", 60),
        ({"EMULATOR_EXIT_CODE": "7"}, "exit_code", 7),
        ({"EMULATOR_EXIT_CODES": "0,7"}, "exit_code", 0),
        ({"EMULATOR_PULL_SECONDS": "600"}, "pull_seconds", 600),
        ({"EMULATOR_PULL_FAILS": "DISK_FULL"}, "pull_fails", "DISK_FULL"),
        ({"EMULATOR_STEPS": "30", "EMULATOR_STEP_SECONDS": "2"}, "seconds", 60),
        ({"EMULATOR_OUT_OF_MEMORY": "1"}, "exit_code", 137),
        ({"EMULATOR_IGNORE_SIGTERM": "true"}, "deaf", True),
        ({"EMULATOR_START_FAILS": "DEVICE_BUSY"}, "start_fails", "DEVICE_BUSY"),
        ({"EMULATOR_DONE_SECONDS": "5"}, "done_seconds", 5),
        ({}, "done_seconds", None),
    ],
)
def test_the_environment_counts_most(env, field, value):
    assert getattr(plan(**env), field) == value


def test_exit_codes_are_told_by_worker():
    codes = [plan(worker=n, EMULATOR_EXIT_CODES="0, 7,x", EMULATOR_EXIT_CODE="2") for n in range(4)]
    assert [each.exit_code for each in codes] == [0, 7, 2, 2]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        ("gcr.io/lab/noimage", "IMAGE_NOT_FOUND"),
        ("gcr.io/lab/trainer:denied", "PULL_DENIED"),
        ("gcr.io/lab/gone", "IMAGE_NOT_FOUND"),
        ("host:5000/trainer", ""),
    ],
)
def test_an_image_that_the_registry_lacks_cannot_be_pulled(image, reason):
    assert plan(image=image).pull_fails == reason


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{}",
        task().replace('"v": 1', '"v": 2'),
        task(attempt="../x"),
        task(action="explode"),
        task(generation=-1),
        task(container={}),
        task(container={"image": 7}),
        task(workers=None),
        task(stop_grace_seconds="x"),
        "[" * 100_000,
    ],
)
def test_a_task_that_cannot_be_read_is_refused(text):
    with pytest.raises(TaskError):
        task_of(text)
