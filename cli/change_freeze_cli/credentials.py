"""Where a sign-in is kept: in the system's keyring if there is one, else in a file that only its owner reads."""

import importlib
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KEYRING_SERVICE = "freeze"


@dataclass(frozen=True, slots=True)
class Store:
    """The sign-ins of a person, each under the address that it is for, and the address of the last."""

    directory: Path

    @property
    def url(self) -> str | None:
        """The address of the last sign-in."""
        found = self._read().get("url")
        return found if isinstance(found, str) else None

    def token(self, url: str) -> str | None:
        """Return the session token for an address."""
        found = _keyring_get(url) or self._tokens().get(url)
        return found if isinstance(found, str) else None

    def save(self, url: str, token: str) -> str:
        """Keep a session token, and return where: `keyring` or `file`."""
        tokens = {other: kept for other, kept in self._tokens().items() if other != url}
        kept = "keyring" if _keyring_set(url, token) else "file"
        if kept == "file":
            tokens[url] = token
        self._write({"url": url, "tokens": tokens})
        return kept

    def forget(self, url: str) -> None:
        """Remove the token for an address."""
        _keyring_delete(url)
        tokens = {other: kept for other, kept in self._tokens().items() if other != url}
        self._write({"url": url, "tokens": tokens})

    @property
    def _file(self) -> Path:
        return self.directory / "credentials.json"

    def _tokens(self) -> dict[str, Any]:
        found = self._read().get("tokens")
        return found if isinstance(found, dict) else {}

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self._file.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, content: dict[str, Any]) -> None:
        """Replace the file; its mode is 0600 from the beginning."""
        from tempfile import mkstemp

        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = mkstemp(dir=self.directory)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file)
            Path(name).replace(self._file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _keyring() -> Any:
    """Return the library, which is optional; None if it is not installed."""
    try:
        return importlib.import_module("keyring")
    except ImportError:
        return None


def _keyring_get(url: str) -> str | None:
    library = _keyring()
    if library is not None:
        with suppress(library.errors.KeyringError, OSError, RuntimeError):
            found = library.get_password(KEYRING_SERVICE, url)
            return found if isinstance(found, str) else None
    return None


def _keyring_set(url: str, token: str) -> bool:
    """Return whether the keyring has taken the token."""
    library = _keyring()
    if library is not None:
        with suppress(library.errors.KeyringError, OSError, RuntimeError):
            library.set_password(KEYRING_SERVICE, url, token)
            return True
    return False


def _keyring_delete(url: str) -> None:
    library = _keyring()
    if library is not None:
        with suppress(library.errors.KeyringError, OSError, RuntimeError):
            library.delete_password(KEYRING_SERVICE, url)
