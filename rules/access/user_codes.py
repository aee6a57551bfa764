"""The short codes that people carry from a device to a browser (RFC 8628, 6.1).

Ten letters out of twenty: over 43 bits, without vowels, so that no code is a word, and without anything that could be
read as a digit. A hyphen stands in the middle.
"""

import secrets

ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"
LENGTH = 10
_HALF = LENGTH // 2


def new_user_code() -> str:
    """Return a fresh code, `WDJBM-JHTXK`."""
    return _shown("".join(secrets.choice(ALPHABET) for _ in range(LENGTH)))


def read_user_code(typed: str) -> str | None:
    """Return what somebody typed as the code that it means, or None when it cannot be one.

    Case, spaces and hyphens do not matter.
    """
    letters = "".join(typed.split()).replace("-", "").upper()
    if not typed.isascii() or len(letters) != LENGTH or not set(letters) <= set(ALPHABET):
        return None
    return _shown(letters)


def _shown(letters: str) -> str:
    return f"{letters[:_HALF]}-{letters[_HALF:]}"
