"""The certificate with which programs on this machine receive webhooks, and what the service trusts."""

import ssl
from pathlib import Path

from tools.sandbox.persisted_secrets import write_private_text
from tools.simulation.certificates import new_certificate

CERTIFICATE = "localhost.pem"
"""The file with a key and its certificate, for `localhost`."""
TRUSTED = "trusted.pem"
"""The file with the certificates of the system and ours, for SSL_CERT_FILE."""
DAYS = 90
"""How long a certificate is valid; each start of the sandbox makes one."""


def write_certificates(directory: Path) -> Path:
    """Write both files, and return the one with the certificates that the service trusts."""
    key, certificate = new_certificate(DAYS)
    write_private_text(directory / CERTIFICATE, (key + certificate).decode())
    system = ssl.get_default_verify_paths().cafile
    trusted = directory / TRUSTED
    trusted.write_bytes((Path(system).read_bytes() if system else b"") + b"\n" + certificate)
    return trusted


def server_context(directory: Path) -> ssl.SSLContext:
    """Return the end of a server that shows the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / CERTIFICATE)
    return context
