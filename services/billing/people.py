"""Which person acts, and whether they have had a trial.

A trial is once per person. What is kept of it is an HMAC of the person's id and one of their verified e-mail address,
without an organisation: it survives the deletion and the purge of the organisation, and names no person.
"""

from dataclasses import dataclass

from sqlalchemy import exists, select
from sqlalchemy.dialects.postgresql import insert

from models.api_keys import ApiKey
from models.billing import UsedTrial
from models.organizations import User
from services.core.encryption import keyed_hash
from services.core.unit_of_work import UnitOfWork

_USE = "used trials"


@dataclass(frozen=True, slots=True)
class Person:
    """A member of the organisation, and their e-mail address if they confirmed it."""

    user_id: str
    verified_email: str | None


def person_of(uow: UnitOfWork) -> Person | None:
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
    return None if user is None else Person(user.id, user.email if user.email_verified_at else None)


def has_used_trial(uow: UnitOfWork, person: Person) -> bool:
    """True if the person has had a trial, in any organisation."""
    return bool(uow.session.scalar(select(exists().where(UsedTrial.person_hash.in_(_hashes(uow, person))))))


def record_trial(uow: UnitOfWork, person: Person) -> bool:
    """Record that the person has a trial; False if they had one. Waits for another trial that starts just now."""
    hashes = _hashes(uow, person)
    statement = insert(UsedTrial).values([{"person_hash": each, "used_at": uow.now} for each in hashes])
    added = uow.session.scalars(statement.on_conflict_do_nothing().returning(UsedTrial.person_hash)).all()
    return len(added) == len(hashes)


def _hashes(uow: UnitOfWork, person: Person) -> list[bytes]:
    """Return the hashes of a person, in an order that prevents deadlocks."""
    names = [f"user {person.user_id}"]
    if person.verified_email is not None:
        names.append(f"email {person.verified_email}")
    return sorted(keyed_hash(uow.dependencies.secret_key, _USE, name) for name in names)
