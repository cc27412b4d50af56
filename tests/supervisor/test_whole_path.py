"""What a caller submits is what the process receives, through every part that is between them.

The body of a request, the task in the metadata, the boot script, the supervisor as a process, the
emulator's stand-in for docker, and the process that it starts.
"""

from __future__ import annotations

import base64
import random
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from service.api.jobs.request import JobRequest
from service.domain.errors import Rejected
from service.domain.jobs.startup import metadata_of, script_digest
from service.domain.jobs.submission import build_job, check_submission
from service.domain.jobs.task import KEY, task_of
from service.domain.jobs.transition import new_attempt
from service.emulator.app import build_world, run_in_thread
from tests import factories
from tests.emulator.factories import Web
from tests.emulator.worker_view import SINGLE, create, serial
from tests.hands import NOON
from tests.supervisor.nasty import DIGESTS, NASTY, REGISTRIES, SHELLS, TAGS, VARIABLES

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("bash", "curl", "flock", "base64"))),
    reason="the boot script and the containers need them",
)

NODES, JOBS_EACH = 5, 5
PATIENCE_SECONDS = 60
BASE64 = shutil.which("base64")
SHOW = f"{BASE64} -w0 </proc/$$/cmdline; echo; {BASE64} -w0 </proc/$$/environ; echo; :"
"""Prints what the process received, each in one line."""


def draw_body(luck: random.Random) -> dict[str, Any]:
    """The body of a request whose texts look like something else. Some look like secrets."""
    words = [luck.choice(SHELLS), "-c", SHOW, *luck.choices(NASTY, k=luck.randrange(5))]
    cut = luck.randrange(len(words) + 1)
    names = luck.sample([*VARIABLES, "A", "_b1", "long_" + "N" * 50], k=luck.randrange(5))
    path = "/".join(luck.choices(["lab", "train-1", "a.b__c"], k=luck.randrange(1, 4)))
    return {
        "image": luck.choice(REGISTRIES) + path + luck.choice(TAGS) + luck.choice(DIGESTS),
        "command": words[:cut],
        "args": words[cut:],
        "env": {name: "".join(luck.choices(NASTY[:-1], k=2)) for name in names},
        "node": "n",
    }


def draw_bodies(count: int) -> list[dict[str, Any]]:
    """Bodies that the service accepts; the environment of the first has 100 kB."""
    luck = random.Random(14)
    found: list[dict[str, Any]] = []
    while len(found) < count:
        body = draw_body(luck)
        if not found:
            body["env"] |= {f"BIG{number}": "é'\"$(x)\n" * 2_800 for number in range(4)}
        try:
            check_submission(JobRequest.model_validate(body).to_submission())
        except Rejected:
            continue
        found.append(body)
    return found


class Runner:
    """One node of the emulator with its supervisor, given one task after the other."""

    def __init__(self, web: Web, number: int) -> None:
        self._web, self._node = web, factories.node(supervisor=True)
        self._map = metadata_of(self._node.spec)
        self._name = create(web, f"n-{number}", SINGLE, **self._map)
        self._number, self._generation = number, 0

    def run(self, body: dict[str, Any]) -> tuple[Any, list[str], dict[str, str]]:
        """The submission, and the words and variables that the process received."""
        self._generation += 1
        submission = check_submission(JobRequest.model_validate(body).to_submission())
        job = build_job(submission, f"job-{self._number}-{self._generation}", "lab", NOON)
        job = replace(job, attempt=1)
        attempt = new_attempt(job, self._node, generation=self._generation, now=NOON)
        self._write(task_of(job, attempt, self._node, 0))
        command, environ = self._output(job.id)
        variables = dict(variable.split("=", 1) for variable in environ.split("\0")[:-1])
        return submission.spec, command.split("\0")[:-1], variables

    def _write(self, task: str) -> None:
        """Update the metadata as the service does; an operation may be open for a moment."""
        path, body = f"/v2/{self._name}?updateMask=metadata", {"metadata": self._map | {KEY: task}}
        self._until(lambda: self._web.ask("PATCH", path, body)[0] == 200)

    def _output(self, job_id: str) -> list[str]:
        """Both lines that the process printed, from Cloud Logging."""
        query = {"resourceNames": ["projects/lab"], "filter": f'labels.job="{job_id}"'}
        found: list[Any] = []

        def is_there() -> bool:
            told = self._web.ask("POST", "/v2/entries:list", query)[1].get("entries", [])
            found[:] = sorted(told, key=lambda entry: entry["timestamp"])
            return len(found) == 2

        self._until(is_there)
        return [base64.b64decode(entry["textPayload"]).decode() for entry in found]

    def _until(self, is_so: Any) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            console = serial(self._web, self._name)["lines"][-20:]
            assert time.monotonic() < deadline, console
            time.sleep(0.1)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The present and the temporary directory, both empty."""
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return here, temporary


@pytest.mark.deep
def test_what_is_submitted_reaches_the_process_unchanged_through_every_part(folders):
    here, temporary = folders
    bodies = draw_bodies(NODES * JOBS_EACH)
    assert sum(len(value.encode()) for value in bodies[0]["env"].values()) >= 100_000

    def run_all(number: int) -> list[Any]:
        runner = Runner(web, number)
        return [runner.run(body) for body in bodies[number::NODES]]

    digest = frozenset({script_digest()})
    with run_in_thread(build_world(speed=600), run_startup_scripts=digest) as emulator:
        web = Web(emulator.rest_url)
        before = {path.name for path in temporary.iterdir()}
        with ThreadPoolExecutor(NODES) as pool:
            received = [variable for found in pool.map(run_all, range(NODES)) for variable in found]
        new = {path.name for path in temporary.iterdir()} - before
        escaped = list(temporary.parent.rglob("escaped*"))
    for spec, words, variables in received:
        assert words == [*spec.command, *spec.args]
        ours = {name for name in variables if name.startswith("STEWARD_")}
        assert variables["STEWARD_WORKER"] == "0"
        assert {name: variables[name] for name in variables.keys() - ours} == dict(spec.env)
    assert len(received) == len(bodies)
    assert not escaped
    assert not list(here.iterdir())
    assert [name.rpartition("-")[0] for name in new] == ["tpu-emulator"], "its own directory alone"
