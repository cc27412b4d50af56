"""What a container receives is what was submitted: through the service's checks, the task in the
metadata, the supervisor, docker's command line, and into a real process. Two thousand times."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from service.domain.errors import Rejected
from service.domain.jobs.job import Job, JobSpec
from service.domain.jobs.submission import Submission, build_job, check_submission
from service.domain.jobs.task import task_of
from service.domain.jobs.transition import new_attempt
from tests import factories
from tests.emulator.docker import Docker
from tests.hands import NOON
from tests.supervisor.nasty import DIGESTS, NASTY, REGISTRIES, SHELLS, TAGS, VARIABLES

pytestmark = [
    pytest.mark.deep,
    pytest.mark.exhaustive,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc says what a process received"),
]

JOBS = 2_000
CHUNKS = 4
AT_ONCE = 10
MARK = "|-|"
SHOW = r"/bin/cat /proc/$$/cmdline; printf '\174-\174'; /bin/cat /proc/$$/environ; :"
"""Prints what the process received, whatever its arguments and variables are."""

TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from(NASTY[:-1]), min_size=2, max_size=4).map("".join),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40),
)
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,20}", fullmatch=True),
    st.sampled_from(VARIABLES),
).filter(lambda name: not name.startswith(("STEWARD_", "EMULATOR_")))
COMPONENT = st.from_regex(r"[a-z0-9]{1,9}((\.|_|__|-{1,2})[a-z0-9]{1,9}){0,2}", fullmatch=True)
IMAGES = st.builds(
    lambda registry, path, tag, digest: f"{registry}{'/'.join(path)}{tag}{digest}",
    st.sampled_from(REGISTRIES),
    st.lists(COMPONENT, min_size=1, max_size=3),
    st.sampled_from(TAGS),
    st.sampled_from(DIGESTS),
)


def split(image, words, cut, env):
    """A job whose words are divided into command and args anywhere; the first is a program."""
    return JobSpec(image, tuple(words[:cut]), tuple(words[cut:]), env)


SPECS = st.builds(
    split,
    IMAGES,
    st.builds(
        lambda shell, texts: [shell, "-c", SHOW, *texts],
        st.sampled_from(SHELLS),
        st.lists(TEXTS, max_size=6),
    ),
    st.integers(0, 9),
    st.dictionaries(NAMES, TEXTS, max_size=6),
)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_what_was_submitted_is_what_the_process_received(supervisor, tmp_path, chunk, monkeypatch):
    worker, elsewhere = Docker(tmp_path / "docker"), [tmp_path / "here", tmp_path / "tmp"]
    for folder in elsewhere:
        folder.mkdir()
    monkeypatch.chdir(elsewhere[0])
    monkeypatch.setenv("TMPDIR", str(elsewhere[1]))
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
        shown = json.loads(worker("inspect", task["name"]).out)[0]["Config"]
        assert not list(worker.root.glob("containers/*/work/*")), "the container wrote no file"
        worker("rm", "-f", task["name"])
        command, _, environ = written.partition(MARK)
        assert command.split("\0")[:-1] == [*spec.command, *spec.args]
        assert shown["Image"] == spec.image
        variables = dict(variable.split("=", 1) for variable in environ.split("\0")[:-1])
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
        for variable in [started(spec) for spec in specs]:
            check(*variable)

    live()
    assert count.jobs >= 0.9 * JOBS / CHUNKS
    assert {path.name for path in tmp_path.iterdir()} == {"docker", "here", "tmp"}
    assert [list(folder.iterdir()) for folder in elsewhere] == [[], []]
    assert {path.name for path in worker.root.iterdir()} <= {"containers", "names", "images"}
    assert not list(tmp_path.rglob("escaped*"))


def is_accepted(spec):
    """Whether it can be submitted: a few of what is drawn look like secrets."""
    try:
        check_submission(Submission(spec, node="n"))
    except Rejected:
        return False
    return True


def the_task(supervisor, spec, number):
    """The task as the supervisor reads it from the metadata."""
    node = factories.node()
    job = build_job(Submission(spec, node=node.name), f"job-{number}", "lab", NOON)
    job = Job(**{name: getattr(job, name) for name in job.__slots__} | {"attempt": 1})
    text = task_of(job, new_attempt(job, node, generation=1, now=NOON), node, 0)
    return supervisor.parse_task(json.loads(json.dumps(text)), 0)
