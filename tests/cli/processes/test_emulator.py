"""The emulator's command: how it points clients at itself, and what it refuses in a line or two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.given import program
from tests.ports import free_port

SCENARIO = "[config]\nstrict_runtimes = true\n"


def ended(*arguments: str, folder) -> tuple[int, str]:
    with program("emulator", *arguments, folder=folder) as process:
        out, err = process.communicate(timeout=20)
    assert out == ""
    return process.returncode, err


def said(process) -> str:
    """What it prints until it has said how to end it."""
    lines: list[str] = []
    while not lines or "Ctrl-C" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    return "".join(lines)


@pytest.mark.deep
def test_it_says_how_each_client_finds_it_and_plays_a_scenario(tmp_path):
    (tmp_path / "day.toml").write_text(SCENARIO)
    grpc, rest = free_port(), free_port()
    ports = ("--grpc-port", str(grpc), "--rest-port", str(rest), "--scenario", "day.toml")
    with program("emulator", *ports, folder=tmp_path) as process:
        text = said(process)
        with urllib.request.urlopen(f"http://127.0.0.1:{rest}/_emulator/config") as answer:
            config = json.load(answer)
        process.terminate()
    assert config["strict_runtimes"]
    for way in (
        f"CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU=http://127.0.0.1:{rest}/",
        f'grpc.insecure_channel("127.0.0.1:{grpc}")',
        f'client_options={{"api_endpoint": "http://127.0.0.1:{rest}"}}',
        'discovery.build("tpu", "v2"',
        f'tpu_v2_custom_endpoint = "http://127.0.0.1:{rest}/v2/"',
        f"STEWARD_EMULATOR=127.0.0.1:{grpc}",
    ):
        assert way in text


@pytest.mark.deep
@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("[[step]]\nat = ", "day.toml: Invalid value"),
        ("[[step]]\nexplode = {}", "step 1 must say one thing to do, of: config, fault"),
        ("[config]\nspeed = 0", "speed must be a number"),
    ],
)
def test_a_scenario_that_makes_no_sense_is_refused_with_what_is_wrong(tmp_path, script, complaint):
    (tmp_path / "day.toml").write_text(script)
    code, err = ended("--scenario", "day.toml", folder=tmp_path)
    assert code == 2
    assert err.startswith("--scenario: ")
    assert complaint in err


def test_a_scenario_that_is_not_there_is_refused(tmp_path):
    code, err = ended("--scenario", "nowhere.toml", folder=tmp_path)
    assert code == 2
    assert "nowhere.toml" in err


@pytest.mark.deep
@pytest.mark.parametrize(
    "option", [["--run-startup-scripts"], ["--run-startup-scripts-of", "a" * 64]]
)
def test_scripts_of_nodes_are_run_for_nobody_but_this_machine(tmp_path, option):
    code, err = ended(*option, "--host", "0.0.0.0", folder=tmp_path)
    assert code == 2
    assert err.splitlines() == [
        f"{option[0]} is for this machine only, and 0.0.0.0 is reachable by others",
        "leave --host out, or the scripts",
    ]


def test_a_digest_that_is_none_is_refused(tmp_path):
    code, err = ended("--run-startup-scripts-of", "abc", folder=tmp_path)
    assert code == 2
    assert err.splitlines()[0] == "--run-startup-scripts-of: abc is not a SHA-256 digest"


@pytest.mark.deep
def test_the_package_run_as_a_program_is_the_same_command(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", "service.emulator"]
    ports = ["--grpc-port", str(free_port()), "--rest-port", str(free_port())]
    with subprocess.Popen(
        [*command, *ports, "--speed", "7"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert "The Cloud TPU emulator listens" in said(process)
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/_emulator/config") as answer:
            assert json.load(answer)["speed"] == 7
        process.terminate()
    refused = subprocess.run(
        [*command, "--speed", "0"], env=environment, capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2
    assert "tpu-steward emulator" in refused.stderr
