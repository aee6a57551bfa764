"""The secrets that the sandbox keeps over restarts, in one file that only its owner can read."""

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from services.identity.api_key_secrets import new_secret
from tools.sandbox.tenants import KEYS, TENANTS

SECRETS_FILE = "secrets.json"


@dataclass(frozen=True, slots=True)
class PersistedSecrets:
    """Secrets made at the first start."""

    webhook_secret: str
    cursor_secret: str
    github_token: str
    app_private_key: str
    keys: dict[str, dict[str, str]]
    """Slug of an organisation → name of a key → its secret."""

    @property
    def stripe_webhook_secret(self) -> str:
        """The secret that the simulated Stripe signs with."""
        return f"whsec_{self.webhook_secret}"


def load_secrets(directory: Path) -> PersistedSecrets:
    """Return the secrets in `directory`; make them if there are none."""
    file = directory / SECRETS_FILE
    if file.exists():
        return PersistedSecrets(**json.loads(file.read_text()))
    private_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    made = PersistedSecrets(
        webhook_secret=secrets.token_hex(24),
        cursor_secret=secrets.token_hex(24),
        github_token=f"ghp_{secrets.token_hex(18)}",
        app_private_key=private_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
        keys={tenant.slug: {name: new_secret() for name in KEYS} for tenant in TENANTS},
    )
    write_private(file, asdict(made))
    return made


def public_key(private_key: str) -> str:
    """Return the public half of a key, both PEM."""
    key = serialization.load_pem_private_key(private_key.encode(), password=None)
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


def write_private(file: Path, content: dict[str, Any]) -> None:
    """Write JSON as `write_private_text` does."""
    write_private_text(file, json.dumps(content, indent=2) + "\n")


def write_private_text(file: Path, text: str) -> None:
    """Write a file that only its owner can read, and replace the former one when it is complete."""
    draft = file.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    draft.replace(file)
