"""The stand-in for docker on a worker's path: what it takes, what it plays, and what it answers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from service.emulator.app import build_world, run_in_thread
from service.emulator.workers.docker.containers import Container
from service.emulator.workers.docker.formats import format_age
from service.emulator.workers.docker.images import image_of, plan_pull
from service.emulator.workers.docker.plan import ContainerPlan, plan_of
from service.emulator.workers.path_shims import python_command
from tests.emulator.docker import Docker
from tests.emulator.factories import Web
from tests.emulator.worker_view import SINGLE, create, port, until


@pytest.fixture
def docker(tmp_path):
    docker = Docker(tmp_path / "docker")
    yield docker
    docker.end()


def container(image="emulator/train:v1", command=(), **env):
    return Container("0" * 64, "name", image, list(command), env, {}, 0.0, "1")


@pytest.mark.parametrize(
    ("image", "command", "env", "expected"),
    [
        ("train:v1", [], {}, {"seconds": 60, "exit_code": 0, "duty_cycle": 90, "lines": 6}),
        ("emulator/train:90s", [], {}, {"seconds": 90}),
        ("train:2m-busy-70-exit-3", [], {}, {"seconds": 120, "duty_cycle": 70, "exit_code": 3}),
        ("train:1h-idle", [], {}, {"seconds": 3600, "duty_cycle": 0, "tensorcore": 0}),
        ("host:5000/train", [], {}, {"seconds": 60}),
        (
            "train:90s",
            [],
            {"EMULATOR_DURATION_SECONDS": "5", "EMULATOR_EXIT_CODE": "9"},
            {"seconds": 5, "exit_code": 9},
        ),
        ("train", [], {"EMULATOR_LOG_LINES": "3"}, {"lines": 3, "every": 20}),
        ("train", [], {"EMULATOR_LOG_EVERY_SECONDS": "15"}, {"lines": 4, "every": 15}),
        ("train", [], {"EMULATOR_DUTY_CYCLE": "250"}, {"duty_cycle": 100}),
        ("train", [], {"EMULATOR_IGNORE_SIGTERM": "1"}, {"deaf": True}),
        ("alpine", ["sleep", "7"], {}, {"duty_cycle": 0}),
        ("train", [], {"EMULATOR_STEPS": "9"}, {"steps": 9, "step_seconds": 1}),
    ],
)
def test_a_plan_is_read_off_image_command_and_environment(image, command, env, expected):
    plan = plan_of(container(image, command, **env))
    assert plan == replace(plan, **expected)
    assert isinstance(plan, ContainerPlan)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_an_environment_that_makes_no_sense_is_named(text):
    with pytest.raises(ValueError, match="EMULATOR_DURATION_SECONDS must be a number"):
        plan_of(container(EMULATOR_DURATION_SECONDS=text))


def test_a_container_writes_its_lines_and_gives_its_exit_code(docker):
    said = docker(
        *("run", "--rm", "--privileged", "--net=host", "--shm-size", "16G", "-it"),
        *("-v", "/a:/b", "--device=/dev/vfio", "--ulimit", "memlock=1:1", "--log-driver=gcplogs"),
        *("-e", "EMULATOR_LOG_LINES=2", "emulator/train:0.05s-exit-3", "train", "--fast"),
    )
    assert (said.code, said.out.splitlines()) == (
        3,
        ["train:0.05s-exit-3: line 1 of 2", "train:0.05s-exit-3: line 2 of 2"],
    )
    assert said.err.startswith("Unable to find image 'emulator/train:0.05s-exit-3' locally\n")
    assert docker("ps", "-aq").out == ""


def test_a_container_in_the_background_is_seen_by_later_commands(docker):
    started = docker("run", "-d", "--name", "job", "-l", "team=a", "emulator/train:100s")
    assert re.fullmatch(r"[0-9a-f]{64}\n", started.out)
    assert docker("ps", "-q", "--no-trunc").out == started.out
    row = docker("ps", "--format", "{{.Names}}|{{.Image}}|{{.State}}|{{.Labels}}").out
    assert row == "job|emulator/train:100s|running|team=a\n"
    assert docker("ps", "--filter", "label=team=b", "-q").out == ""
    assert docker("ps").out.splitlines()[0].split() == [
        *("CONTAINER", "ID", "IMAGE", "COMMAND", "CREATED", "STATUS", "PORTS", "NAMES")
    ]
    assert docker("exec", "job", "nvidia-smi").code == 0
    assert docker("rm", "job").code == 1
    assert docker("rm", "-f", "job").out == "job\n"
    assert docker("ps", "-a", "-q").out == ""


def test_wait_gives_the_exit_code_and_logs_what_was_written(docker):
    docker("run", "-d", "--name", "job", "-e", "EMULATOR_LOG_LINES=3", "train:0.1s-exit-7")
    followed = docker("logs", "-f", "job")
    assert docker("wait", "job").out == "7\n"
    assert followed.out.count("\n") == 3
    assert docker("logs", "--tail", "1", "job").out == "train:0.1s-exit-7: line 3 of 3\n"
    assert docker("ps", "-a", "--format", "{{.Status}}").out.startswith("Exited (7) ")


def test_inspect_tells_all_or_what_a_template_asks(docker):
    docker("run", "--name", "job", "-e", "A=1", "-l", "team=a", "train:0s-exit-2")
    state = "{{.State.Status}} {{.State.ExitCode}} {{.State.Running}}"
    labels = '{{json .Config.Labels}} {{index .Config.Labels "team"}}'
    said = docker("inspect", "-f", f"{state} {labels}", "job")
    assert said.out == 'exited 2 false {"team":"a"} a\n'
    [document] = json.loads(docker("container", "inspect", "job").out)
    assert (document["Name"], document["Config"]["Env"]) == ("/job", ["A=1"])
    assert docker("inspect", "-f", "{{.State.Mood}}", "job").code == 1
    nothing = docker("inspect", "none")
    assert (nothing.code, nothing.out, nothing.err) == (
        1,
        "[]\n",
        "Error: No such object: none\n",
    )


@pytest.mark.parametrize(
    ("said", "seconds"),
    [(None, 9), ("", 9), ("0", 0), ("3", 3), ("inf", 9), ("soon", 9), ("-5", 9), ("1e300", 9)],
)
def test_the_environment_goes_before_the_tag_of_a_slow_pull(said, seconds):
    env = {} if said is None else {"EMULATOR_PULL_SECONDS": said}
    assert plan_pull(image_of("train:slowpull-9s"), env, {}).seconds == seconds


@pytest.mark.parametrize(("said", "fails"), [(None, "denied"), ("0", ""), ("1", "missing")])
def test_the_environment_goes_before_the_name_of_a_pull_that_fails(said, fails):
    env = {} if said is None else {"EMULATOR_PULL_FAILS": said}
    assert plan_pull(image_of("denied:v1"), env, {}).fails == fails
    assert plan_pull(image_of("denied:v1"), env, {"pull_fails": "mine"}).fails == "mine"


@pytest.mark.parametrize(
    ("env", "grace", "code"),
    [
        ("EMULATOR_STOP_SECONDS=0.01", "10", "143\n"),
        ("EMULATOR_STOP_SECONDS=0.3", "-1", "143\n"),
        ("EMULATOR_STOP_CODE=0", "10", "0\n"),
        ("EMULATOR_IGNORE_SIGTERM=1", "0.05", "137\n"),
    ],
)
def test_a_container_is_asked_to_stop_and_then_killed(docker, env, grace, code):
    docker("run", "-d", "--name", "job", "-e", env, "train:100s")
    assert docker("stop", "-t", grace, "job").out == "job\n"
    assert docker("wait", "job").out == code


def test_a_signal_to_docker_itself_is_passed_on(docker):
    with docker.started("run", "--name", "job", "train:100s") as process:
        until(lambda: docker("ps", "-q").out)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == 143


def test_kill_sends_any_signal_to_what_runs(docker):
    docker("run", "-d", "--name", "job", "train:100s")
    assert docker("kill", "-s", "INT", "job").code == 0
    assert docker("wait", "job").out == "130\n"
    assert "is not running" in docker("kill", "job").err
    assert "Invalid signal: DANCE" in docker("kill", "-s", "DANCE", "job").err


def test_a_container_whose_process_was_shot_counts_as_killed(docker):
    docker("run", "-d", "--name", "job", "train:100s")
    pid = int(docker("inspect", "-f", "{{.State.Pid}}", "job").out)
    os.kill(pid, signal.SIGKILL)
    assert until(lambda: docker("ps", "-a", "--format", "{{.State}}").out == "exited\n")
    assert docker("wait", "job").out == "137\n"


def test_no_container_lives_through_a_reboot_though_it_is_still_listed(docker):
    docker("run", "-d", "--name", "job", "train:100s")
    pid = int(docker("inspect", "-f", "{{.State.Pid}}", "job").out)
    try:
        after = replace(docker, boot="2")
        assert after("ps", "-q").out == ""
        assert after("inspect", "-f", "{{.State.ExitCode}}", "job").out == "137\n"
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_name_is_taken_until_its_container_is_removed(docker):
    docker("run", "--name", "job", "train:0s")
    taken = docker("run", "--name", "job", "train:0s")
    assert taken.code == 125
    assert taken.err.startswith(
        'docker: Error response from daemon: Conflict. The container name "/job" is already in use'
    )
    docker("rm", "job")
    assert docker("run", "--name", "job", "train:0s").code == 0


def test_the_environment_comes_from_files_and_from_here_too(docker, tmp_path):
    file = tmp_path / "env"
    file.write_text("# no\nA=1\nB=2\n")
    args = ("--env-file", str(file), "-e", "B=3", "-e", "HERE", "-e", "NOWHERE")
    docker("run", "--name", "job", *args, "train:0s", HERE="yes")
    shown = docker("inspect", "-f", "{{json .Config.Env}}", "job")
    assert json.loads(shown.out) == ["A=1", "B=3", "HERE=yes"]
    missing = docker("run", "--env-file", str(tmp_path / "none"), "train:0s")
    assert (missing.code, "no such file or directory" in missing.err) == (125, True)


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (["dance"], 1, "docker: 'dance' is not a docker command.\nSee 'docker --help'\n"),
        (["build", "."], 1, "does not play 'docker build'"),
        (["run"], 1, '"docker run" requires at least 1 argument.'),
        (["run", "--dance", "x"], 125, "unknown flag: --dance\nSee 'docker run --help'.\n"),
        (["run", "-Z", "x"], 125, "unknown shorthand flag: 'Z' in -Z"),
        (["run", "--name"], 125, "flag needs an argument: --name"),
        (["run", "Train"], 125, "repository name (Train) must be lowercase"),
        (["run", "gcr.io/lab/missing:1"], 125, "gcr.io/lab/missing:1 not found: manifest unknown"),
        (["pull", "gcr.io/lab/missing:1"], 1, "gcr.io/lab/missing:1 not found: manifest unknown"),
        (["pull", "gcr.io/denied/x"], 1, "pull access denied for gcr.io/denied/x"),
        (["pull"], 1, '"docker pull" requires exactly 1 argument.'),
        (["run", "--name", "a/b", "x"], 125, "Invalid container name (a/b)"),
        (["logs", "none"], 1, "Error response from daemon: No such container: none"),
        (["ps", "--filter", "mood=good"], 1, "invalid filter 'mood'"),
    ],
)
def test_what_cannot_be_is_refused_as_docker_does(docker, args, code, text):
    said = docker(*args)
    assert said.code == code
    assert text in said.err


def test_a_pull_can_be_made_to_fail(docker):
    said = docker("pull", "train:v1", EMULATOR_PULL_FAILS="the registry is down")
    assert (said.code, said.err) == (1, "Error response from daemon: the registry is down\n")
    assert docker("image", "inspect", "train:v1").code == 1
    assert docker("pull", "train:v1").out.endswith("docker.io/library/train:v1\n")
    assert docker("image", "inspect", "-f", "{{.Os}}", "train:v1").out == "linux\n"


def test_outside_a_worker_there_is_no_daemon(tmp_path):
    with subprocess.Popen(
        [*python_command("docker.cli"), "ps"], env={}, stderr=subprocess.PIPE, text=True
    ) as process:
        _, err = process.communicate()
    assert err.startswith("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    assert process.returncode == 1


def test_the_rest_of_a_login_script_goes_on(docker):
    said = docker("login", "-u", "a", "--password-stdin", "r.io", PASSWORD="from standard input")
    assert said.out == "Login Succeeded\n"
    assert docker("version", "--format", "{{.Server.Version}}").code == 0
    assert "Server Version" in docker("info").out
    assert docker("--version").out.startswith("Docker version")


def test_while_a_container_runs_its_worker_s_chips_are_busy(tmp_path):
    with run_in_thread(build_world(speed=60)) as emulator:
        web = Web(emulator.rest_url)
        name = create(web, "busy", SINGLE)
        address = port(web, name).url.removeprefix("http://")
        docker = Docker(tmp_path / "docker", extra=(("GCE_METADATA_HOST", address),))

        def activity():
            [node] = web.ask("GET", "/_emulator/state")[1]["nodes"]
            [part] = node["activity"]["parts"]
            return part["worker"], part["duty_cycle"], part["tensorcore"]

        docker("run", "-d", "--name", "long", "-e", "EMULATOR_TENSORCORE=20", "train:1h-busy-75")
        assert activity() == (0, 75.0, 20.0)
        docker("run", "train:30s-busy-95")
        late = time.monotonic() + 10  # the end of the second one is reported a moment later
        while activity()[1] != 75.0 and time.monotonic() < late:
            time.sleep(0.05)
        assert activity() in {(0, 75.0, 45.0), (0, 75.0, 20.0)}
        docker("kill", "long")
        assert activity() == (0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("reference", "name", "tag"),
    [
        ("train", "train", "latest"),
        ("host:5000/a/train", "host:5000/a/train", "latest"),
        ("us-docker.pkg.dev/lab/x/train:v1.2", "us-docker.pkg.dev/lab/x/train", "v1.2"),
        (f"train@sha256:{'a' * 64}", "train", "latest"),
    ],
)
def test_an_image_is_named_by_its_registry_its_path_and_its_tag(reference, name, tag):
    image = image_of(reference)
    assert (image.name, image.tag) == (name, tag)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "Less than a second"),
        (1, "1 second"),
        (90, "About a minute"),
        (600, "10 minutes"),
        (5000, "About an hour"),
        (90_000, "25 hours"),
        (300_000, "3 days"),
    ],
)
def test_an_age_is_said_as_docker_says_it(seconds, text):
    assert format_age(seconds) == text
