"""Network addresses: whether an address is public, or of this machine or its network."""

from __future__ import annotations

import ipaddress
import socket

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8_080
"""The default address of the service."""

LAST_PORT = 65_535
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNICAST = ipaddress.ip_network("2000::/3")
"""All IPv6 addresses that IANA assigns. Others may be local, such as `::127.0.0.1`, a private NAT64
(RFC 8215) or a site-local address."""


def is_public(address: str) -> bool:
    """Whether an address is public: not of this machine or its network, nor mapped to one."""
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


def parse_address(host: str) -> str | None:
    """The network address in a host, also in forms such as `127.1` or `2130706433`; None for a
    name."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        pass
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return None
