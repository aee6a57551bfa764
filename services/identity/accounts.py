"""What signing up, signing in and asking for another password have in common."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select
from sqlalchemy.orm import SessionTransaction

from models.organizations import User
from rules.access import passwords
from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork


def normal(email: str) -> str:
    """Return an e-mail address as accounts are known by."""
    return email.strip().lower()


def account_of(uow: UnitOfWork, email: str, *, lock: bool = False) -> User | None:
    """Return the account of an address that is in lower case; `lock` keeps it from changing meanwhile."""
    query = select(User).where(User.email == email)
    return uow.session.scalar(query.with_for_update().execution_options(populate_existing=True) if lock else query)


def require_good(password: str, email: str) -> None:
    """Raise `weak_password` for a new password that the rules refuse."""
    message = passwords.fault(password, email)
    if message is not None:
        raise ServiceError("weak_password", message, details=(Detail("/password", message, "weak_password"),))


@contextmanager
def in_vain(uow: UnitOfWork) -> Iterator[SessionTransaction]:
    """Run the block and undo it: it takes the time of the real thing, and leaves nothing behind."""
    with uow.session.begin_nested() as savepoint:
        yield savepoint
        uow.session.flush()
        savepoint.rollback()
