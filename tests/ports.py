"""Ports for the programs that tests start."""

from __future__ import annotations

import random
import socket

PORTS = range(20_000, 32_000)
"""Below those that the kernel gives to outgoing connections: one of these may otherwise have been
given away by the time at which the program takes it."""


def free_port() -> int:
    """A port that nothing listens on."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
