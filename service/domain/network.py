"""Where an address on the network is: on the open internet, or on this machine or its network."""

from __future__ import annotations

import ipaddress
import socket

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8_080
"""Where the service listens unless it is set otherwise."""

LAST_PORT = 65_535
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All that IANA gives out of IPv6; what lies beyond it may lead home, as `::127.0.0.1` does, and a
NAT64 of one's own (RFC 8215), and a site-local address."""


def is_public(address: str) -> bool:
    """Whether it is an address of the open internet: not this machine, not its network, and none of
    them in the clothes of another family."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is None and ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
        if ip not in _UNICAST:
            return False
    return ip.is_global and not ip.is_multicast


def spelled(host: str) -> str | None:
    """The address that a host spells out, also as `127.1` or `2130706433`; None for a name, which
    leads somewhere only once it is asked for."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
