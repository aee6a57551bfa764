"""Used trials: which person acts, and whether they have had a trial, which is once per person.

What is stored of a trial is an HMAC of the person's id and one of their verified e-mail address, without an
organisation: it survives the deletion and the purge of the organisation, and names no person. The key of the HMAC is
derived from `SECRET_KEY`. When that is replaced, the derived key is stored, encrypted, because without it nobody could
be compared with the hashes that exist.
"""

import logging
from dataclasses import dataclass

from sqlalchemy import exists, select
from sqlalchemy.dialects.postgresql import insert

from models.api_keys import ApiKey
from models.billing import TrialHashKey, UsedTrial
from models.organizations import User
from rules.ids import new_id
from services.core.encryption import DecryptionError, decrypt_with_any, derive_key, encrypt, keyed_hash
from services.core.named_locks import acquire_lock
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork

logger = logging.getLogger(__name__)

_USE = "used trials"
KEY_USE = "keys of used trials"
"""The purpose of the encryption of stored keys."""


@dataclass(frozen=True, slots=True)
class TrialPerson:
    """A member of the organisation, and their e-mail address if they confirmed it."""

    user_id: str
    verified_email: str | None


def person_of(uow: UnitOfWork) -> TrialPerson | None:
    """Return the member who acts: the person of a session, or who created the API key; None if there is none."""
    if uow.actor.type == "user":
        user_id = uow.caller.user_id
    elif uow.actor.type == "api_key":
        created_by = uow.session.scalar(select(ApiKey.created_by).where(ApiKey.id == uow.caller.principal_id)) or {}
        user_id = created_by.get("id") if created_by.get("type") == "user" else None
    else:
        return None
    query = select(User.id, User.email, User.email_verified_at).where(User.id == user_id)
    user = uow.session.execute(query).one_or_none()  # row-level security shows members only
    return None if user is None else TrialPerson(user.id, user.email if user.email_verified_at else None)


def has_used_trial(uow: UnitOfWork, person: TrialPerson) -> bool:
    """True if the person has had a trial, in any organisation."""
    return bool(uow.session.scalar(select(exists().where(UsedTrial.person_hash.in_(_hashes(uow, person))))))


def record_trial(uow: UnitOfWork, person: TrialPerson) -> bool:
    """Record that the person has a trial; False if they had one: roll back then. Waits for one that starts just now."""
    hashes = _hashes(uow, person)
    statement = insert(UsedTrial).values([{"person_hash": each, "used_at": uow.now} for each in hashes])
    added = uow.session.scalars(statement.on_conflict_do_nothing().returning(UsedTrial.person_hash)).all()
    return len(added) == len(hashes)


def _hashes(uow: UnitOfWork, person: TrialPerson) -> list[bytes]:
    """Return the hashes of a person, in an order that prevents deadlocks."""
    names = [f"user {person.user_id}"]
    if person.verified_email is not None:
        names.append(f"email {person.verified_email}")
    keys = _kept_keys(uow) | _configured_keys(uow)
    return sorted(keyed_hash(key, name) for key in keys for name in names)


def keys_to_keep(uow: UnitOfWork) -> set[bytes]:
    """Return the HMAC keys that are derived from a configured `SECRET_KEY`, and not stored yet."""
    return _configured_keys(uow) - _kept_keys(uow)


def keep_keys(uow: UnitOfWork) -> int:
    """Store the HMAC keys, so that they outlive their `SECRET_KEY`; return how many were added."""
    acquire_lock(uow, "trial_hash_keys")
    missing = keys_to_keep(uow)
    for key in missing:
        key_id = new_id("thk")
        encrypted = encrypt(uow.ports[SecretKey].current, KEY_USE, key_id, key)
        uow.session.add(TrialHashKey(id=key_id, encrypted_key=encrypted, created_at=uow.now))
    return len(missing)


def _configured_keys(uow: UnitOfWork) -> set[bytes]:
    return {derive_key(secret, _USE) for secret in uow.ports[SecretKey].accepted}


def _kept_keys(uow: UnitOfWork) -> set[bytes]:
    """Return the stored keys that can be decrypted."""
    found = set()
    for row in uow.session.scalars(select(TrialHashKey)):
        try:
            found.add(decrypt_with_any(uow.ports[SecretKey].accepted, KEY_USE, row.id, row.encrypted_key))
        except DecryptionError:
            logger.warning("key %s of used trials is encrypted with another SECRET_KEY", row.id)
    return found
