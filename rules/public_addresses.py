"""Which network addresses the service may connect to when strangers choose the host."""

import ipaddress

_EMBEDDING = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32")))
"""IPv6 networks whose addresses lead to IPv4 addresses."""


def is_allowed(address: str, *, loopback: bool) -> bool:
    """True if an address is one of the public internet, or with `loopback` of this machine.

    Raise ValueError for a text that is no address.
    """
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if loopback and parsed.is_loopback:
        return True
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return _is_public(parsed.ipv4_mapped)
        if any(parsed in network for network in _EMBEDDING):
            return False
    return _is_public(parsed)


def _is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)
