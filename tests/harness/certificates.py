"""TLS with a certificate of its own, for servers of tests on this machine."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tools.simulation.certificates import new_certificate

CERTIFICATE = "localhost.pem"
"""The file with the key and the certificate of `certified`."""


@dataclass(frozen=True, slots=True)
class Certified:
    """Both ends of TLS: the server's context, and that of a client who trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certified(directory: Path) -> Certified:
    """Write a key and a certificate for `localhost` and 127.0.0.1 into a directory, and return both ends of TLS."""
    key, certificate = new_certificate(days=1)
    file = directory / CERTIFICATE
    file.write_bytes(key + certificate)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return Certified(server, ssl.create_default_context(cadata=certificate.decode()))
