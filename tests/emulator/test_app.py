"""The emulator as a program: its ports, its end, and what it says when it cannot begin."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from service.emulator.app import PortTaken, build_world, run_in_thread
from tests.emulator.factories import PARENT, Web
from tests.emulator.google_clients import finish, grpc_client

PROGRAM = """
from service.emulator.app import build_world, run
told = lambda it: print(it.rest_url, flush=True)
run(build_world(speed=60), grpc_port=0, rest_port=0, on_ready=told)
print("ended")
"""


def test_a_world_is_served_on_any_free_ports():
    world = build_world(speed=5)
    with run_in_thread(world) as emulator:
        assert emulator.world is world
        assert emulator.grpc_port != emulator.rest_port
        assert Web(emulator.rest_url).ask("GET", "/_emulator/config")[1]["speed"] == 5


def test_both_ports_show_one_world():
    with run_in_thread(build_world(speed=2000)) as emulator, grpc_client(emulator) as client:
        node: Any = {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"}
        finish(client.create_node(parent=PARENT, node_id="a", node=node))
        status, shown = Web(emulator.rest_url).ask("GET", f"/v2/{PARENT}/nodes/a")
        assert (status, shown["state"]) == (200, "READY")


@pytest.mark.parametrize("which", ["grpc_port", "rest_port"])
def test_a_taken_port_is_named(which):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"127.0.0.1:{port}"), run_in_thread(**{which: port}):
            pass


@pytest.mark.deep
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_program_soon(number):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip()
        assert Web(url).ask("GET", "/_emulator/config")[1]["speed"] == 60
        asked = time.monotonic()
        program.send_signal(number)
        assert program.stdout.read() == "ended\n"
        assert program.wait() == 0
        assert time.monotonic() - asked < 3
