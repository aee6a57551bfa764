"""TLS with a certificate of its own, for servers of tests on this machine."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

CERTIFICATE = "localhost.pem"
"""The file with the key and the certificate of `certified`."""


@dataclass(frozen=True, slots=True)
class Certified:
    """Both ends of TLS: the server's context, and that of a client who trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certified(directory: Path) -> Certified:
    """Write a key and a certificate for `localhost` and 127.0.0.1 into a directory, and return both ends of TLS."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))])
    certificate = builder.add_extension(names, critical=False).sign(key, SHA256()).public_bytes(Encoding.PEM)
    file = directory / CERTIFICATE
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return Certified(server, ssl.create_default_context(cadata=certificate.decode()))
