"""A mail server for tests: real sockets, and TLS with a certificate of its own."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from integrations.mail.smtp import MailServer
from tools.mailbox import Handle, Mailbox, serve

CERTIFICATE = "mail.pem"
"""The file with the key and the certificate of `certified`."""
SENDER = "Change-Freeze Service <freezes@example.com>"


@dataclass(frozen=True, slots=True)
class Certified:
    """Both ends of TLS: the server's context, and that of a client who trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def certified(directory: Path) -> Certified:
    """Make a certificate for this machine."""
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


@contextmanager
def mailbox(tls: Certified | None = None, *, tls_first: bool = False) -> Iterator[Handle]:
    """Serve an empty mailbox."""
    handle = serve(Mailbox(), tls=tls.server if tls else None, implicit_tls=tls_first)
    yield handle
    handle.stop()


def mail_server(handle: Handle, tls: Certified | None = None) -> MailServer:
    """Return a client of a mailbox."""
    return MailServer(handle.smtp_url, SENDER, trust=tls.client if tls else None)
