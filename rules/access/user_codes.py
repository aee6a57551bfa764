"""User codes of the device authorization (RFC 8628, 6.1).

Ten letters of an alphabet of twenty: over 43 bits. There are no vowels, so codes are not words, and no letters that
look like digits. A hyphen stands in the middle.
"""

import secrets

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH = 10
_HALF = LENGTH // 2


def new_user_code() -> str:
    """Return a new code such as `WDJBM-JHTXK`."""
    return _format("".join(secrets.choice(ALPHABET) for _ in range(LENGTH)))


def read_user_code(typed: str) -> str | None:
    """Return a typed code in canonical form, or None if it cannot be one.

    Case, spaces and hyphens are ignored.
    """
    letters = "".join(typed.split()).replace("-", "").upper()
    if not typed.isascii() or len(letters) != LENGTH or not set(letters) <= set(ALPHABET):
        return None
    return _format(letters)


def _format(letters: str) -> str:
    return f"{letters[:_HALF]}-{letters[_HALF:]}"
