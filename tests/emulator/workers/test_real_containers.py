"""Containers whose command exists on this machine: it runs, as a process of the worker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.emulator.workers import path_shims
from service.emulator.workers.docker.log import PIECE, Bounds, Reader, Writer
from tests.emulator.docker import Docker, is_alive
from tests.emulator.worker_view import until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not all(map(shutil.which, ("bash", "env", "printf"))),
    reason="containers are ended with the means of Linux",
)

HOSTILE = [
    "plain",
    "two words",
    "quote'double\"back\\slash",
    "line\nfeed\r\n",
    "$(touch /tmp/never) `touch /tmp/never` ${HOME} ; rm -rf . | &",
    "--name=other",
    "-e",
    "--",
    "",
    "bytes \udcff\udcfe",
    "é漢\U0001f600",
    "*?[a]~",
]
# Says where it is, and leaves one process behind in a session of its own.
FORK = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        print("away", os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
print("first", os.getpid(), flush=True)
"""
DEAF = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", os.getpid(), flush=True)
time.sleep(1000)
"""


@pytest.fixture
def docker(tmp_path):
    docker = Docker(tmp_path / "worker" / "docker")
    yield docker
    docker.end()


def started(docker, *args, name="job"):
    said = docker("run", "--detach", "--name", name, *args)
    assert said.code == 0, said.err
    return said.out.strip()


def lines(docker, name="job"):
    return docker("logs", name).out.splitlines()


def pids(docker, count):
    """Wait until so many lines that end with a process id were written, and give the ids."""
    return until(
        lambda: len(found := lines(docker)) == count and [int(each.split()[1]) for each in found]
    )


def test_arguments_arrive_byte_for_byte(docker):
    started(docker, "image", "printf", r"%s\0", *HOSTILE)
    assert docker("wait", "job").out == "0\n"
    assert docker("logs", "job").out.removesuffix("\n").split("\0")[:-1] == HOSTILE


def test_an_entrypoint_stands_before_the_arguments_even_if_they_look_like_options(docker):
    started(docker, "--entrypoint", "printf", "image", r"%s\0", "--rm", "--entrypoint=sh")
    docker("wait", "job")
    assert docker("logs", "job").out == "--rm\0--entrypoint=sh\0\n"
    shown = json.loads(docker("inspect", "job").out)[0]
    assert (shown["Path"], shown["Args"][1:]) == ("printf", ["--rm", "--entrypoint=sh"])
    assert shown["Config"]["Entrypoint"] == ["printf"]


def test_the_environment_is_what_was_given_and_nothing_else(docker):
    values = {f"V{number}": value for number, value in enumerate(HOSTILE)}
    names = [part for name in values for part in ("--env", name)]
    said = docker(
        "run", "-d", "--name", "job", *names, "-e", "A=b=c", "image", "env", "-0", **values
    )
    assert said.code == 0, said.err
    docker("wait", "job")
    found = docker("logs", "job").out.removesuffix("\n").split("\0")[:-1]
    assert dict(each.split("=", 1) for each in found) == {**values, "A": "b=c"}
    started(docker, "image", "env", name="bare")
    assert docker("wait", "bare").out == "0\n"
    assert docker("logs", "bare").out == ""


def test_no_variable_of_a_container_changes_what_docker_itself_does(docker, tmp_path):
    path = tmp_path / "bin" / "docker"
    path.parent.mkdir()
    settings = {"EMULATOR_DOCKER": str(docker.root), "EMULATOR_BOOT": "1", "GCE_METADATA_HOST": ""}
    path_shims.install_docker(path, settings)
    hostile = {
        **dict.fromkeys(settings, str(tmp_path / "elsewhere")),
        "PATH": "/nowhere",
        "HOME": "/nowhere",
        "SHLVL": "5",
        "PWD": "/nowhere",
        "_": "x",
        "PYTHONHOME": "/nowhere",
        "PYTHONPATH": "/nowhere",
        "BASH_ENV": "/nowhere",
        "BASH_FUNC_true%%": "() { false; }",
        "a.b": "1",
        "IFS": ":",
        "LC_ALL": "de_DE",
        "BYTES": "\udcff",
    }
    names = [part for name in hostile for part in ("--env", name)]
    command = [str(path), "run", "--name", "job", *names, "image", "env", "-0"]
    told = subprocess.run(command, env=hostile, capture_output=True, check=True)
    found = told.stdout.removesuffix(b"\n").split(b"\0")[:-1]
    assert sorted(found) == sorted(os.fsencode(f"{k}={v}") for k, v in hostile.items())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["bin", "worker"]


def test_a_variable_without_a_name_is_refused(docker):
    said = docker("run", "-d", "-e", "=x", "image", "true")
    assert (said.code, "invalid environment variable: =x" in said.err) == (125, True)


def test_its_directory_is_empty_and_private_and_goes_with_it(docker):
    started(docker, "image", "bash", "-c", "pwd; ls -A; echo $$; cut -d' ' -f5,6 /proc/$$/stat")
    docker("wait", "job")
    where, pid, group = lines(docker)
    assert group == f"{pid} {pid}"
    assert Path(where).is_relative_to(docker.root)
    assert Path(where).stat().st_mode & 0o777 == 0o700
    docker("rm", "job")
    assert not Path(where).parent.exists()


def test_nothing_is_written_outside_of_the_worker_s_directory(docker, tmp_path):
    started(docker, "--mount", "type=bind,source=/a,target=/b", "image", "python3", "-c", "1")
    docker("wait", "job")
    docker("pull", "train:v1")
    docker("rm", "job")
    assert list(tmp_path.iterdir()) == [docker.root.parent]
    assert list(docker.root.parent.iterdir()) == [docker.root]


def test_python_is_the_one_that_runs_the_emulator(docker):
    text = "import sys; print(sys.version, sys.argv)"
    started(docker, "image", "python3", "-c", text, "a b")
    docker("wait", "job")
    assert docker("logs", "job").out == f"{sys.version} ['-c', 'a b']\n"
    assert docker("logs", "job").err == ""


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["true"], 0),
        (["false"], 1),
        (["bash", "-c", "exit 200"], 200),
        (["bash", "-c", "kill -SEGV $$"], 139),
        (["bash", "-c", "kill -ABRT $$"], 134),
    ],
)
def test_the_exit_code_is_its_own(docker, command, code):
    started(docker, "image", *command)
    assert docker("wait", "job").out == f"{code}\n"
    assert docker("inspect", "-f", "{{.State.ExitCode}}", "job").out == f"{code}\n"


def test_what_cannot_be_run_was_created_and_never_started(docker, tmp_path):
    (tmp_path / "text").write_text("no program")
    said = docker("run", "-d", "--name", "job", "image", str(tmp_path / "text"))
    assert (said.code, 'text": permission denied: unknown' in said.err) == (126, True)
    assert docker("ps", "-a", "--format", "{{.State}}").out == "created\n"
    assert docker("inspect", "-f", "{{.State.ExitCode}}", "job").out == "126\n"


def test_what_does_not_exist_here_is_played_and_so_is_what_asks_for_it(docker):
    docker("run", "--name", "absent", "train:0s-exit-3", "/no/such/program")
    docker("run", "--name", "asked", "-e", "EMULATOR_PLAY=1", "train:0s-exit-4", "false")
    assert docker("wait", "absent", "asked").out == "3\n4\n"


def test_a_signal_reaches_the_first_process(docker):
    started(docker, "image", "bash", "-c", "trap 'echo term; exit 7' TERM; echo up; sleep 9 & wait")
    until(lambda: lines(docker) == ["up"])
    docker("kill", "--signal", "TERM", "job")
    assert docker("wait", "job").out == "7\n"
    assert lines(docker) == ["up", "term"]


@pytest.mark.parametrize("command", [["kill"], ["rm", "-f"], ["stop", "-t", "0.05"]])
def test_a_process_that_ignores_sigterm_is_killed(docker, command):
    started(docker, "image", "python3", "-c", DEAF)
    [pid] = pids(docker, 1)
    docker("kill", "-s", "TERM", "job")
    assert is_alive(pid)
    docker(*command, "job")
    until(lambda: not is_alive(pid))
    if command != ["rm", "-f"]:
        assert docker("wait", "job").out == "137\n"


def test_the_end_of_the_first_process_is_the_end_of_those_that_ran_away(docker):
    started(docker, "image", "python3", "-c", FORK)
    assert docker("wait", "job").out == "0\n"
    found = [int(line.split()[1]) for line in lines(docker)]
    assert not [pid for pid in found if is_alive(pid)]


@pytest.mark.parametrize(
    ("given", "name"), [(["python3", "-c", f"{FORK}\ntime.sleep(1000)"], "real"), ([], "played")]
)
def test_removing_a_container_ends_those_that_ran_away(docker, given, name):
    args = ["-e", "EMULATOR_FORK=1"] if name == "played" else []
    started(docker, *args, "image:1h", *given)
    first = int(docker("inspect", "-f", "{{.State.Pid}}", "job").out)
    shim = _parent(first)
    below = until(lambda: len(found := _below(shim)) == 2 and found)
    docker("rm", "-f", "job")
    until(lambda: not [pid for pid in [shim, *below] if is_alive(pid)])


def test_a_process_does_not_outlive_the_one_that_looks_after_it(docker):
    started(docker, "image", "sleep", "1000")
    pid = int(docker("inspect", "-f", "{{.State.Pid}}", "job").out)
    os.kill(_parent(pid), 9)
    until(lambda: not is_alive(pid))
    assert docker("wait", "job").out == "137\n"


def test_output_is_kept_line_by_line_with_its_time_to_the_nanosecond(docker):
    text = r"printf 'one\ntwo\n\377\000bytes\nno end'; printf 'error\n' >&2"
    started(docker, "image", "bash", "-c", text)
    docker("wait", "job")
    said = docker("logs", "--timestamps", "job")
    stamped = [line.split(" ", 1) for line in said.out.splitlines()]
    assert [text for _, text in stamped] == ["one", "two", "\udcff\0bytes", "no end"]
    stamps = [stamp for stamp, _ in stamped]
    assert all(re.fullmatch(r"[-\d]{10}T[:\d]{8}\.\d{9}Z", stamp) for stamp in stamps)
    assert stamps == sorted(set(stamps))
    assert said.err.endswith("Z error\n")
    assert docker("logs", "--since", stamps[2], "job").out.splitlines() == [
        text for _, text in stamped[2:]
    ]
    assert docker("logs", "--until", stamps[0], "job").out == "one\n"
    assert docker("logs", "--since", "1h", "--tail", "2", "job").out.endswith("no end\n")


def test_a_long_line_comes_in_pieces_each_with_the_time_of_the_first(docker):
    started(docker, "image", "bash", "-c", f"printf '%{2 * PIECE + 5}s\\nnext\\n' x")
    docker("wait", "job")
    assert docker("logs", "job").out == f"{'x':>{2 * PIECE + 5}}\nnext\n"
    first = docker("logs", "--timestamps", "job").out.splitlines()[0]
    [stamp] = set(re.findall(r"\S+Z ", first))
    assert first.count(stamp) == 3


def test_a_log_is_followed_to_its_end_over_files_that_were_replaced(docker):
    options = ("--log-opt", "max-size=2k", "--log-opt", "max-file=3")
    started(docker, *options, "image", "bash", "-c", "for ((i=0; i<2000; i++)); do echo $i; done")
    docker("wait", "job")
    [directory] = (docker.root / "containers").iterdir()
    assert sorted(each.name for each in directory.glob("log*")) == ["log", "log.1", "log.2"]
    assert max(each.stat().st_size for each in directory.glob("log*")) < 2_048 + 100
    assert lines(docker)[-1] == "1999"


def test_a_flood_stays_within_the_bounds_of_its_log(docker):
    options = ("--log-opt", "max-size=100k", "--log-opt", "max-file=2")
    started(docker, *options, "image", "python3", "-uc", "while True: print('x' * 70000)")
    [directory] = (docker.root / "containers").iterdir()
    until((directory / "log.1").exists)
    end = time.monotonic() + 0.3
    while time.monotonic() < end:
        assert _size(directory) < 4 * 100_000
    docker("kill", "job")
    assert docker("wait", "job").out == "137\n"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--log-opt", "max-size=big"], "invalid size: 'big'"),
        (["--log-opt", "max-size=1m", "--log-opt", "max-file=0"], "max-file cannot be less than 1"),
        (["--mount", "type=bind,source=/a"], "target is required"),
        (["--ulimit", "memlock=x"], "invalid ulimit argument"),
        (["--shm-size", "much"], "invalid size: 'much'"),
    ],
)
def test_options_that_docker_refuses_are_refused(docker, options, text):
    said = docker("run", "-d", *options, "image", "true")
    assert (said.code, text in said.err) == (125, True), said.err
    assert docker("ps", "-aq").out == ""


def test_options_are_shown_by_inspect(docker):
    started(
        docker,
        *("--network", "host", "--privileged", "--shm-size", "16g", "--ulimit", "memlock=-1:-1"),
        *("--mount", "type=bind,source=/mnt/a,target=/a,readonly", "--device", "/dev/vfio/0"),
        *("--label", "steward-attempt=a-1", "--log-opt", "max-size=50m", "image", "true"),
    )
    docker("wait", "job")
    [shown] = json.loads(docker("inspect", "job").out)
    host = shown["HostConfig"]
    assert (host["NetworkMode"], host["Privileged"], host["ShmSize"]) == ("host", True, 16 << 30)
    assert host["Ulimits"] == [{"Name": "memlock", "Hard": -1, "Soft": -1}]
    assert host["Devices"][0]["PathOnHost"] == "/dev/vfio/0"
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": "50m"}}
    assert (shown["Mounts"][0]["Source"], shown["Mounts"][0]["RW"]) == ("/mnt/a", False)
    labelled = ("ps", "-a", "--filter", "label=steward-attempt=a-1", "--format")
    assert docker(*labelled, '{{.Names}} {{.Label "steward-attempt"}}').out == "job a-1\n"
    devices = "{{range .HostConfig.Devices}}{{.PathOnHost}};{{end}} {{len .Mounts}}"
    assert docker("inspect", "-f", devices, "job").out == "/dev/vfio/0; 1\n"


def test_an_image_has_the_digest_that_it_was_pulled_by(docker):
    digest = f"us-docker.pkg.dev/p/r/i@sha256:{'a' * 64}"
    assert docker("pull", digest).code == 0
    template = ("image", "inspect", "--format", "{{index .RepoDigests 0}}")
    assert docker(*template, digest).out == f"{digest}\n"
    docker("pull", "host/i:v1")
    assert re.fullmatch(r"host/i@sha256:[0-9a-f]{64}\n", docker(*template, "host/i:v1").out)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("host/p/noimage:v1", "manifest unknown"),
        ("host/p/i:denied", "pull access denied for host/p/i"),
        (f"host/nopull/i@sha256:{'a' * 64}", "503 Service Unavailable"),
        ("host/p/i-nospace:v1", "no space left on device"),
    ],
)
def test_a_pull_fails_as_its_name_says(docker, name, text):
    said = docker("pull", name)
    assert (said.code, text in said.err) == (1, True), said.err


def test_a_pull_takes_as_long_as_its_name_says(docker):
    began = time.monotonic()
    assert docker("pull", "host/slowpull-0.2s/i").code == 0
    assert time.monotonic() - began >= 0.2


def test_a_reader_loses_nothing_that_is_still_kept(tmp_path):
    writer = Writer(tmp_path / "log", Bounds(size=100, files=2))
    reader = Reader(tmp_path / "log")
    found = []
    for number in range(50):
        writer.write_output("o", b"%d\n" % number)
        found += [int(entry.text) for entry in reader.read_entries()]
    writer.close()
    reader.close()
    assert found == list(range(50))


def test_a_container_can_run_out_of_memory_and_need_more_rights(docker):
    docker("run", "--name", "memory", "-e", "EMULATOR_OUT_OF_MEMORY=1", "train:0s")
    template = ("inspect", "-f", "{{.State.OOMKilled}} {{.State.ExitCode}}")
    assert docker(*template, "memory").out == "true 137\n"
    rights = ("-e", "EMULATOR_NEEDS_PRIVILEGED=1", "train:0s")
    assert docker("run", *rights).code == 1
    assert docker("run", "--privileged", *rights).code == 0


def test_a_chip_is_held_after_the_end(docker, tmp_path):
    chip = tmp_path / "devices" / "vfio" / "0"
    chip.parent.mkdir(parents=True)
    chip.touch()
    devices = {"EMULATOR_DEVICES": str(tmp_path / "devices")}
    held = ("-e", "EMULATOR_HOLD_DEVICE_SECONDS=1000")
    docker("run", "-d", "--name", "job", *held, "image", "true", **devices)
    assert docker("wait", "job").out == "0\n"
    docker("rm", "-f", "job")
    [holder] = _holders(chip)
    os.kill(holder, 9)
    until(lambda: not _holders(chip))


def test_a_log_grows_by_so_many_bytes_a_second(docker):
    docker("run", "--name", "job", "-e", "EMULATOR_LOG_BYTES_PER_SECOND=1000000", "train:0.3s")
    assert 100_000 < len(docker("logs", "job").out) < 400_000


def _parent(pid):
    found = re.search(r"PPid:\t(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1])


def _below(shim):
    """List the processes of a container: those that ran away are its children as well."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal() and is_alive(int(each.name)):
            try:
                parent = _parent(each.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if parent == shim:
                found.append(int(each.name))
    return found


def _holders(path):
    found = []
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if each.readlink() == path:
                found.append(int(each.parts[2]))
        except OSError:
            continue
    return found


def _size(directory):
    total = 0
    for each in directory.glob("log*"):
        try:
            total += each.stat().st_size
        except FileNotFoundError:
            continue
    return total


def test_a_small_disk_refuses_what_is_too_large_and_keeps_the_rest(docker):
    fill = "echo kept >small; printf 0123456789 >big || echo $?; cat small; wc -c <big"
    said = docker("run", "-e", "EMULATOR_DISK_BYTES=8", "image", "bash", "-c", fill)
    assert said.out.split() == ["1", "kept", "8"]
    assert "File too large" in said.err
    assert docker("run", "image", "bash", "-c", fill).out.split() == ["kept", "10"]
