"""Jobs as callers submit them: what the container does is written into its environment, where the
emulator's played workers read it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from service.domain.jobs.job import JobSpec, Retries, Workers
from service.domain.jobs.submission import Submission
from tests.simulation.request_generator import direct

IMAGE = "us-docker.pkg.dev/lab/train/jax:7"
MISSING_IMAGE = "us-docker.pkg.dev/lab/train/missing:7"
DAY = 86_400


def _succeeds(luck: Random) -> JobSpec:
    return _spec({"EMULATOR_DURATION_SECONDS": luck.uniform(5, 1500)})


def _trains(luck: Random) -> JobSpec:
    steps = luck.randint(20, 200)
    every = luck.choice([5, 10, 50])
    return _spec(
        {
            "EMULATOR_STEPS": steps,
            "EMULATOR_STEP_SECONDS": luck.uniform(1, 8),
            "EMULATOR_CHECKPOINT_EVERY": every,
        }
    )


def _fails(luck: Random) -> JobSpec:
    env = {
        "EMULATOR_DURATION_SECONDS": luck.uniform(5, 600),
        "EMULATOR_EXIT_CODE": luck.choice([1, 7, 139, 143]),
    }
    return _spec(env, failure=luck.choice([0, 0, 1, 2]))


def _fails_on_one_worker(luck: Random) -> JobSpec:
    env = {
        "EMULATOR_DURATION_SECONDS": luck.uniform(5, 600),
        "EMULATOR_EXIT_CODES": ",".join(luck.sample(["0", "0", "3", "0"], 4)),
    }
    return _spec(env, failure=luck.choice([0, 1]))


def _runs_out_of_memory(luck: Random) -> JobSpec:
    env = {"EMULATOR_DURATION_SECONDS": luck.uniform(5, 300), "EMULATOR_OUT_OF_MEMORY": 1}
    return _spec(env, failure=luck.choice([0, 1]))


def _aborts_when_done(luck: Random) -> JobSpec:
    seconds = luck.uniform(20, 600)
    return _spec(
        {
            "EMULATOR_DURATION_SECONDS": seconds,
            "EMULATOR_DONE_SECONDS": seconds * luck.uniform(0.5, 0.9),
            "EMULATOR_EXIT_CODES": "0,134,134,0",
        }
    )


def _runs_too_long(luck: Random) -> JobSpec:
    env = {"EMULATOR_DURATION_SECONDS": 7200, "EMULATOR_IGNORE_SIGTERM": luck.choice(["", "1"])}
    return replace(_spec(env), max_duration_seconds=luck.randint(60, 600))


def _ignores_sigterm(luck: Random) -> JobSpec:
    env = {"EMULATOR_DURATION_SECONDS": luck.uniform(300, 1500), "EMULATOR_IGNORE_SIGTERM": "1"}
    return _spec(env)


def _pulls_slowly(luck: Random) -> JobSpec:
    env = {
        "EMULATOR_PULL_SECONDS": luck.uniform(30, 900),
        "EMULATOR_DURATION_SECONDS": luck.uniform(5, 300),
    }
    return _spec(env)


def _cannot_be_pulled(luck: Random) -> JobSpec:
    return _spec({"EMULATOR_PULL_FAILS": luck.choice(["PULL_FAILED", "PULL_DENIED"])})


def _has_no_image(_: Random) -> JobSpec:
    return replace(_spec({}), image=MISSING_IMAGE)


KINDS: Mapping[str, Callable[[Random], JobSpec]] = {
    "succeeds": _succeeds,
    "trains": _trains,
    "fails": _fails,
    "fails_on_one_worker": _fails_on_one_worker,
    "runs_out_of_memory": _runs_out_of_memory,
    "aborts_when_done": _aborts_when_done,
    "runs_too_long": _runs_too_long,
    "ignores_sigterm": _ignores_sigterm,
    "pulls_slowly": _pulls_slowly,
    "cannot_be_pulled": _cannot_be_pulled,
    "has_no_image": _has_no_image,
}
WEIGHTS = (4, 5, 3, 3, 1, 1, 1, 1, 2, 1, 1)


def draw_spec(luck: Random) -> JobSpec:
    """What a job runs."""
    [kind] = luck.choices(list(KINDS), WEIGHTS)
    spec = _saving(KINDS[kind](luck))
    workers = luck.choice([Workers.ALL] * 4 + [Workers.FIRST])
    return replace(spec, workers=workers, stop_grace_seconds=luck.choice([5, 25, 60]))


def _saving(spec: JobSpec) -> JobSpec:
    """Have every other program save its state when it is told to end, and exit with 0."""
    saves = zlib.crc32(repr(sorted(spec.env.items())).encode()) % 2
    return replace(spec, env={**spec.env, "EMULATOR_STOP_CODE": "0"}) if saves else spec


def draw_own_node(luck: Random, queued: float) -> Submission:
    """A job with a node of its own, of one slice or of several."""
    request = replace(
        direct(luck), recreate_on_preemption=False, ttl_seconds=None, max_wait_seconds=None
    )
    if luck.random() < queued:
        request = replace(request, queued=True, slices=luck.choice([1, 1, 2]))
    return Submission(draw_spec(luck), owner=luck.choice(["ada", "bob"]), node_request=request)


def _spec(env: Mapping[str, object], *, failure: int = 0) -> JobSpec:
    return JobSpec(
        image=IMAGE,
        args=("train.py",),
        env={name: str(value) for name, value in env.items()},
        max_duration_seconds=DAY,
        retries=Retries(preemption=10, failure=failure),
    )
