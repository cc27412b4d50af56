"""`serve --workers`: several processes that serve one socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from tempfile import TemporaryDirectory

import structlog

from service.cli.processes.subprocesses import (
    PARENT,
    Child,
    stop_all,
    stopped_by_signals,
)

LISTENER = "STEWARD_LISTENER"
"""The environment variable with the descriptor of the socket, for the workers."""

COUNTS = "PROMETHEUS_MULTIPROC_DIR"
"""The folder in which prometheus_client adds up the counts of several processes."""

_MEMORY = "/dev/shm"  # noqa: S108 - a folder of its own is made in it
"""Folder of files in memory on Linux. A process that counts into a full disk is killed."""

LOOK_SECONDS = 0.1
RESTART_SECONDS = 1.0

log = structlog.get_logger(__name__)


def find_inherited_socket() -> socket.socket | None:
    """The socket that this process inherited. None for a process that opens its own."""
    number = os.environ.get(LISTENER, "")
    return socket.socket(fileno=int(number)) if number.isdigit() else None


def run_workers(listener: socket.socket, number: int, more: Mapping[str, str]) -> None:
    """Run this number of workers until SIGTERM or SIGINT, with `more` in their environment. A
    worker that ends is restarted. All end with this process, even if it is killed."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    made = TemporaryDirectory(prefix="steward-counts-", dir=memory)
    with made as counts, stopped_by_signals() as stop:
        environment = {
            **os.environ,
            "STEWARD_WORKERS": str(number),
            LISTENER: str(listener.fileno()),
            COUNTS: counts,
            **more,
            PARENT: str(os.getpid()),
        }
        workers = [Child(["serve"], environment, [listener.fileno()]) for _ in range(number)]
        try:
            for worker in workers:
                worker.start()
            while not stop.wait(LOOK_SECONDS):
                ends = [(worker, worker.describe_end()) for worker in workers]
                ended = [(worker, how) for worker, how in ends if how is not None]
                for worker, how in ended:
                    log.warning("worker.ended", worker=worker.pid, how=how)
                if ended and not stop.wait(RESTART_SECONDS):
                    for worker, _ in ended:
                        worker.start()
        finally:
            stop_all(workers)
