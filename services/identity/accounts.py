"""What sign-up, sign-in and password reset share."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select

from models.organizations import User
from rules.access import passwords
from rules.errors import ServiceError, field_error
from services.core.named_locks import acquire_lock
from services.core.unit_of_work import UnitOfWork


def normalize_email(email: str) -> str:
    """Return an e-mail address in the form in which accounts are stored."""
    return email.strip().lower()


def find_account(uow: UnitOfWork, email: str, *, lock: bool = False) -> User | None:
    """Return the account of a normalized address, or None; `lock` locks its row."""
    query = select(User).where(User.email == email)
    return uow.session.scalar(query.with_for_update().execution_options(populate_existing=True) if lock else query)


def lock_address(uow: UnitOfWork, email: str) -> None:
    """Wait until nobody else gives an account this address, until the end of the transaction."""
    acquire_lock(uow, f"sign-up {email}")


def require_strong_password(password: str, email: str) -> None:
    """Raise `weak_password` if a new password violates the rules."""
    message = passwords.find_weakness(password, email)
    if message is not None:
        raise field_error("/password", message, message=message, code="weak_password")


@contextmanager
def dummy_work(uow: UnitOfWork) -> Iterator[None]:
    """Run the block and roll it back: it takes the same time as the real work and has no effect."""
    with uow.session.begin_nested() as savepoint:
        yield
        uow.session.flush()
        savepoint.rollback()


def expired_link() -> ServiceError:
    """Return the error for a mailed link that is used, unknown or expired."""
    return ServiceError("not_found", "This link is invalid or has expired. Request a new one.")
