"""What nobody foresaw: a plain sentence that says whose fault it is, and an exit code."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.cli.nodes import nodes
from tests.cli.given import ID, node, page, steward

NOT_FOUND = {"type": "urn:tpu-steward:problem:not-found", "detail": "Not Found", "status": 404}


def shell(line: str, *arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    """What a shell says of a line in which `"$@"` is the command."""
    command = (sys.executable, "-m", "service.cli", *arguments)
    return subprocess.run(
        ["bash", "-c", line, "bash", *command],
        env={
            **os.environ,
            "PYTHONUNBUFFERED": "",
            "STEWARD_URL": url,
            "PYTHONPATH": str(Path(__file__).parents[3]),
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_what_the_service_says_and_we_do_not_understand_is_a_fault_of_ours(api):
    api.when("GET", "/v1/nodes", page({"name": "trainer"}))
    api.when("GET", "/v1", NOT_FOUND, status=404)
    result = steward("nodes", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    failed, whose = result.stderr.splitlines()
    assert failed.startswith(
        "tpu-steward nodes list failed: KeyError: 'state' (cli/nodes/node_output.py,"
    )
    assert whose.startswith("this is a bug, unless the service has another")


def test_a_fault_before_anybody_is_asked_is_one_of_ours(monkeypatch):
    def broken(*_: object) -> None:
        raise RuntimeError("oh dear")

    monkeypatch.setattr(nodes, "open_client", broken)
    result = steward("nodes", "show", ID, STEWARD_URL="http://127.0.0.1:9")
    assert result.exit_code == 1
    assert result.stderr.startswith("tpu-steward nodes show failed: RuntimeError: oh dear (")


def test_what_the_system_refuses_is_told_as_it_says_it(monkeypatch):
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(nodes, "open_client", broken)
    result = steward("nodes", "show", ID)
    line = "tpu-steward nodes show failed: [Errno 5] Input/output error\n"
    assert (result.exit_code, result.stderr) == (1, line)


@pytest.mark.parametrize(
    "arguments", [("nodes", "list"), ("nodes", "list", "--json"), ("--help",), ("nodes", "--help")]
)
def test_a_full_disk_is_told(api, arguments):
    api.when("GET", "/v1/nodes", page(node()))
    ended = shell('"$@" > /dev/full', *arguments, url=api.url)
    line = "the output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, line)


def test_a_file_that_finds_no_room_is_told(api):
    api.media_type = "text/csv"
    api.when("GET", "/v1/exports/focus", "a,b\r\n" * 100_000)
    ended = shell('"$@" > /dev/full', "costs", "export", url=api.url)
    line = "the output cannot be written: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, line)


@pytest.mark.parametrize(
    "arguments", [("nodes", "delete", ID), ("nodes", "list"), ("costs", "export")]
)
def test_where_nothing_can_be_told_nothing_is_done(api, arguments):
    ended = shell('"$@" >&-', *arguments, url=api.url)
    line = "there is no standard output to write to\n"
    assert (ended.returncode, ended.stderr) == (1, line)
    assert not api.calls


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full"])
def test_a_failure_that_cannot_be_told_is_one_all_the_same(api, where):
    api.when("GET", "/v1/nodes", page())
    ended = shell(f'"$@" {where}', "nodes", "show", "trainer", url=api.url)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


@pytest.mark.deep
def test_a_reader_that_has_read_enough_is_no_failure_of_ours(api):
    some = (node(name=f"trainer-{number}") for number in range(1_500))
    api.when("GET", "/v1/nodes", page(*some))
    line = 'set -o pipefail; "$@" | head -1; echo "${PIPESTATUS[0]}"'
    ended = shell(line, "nodes", "list", url=api.url)
    assert ended.stdout.splitlines()[0].startswith("NAME")
    assert ended.stdout.splitlines()[1] == "1"
    assert ended.stderr == ""


def test_an_alphabet_without_a_letter_is_no_failure(api):
    api.when("GET", "/v1/nodes", page(node(team="視覚")))
    ended = shell('PYTHONIOENCODING=latin-1 "$@"', "nodes", "list", url=api.url)
    assert ended.returncode == 0
    assert "\\u8996\\u899a" in ended.stdout


def test_bytes_that_are_no_text_are_told_from_a_real_shell(api):
    ended = shell("\"$@\" $'\\xff'", "nodes", "show", url=api.url)
    assert ended.returncode == 2
    assert "'\\udcff' is not UTF-8 text" in ended.stderr
