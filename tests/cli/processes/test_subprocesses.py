"""The processes that `dev` starts, and what it says when one ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from service.cli.processes.dev import check_needed
from service.cli.processes.subprocesses import Child
from service.cli.terminal.errors import Failure


def test_the_end_of_a_child_that_is_needed_is_the_end_of_all():
    child = Child(["no-such-command"], os.environ)
    assert child.describe_end() is None
    child.start()
    while child.describe_end() is None:
        pass
    with pytest.raises(
        Failure, match=re.escape("no-such-command ended with exit code 2; everything stops")
    ):
        check_needed([child])


def test_a_child_stops_when_it_is_asked_to():
    ports = ("--grpc-port", "0", "--rest-port", "0")
    child = Child(["emulator", *ports], os.environ)
    child.stop()
    child.start()
    child.stop()
    assert child.describe_end() is not None
    child.stop()


SIGNALS_DURING_A_WAIT = """
import signal, sys
from service.cli.processes.subprocesses import stopped_by_signals

def interrupt(frame, event, _):
    if event == "call":
        signal.raise_signal(signal.SIGTERM)

with stopped_by_signals() as stop:
    sys.setprofile(interrupt)
    stop.wait(0.1)
    sys.setprofile(None)
    while not stop.wait(0.1):
        pass
"""


def test_signals_in_the_middle_of_a_wait_stop_it_and_never_hang_it():
    done = subprocess.run([sys.executable, "-c", SIGNALS_DURING_A_WAIT], timeout=20, check=False)
    assert done.returncode == 0
