"""People with a password; hashes are real Argon2id at its lowest costs, half a millisecond instead of 100."""

from functools import cache

from sqlalchemy.orm import Session

from models.organizations import Organization, User
from services.core.password_hashing import PasswordHasher
from tests import factories

PASSWORD = "seven green bicycles"
HASHER = PasswordHasher(time_cost=1, memory_cost=8)


@cache
def hash_password(password: str) -> str:
    """Return the hash of a password, the same for the whole run."""
    return HASHER.hash(password)


def account(
    session: Session, name: str = "Eve", *organizations: Organization, role: str = "member", email: str | None = None
) -> User:
    """Add a person whose password is PASSWORD and whose address is confirmed, a member of these organisations."""
    user = factories.user(session, name)
    user.email, user.email_verified_at = email or user.email, factories.now()
    user.password_hash = hash_password(PASSWORD)
    session.flush()
    for organization in organizations:
        factories.membership(session, organization, user, role)
    return user
