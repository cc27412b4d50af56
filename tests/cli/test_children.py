"""The processes that `dev` starts, and what it says when one ends."""

from __future__ import annotations

import os
import re

import pytest

from service.cli.children import Child
from service.cli.dev import check
from service.cli.failure import Failure


def test_the_end_of_a_child_that_is_needed_is_the_end_of_all():
    child = Child(["no-such-command"], os.environ)
    assert child.end() is None
    child.start()
    while child.end() is None:
        pass
    with pytest.raises(
        Failure, match=re.escape("no-such-command ended with exit code 2; everything stops")
    ):
        check([child])


def test_a_child_stops_when_it_is_asked_to():
    ports = ("--grpc-port", "0", "--rest-port", "0")
    child = Child(["emulator", *ports], os.environ)
    child.stop()
    child.start()
    child.stop()
    assert child.end() is not None
    child.stop()
