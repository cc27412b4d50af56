"""Addresses: read, listened on, and tried."""

from __future__ import annotations

import socket

import pytest

from service.cli.terminal.address import Address
from service.cli.terminal.errors import Failure


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9470", "127.0.0.1", 9_470),
        ("http://localhost:9471/", "localhost", 9_471),
        ("[::1]:9470", "::1", 9_470),
    ],
)
def test_addresses_are_read(text, host, port):
    found = Address.from_text(text, "X")
    assert (found.host, found.port) == (host, port)


@pytest.mark.parametrize("text", ["", "9470", ":9470", "host", "host:", "host:x", "host:70000"])
def test_what_is_no_address_names_its_setting(text):
    with pytest.raises(Failure, match=r"STEWARD_EMULATOR: .* is not host:port"):
        Address.from_text(text, "STEWARD_EMULATOR")


@pytest.mark.parametrize(
    ("host", "local", "url"),
    [
        ("127.0.0.1", True, "http://127.0.0.1:80"),
        ("localhost", True, "http://localhost:80"),
        ("::1", True, "http://[::1]:80"),
        ("0.0.0.0", False, "http://127.0.0.1:80"),
        ("::", False, "http://[::1]:80"),
        ("10.0.0.1", False, "http://10.0.0.1:80"),
        ("localhost.example.com", False, "http://localhost.example.com:80"),
    ],
)
def test_only_loopback_is_local(host, local, url):
    address = Address(host, 80, "X")
    assert (address.is_local, address.url) == (local, url)


def test_a_taken_port_names_its_setting():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1], "STEWARD_PORT")
        assert address.can_connect(1)
        with pytest.raises(Failure, match=rf"port {address.port} .* is taken \(STEWARD_PORT\)"):
            address.open_listener()
    assert not address.can_connect(1)
