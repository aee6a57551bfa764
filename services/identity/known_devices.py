"""Known devices: the browsers in which people have signed in before, also after they have signed out.

A device keeps a cookie with one token for each person who signed in there, at most four; a sign-in replaces the
person's token. A token is no credential: sign-ins with it only have a limit of their own, so that strangers who guess
passwords do not lock people out. It holds its expiry, encrypted for the person and their password hash. So nothing is
stored in the database, and a new password, which signs people out everywhere, makes all of their devices unknown.
"""

from datetime import UTC, datetime

from models.organizations import User
from rules import base64url
from rules.access.login_sessions import DEVICE_LIFETIME
from services.core.encryption import DecryptionError, decrypt_with_any, encrypt
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork

_MAX_PEOPLE = 4
"""Tokens in one cookie: that of the last sign-in, and those of the people before."""
_USE = "known devices"
_SEPARATOR = "."
_MAX_TOKEN_LENGTH = 100
_TIME_BYTES = 8


def remember(uow: UnitOfWork, user: User, cookie: str) -> str:
    """Return the value of the cookie that makes the device known to this person, and keeps it known to others."""
    expiry = int((uow.now + DEVICE_LIFETIME).timestamp()).to_bytes(_TIME_BYTES)
    token = encrypt(uow.ports[SecretKey].current, _USE, _associated_data(user), expiry)
    others = [text for text in _tokens(cookie) if _expiry(uow, user, text) is None]
    return _SEPARATOR.join([base64url.encode(token), *others[: _MAX_PEOPLE - 1]])


def find_device(uow: UnitOfWork, user: User | None, cookie: str) -> str | None:
    """Return what identifies the device, or None if the person has not signed in there with their present password.

    It takes the same work if there is no such person.
    """
    for token in _tokens(cookie):
        expiry = _expiry(uow, user, token)
        if expiry is not None and uow.now < expiry:
            return token
    return None


def _tokens(cookie: str) -> list[str]:
    return [text for text in cookie.split(_SEPARATOR, _MAX_PEOPLE)[:_MAX_PEOPLE] if 0 < len(text) <= _MAX_TOKEN_LENGTH]


def _expiry(uow: UnitOfWork, user: User | None, token: str) -> datetime | None:
    """Return when a token of this person expires, or None if it is not theirs."""
    try:
        encrypted = base64url.decode(token)
        plain = decrypt_with_any(uow.ports[SecretKey].accepted, _USE, _associated_data(user), encrypted)
    except (DecryptionError, ValueError):
        return None
    return datetime.fromtimestamp(int.from_bytes(plain), UTC)


def _associated_data(user: User | None) -> str:
    """Return the associated data of a token's encryption: for another person or password, it does not decrypt."""
    return f"{user.id} {user.password_hash}" if user is not None else ""
