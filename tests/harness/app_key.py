"""The key of the App at the simulated GitHub."""

from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat


class AppKey(NamedTuple):
    """Both halves, as PEM."""

    private: str
    public: str


def make_app_key() -> AppKey:
    """Return a new key, which takes a tenth of a second."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return AppKey(private.decode(), public.decode())
