"""What a container receives is what was submitted: through the service's checks, the task in the
metadata, the supervisor, docker's command line, and into a real process. Two thousand times."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from service.domain.errors import Rejected
from service.domain.jobs.job import Job, JobSpec
from service.domain.jobs.submission import Submission, checked, submitted
from service.domain.jobs.task import task_of
from service.domain.jobs.transition import new_attempt
from tests import factories
from tests.emulator.docker import Docker
from tests.hands import NOON

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc says what a process received"),
]

JOBS = 2_000
CHUNKS = 4
AT_ONCE = 10
MARK = "|-|"
SHOW = r"/bin/cat /proc/$$/cmdline; printf '\174-\174'; /bin/cat /proc/$$/environ; :"
"""Prints what the process received, whatever its arguments and variables are."""

NASTY = [
    "--privileged",
    "-v=/:/host",
    "--",
    "",
    " ",
    "a b",
    "'",
    '"',
    "\\",
    "$(touch escaped)",
    "`touch escaped`",
    "; touch escaped",
    "| tee escaped",
    "> escaped",
    "a\nb",
    "\r\n",
    "\t",
    "é漢\U0001f600",
    "\u202e\ufeff",
    "%s%n",
    "*",
    "{a,b}",
    "=",
    "A=B",
    "\x7f\x1b[2J",
    "x" * 20_000,
]
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY[:-1]), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
)
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True),
    st.sampled_from(["PATH", "HOME", "DOCKER_HOST", "LD_LIBRARY_PATH", "IFS"]),
).filter(lambda name: not name.startswith(("STEWARD_", "EMULATOR_")))
SPECS = st.builds(
    lambda texts, env: JobSpec("lab/train:7", ("bash", "-c", SHOW), tuple(texts), env),
    st.lists(TEXTS, max_size=6),
    st.dictionaries(NAMES, TEXTS, max_size=6),
)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_was_submitted_is_what_the_process_received(supervisor, tmp_path, chunk):
    worker = Docker(tmp_path / "docker")
    count = SimpleNamespace(jobs=0)

    def started(spec):
        count.jobs += 1
        task = the_task(supervisor, spec, f"{chunk}-{count.jobs}")
        said = worker(*supervisor.build_run(task, "device", [], 0))
        assert said.code == 0, said.err
        return spec, task

    def check(spec, task):
        assert worker("wait", task["name"]).out == "0\n"
        written = worker("logs", task["name"]).out.removesuffix("\n")
        worker("rm", "-f", task["name"])
        command, _, environ = written.partition(MARK)
        assert command.split("\0")[:-1] == ["bash", "-c", SHOW, *spec.args]
        variables = dict(one.split("=", 1) for one in environ.split("\0")[:-1])
        assert variables == task["container"]["env"] | {"STEWARD_WORKER": "0"}
        assert {name: variables[name] for name in spec.env} == dict(spec.env)

    @settings(
        max_examples=JOBS // CHUNKS // AT_ONCE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(SPECS.filter(is_accepted), min_size=AT_ONCE, max_size=AT_ONCE))
    def live(specs):
        for one in [started(spec) for spec in specs]:
            check(*one)

    live()
    assert count.jobs >= 0.9 * JOBS / CHUNKS
    assert {path.name for path in tmp_path.iterdir()} == {"docker"}
    assert not list(Path(tmp_path).rglob("escaped*"))


def is_accepted(spec):
    """Whether it can be submitted: a few of what is drawn look like secrets."""
    try:
        checked(Submission(spec, node="n"))
    except Rejected:
        return False
    return True


def the_task(supervisor, spec, number):
    """The task as the supervisor reads it from the metadata."""
    node = factories.node()
    job = submitted(Submission(spec, node=node.name), f"job-{number}", "lab", NOON)
    job = Job(**{name: getattr(job, name) for name in job.__slots__} | {"attempt": 1})
    text = task_of(job, new_attempt(job, node, generation=1, now=NOON), node, 0)
    return supervisor.parse_task(json.loads(json.dumps(text)), 0)
