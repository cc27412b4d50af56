"""Which addresses are of the open internet, and which hosts are addresses."""

from __future__ import annotations

import pytest

from service.domain.network import is_public, parse_address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "::127.0.0.1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::a9fe:a9fe",
        "fec0::1",
    ],
)
def test_no_address_of_a_network_of_ones_own_is_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_of_the_internet_are_public(address):
    assert is_public(address)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0177.1", "127.0.0.1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("8.8.8.8", "8.8.8.8"),
        ("localhost", None),
        ("hooks.example.com", None),
        ("127.0.0.1.example.com", None),
        ("", None),
    ],
)
def test_a_host_is_an_address_however_it_is_spelled_or_a_name(host, address):
    assert parse_address(host) == address
