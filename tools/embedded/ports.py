"""Unused TCP ports of this machine."""

import socket
from contextlib import ExitStack


def free_port() -> int:
    """Return an unused port."""
    [port] = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Return so many unused ports, all different."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [probe.getsockname()[1] for probe in probes]
