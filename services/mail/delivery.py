"""Sending what waits in the outbox, one mail at a time.

A mail is leased, so that no two processes send it; it is sent again only if a process dies between the server's answer
and our record of it, under the same Message-ID. Once sent, given up or too old to be of use, what it said is erased.
What a server says is kept as its code alone, because its words may repeat the letter's.
"""

import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import text

from integrations.mail.smtp import DelayedError, Envelope, MailServer, RefusedError, ServerError
from integrations.mail.templates import TEMPLATES, render
from services.core.encryption import DecryptionError, decrypt
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.mail.outbox import USE, bound_to

logger = logging.getLogger(__name__)

LEASE = timedelta(minutes=2)
"""More than a letter can take."""
FIRST_RETRY = timedelta(seconds=30)
LONGEST_RETRY = timedelta(minutes=5)
_MOST_DOUBLINGS = 10

_WAITING = "due_at <= :now AND (lease_until IS NULL OR lease_until <= :now)"
_LEASE = text(f"""
    UPDATE mails SET lease_until = :until, attempts = attempts + 1 WHERE id = (
        SELECT id FROM mails WHERE {_WAITING} ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING id, recipient, template, sealed, created_at, attempts, lease_until
""")  # noqa: S608 - a constant of ours
_WAITS = text(f"SELECT EXISTS (SELECT FROM mails WHERE {_WAITING})")  # noqa: S608 - the same
_SENT = text("""
    UPDATE mails SET sent_at = :now, due_at = NULL, lease_until = NULL, sealed = NULL, last_error = NULL
    WHERE id = :id AND lease_until = :mine
""")
_GIVEN_UP = text("""
    UPDATE mails SET due_at = NULL, lease_until = NULL, sealed = NULL, last_error = :error
    WHERE id = :id AND lease_until = :mine
""")
_PUT_OFF = text("""
    UPDATE mails SET due_at = :due, lease_until = NULL, last_error = :error WHERE id = :id AND lease_until = :mine
""")
_PUT_ALL_OFF = text("UPDATE mails SET due_at = :due WHERE due_at < :due AND lease_until IS NULL")


@dataclass(frozen=True, slots=True)
class _Leased:
    """A mail that is ours until `lease_until`."""

    id: str
    recipient: str
    template: str
    sealed: bytes | None
    created_at: datetime
    attempts: int
    lease_until: datetime

    def values(self, secret: bytes) -> Mapping[str, Any]:
        """Return what fills its template; raises CannotOpenError."""
        if self.sealed is None:
            raise DecryptionError
        values: dict[str, Any] = orjson.loads(decrypt(secret, USE, bound_to(self.id, self.recipient), self.sealed))
        return values


def mails_wait(uow: UnitOfWork) -> bool:
    """Tell whether a mail is due that could be sent; for the sweeper."""
    return uow.dependencies.mail is not None and bool(uow.session.scalar(_WAITS, {"now": uow.now}))


def send_due(uow_factory: UnitOfWorkFactory) -> bool:
    """Send one mail that is due; False when none is, when there is no server, or when it takes none now."""
    server = uow_factory.dependencies.mail
    if server is None:
        return False
    with uow_factory.open(SYSTEM_CALLER) as uow:
        row = uow.session.execute(_LEASE, {"now": uow.now, "until": uow.now + LEASE}).one_or_none()
        now = uow.now
    if row is None:
        return False
    mail = _Leased(**row._mapping)  # noqa: SLF001 - SQLAlchemy's public name of it
    if mail.template not in TEMPLATES or now >= mail.created_at + TEMPLATES[mail.template].useful:
        _give_up(uow_factory, mail, "it came to be of no use any more")
        return True
    return _send(uow_factory, server, mail)


def _send(uow_factory: UnitOfWorkFactory, server: MailServer, mail: _Leased) -> bool:
    try:
        letter = render(mail.template, mail.values(uow_factory.dependencies.secret_key))
        server.send(letter, Envelope(mail.recipient, mail.id, mail.created_at))
    except (DecryptionError, KeyError):
        _give_up(uow_factory, mail, "it was sealed under another SECRET_KEY")
    except RefusedError as error:
        _give_up(uow_factory, mail, str(error))
    except DelayedError as error:
        _put_off(uow_factory, mail, str(error), everything=False)
    except ServerError as error:
        _put_off(uow_factory, mail, str(error), everything=True)
        return False
    else:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            uow.session.execute(_SENT, {"now": uow.now, "id": mail.id, "mine": mail.lease_until})
    return True


def _give_up(uow_factory: UnitOfWorkFactory, mail: _Leased, error: str) -> None:
    logger.error("mail %s (%s) is given up: %s", mail.id, mail.template, error)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        uow.session.execute(_GIVEN_UP, {"error": error, "id": mail.id, "mine": mail.lease_until})


def _put_off(uow_factory: UnitOfWorkFactory, mail: _Leased, error: str, *, everything: bool) -> None:
    """Have it tried again later; where the server is at fault, every other mail waits as long."""
    wait = min(FIRST_RETRY * 2 ** min(mail.attempts - 1, _MOST_DOUBLINGS), LONGEST_RETRY)
    wait *= 0.75 + random.random() / 4  # noqa: S311 - jitter, no secret
    logger.warning("mail %s (%s) is tried again in %.0f s: %s", mail.id, mail.template, wait.total_seconds(), error)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        due = uow.now + wait
        uow.session.execute(_PUT_OFF, {"due": due, "error": error, "id": mail.id, "mine": mail.lease_until})
        if everything:
            uow.session.execute(_PUT_ALL_OFF, {"due": due})
