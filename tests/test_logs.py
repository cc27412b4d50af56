"""Log lines: readable on a terminal, JSON everywhere else, unless the caller says which."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

LOG = """
import structlog
from service import logs
logs.set_up({how})
structlog.get_logger("lab").info("node.ready", node_id="n-1")
"""


def logged(how: str, *, terminal: bool) -> str:
    """What a process logs to a stderr that is a terminal, or a pipe."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", LOG.format(how=how)],
            stderr=writer,
            env={**os.environ, "NO_COLOR": "1"},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0
        return os.read(reader, 10_000).decode()
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(("how", "terminal"), [("", False), ("readable=False", True)])
def test_a_line_is_json_where_no_terminal_reads_it_or_the_caller_says_so(how, terminal):
    line = json.loads(logged(how, terminal=terminal))
    assert (line["event"], line["node_id"], line["level"]) == ("node.ready", "n-1", "info")


@pytest.mark.parametrize(("how", "terminal"), [("", True), ("readable=True", False)])
def test_a_line_is_readable_on_a_terminal_or_where_the_caller_says_so(how, terminal):
    line = logged(how, terminal=terminal)
    assert "node.ready" in line
    assert "info" in line
    assert not line.startswith("{")
