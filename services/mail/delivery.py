"""Delivery of the mails in the outbox, one at a time.

A mail is leased, so that no two processes send it; it is sent a second time only if a process dies between the server's
answer and the record of it, under the same Message-ID. The contents of a mail that was sent, given up, or has become
too old to be useful are erased. Of the mail server's answer only the code is stored: its text may quote the mail.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import orjson
from sqlalchemy import Row, select, update

from integrations.mail.smtp import DelayedError, Envelope, MailServer, RefusedError, ServerError
from integrations.mail.templates import TEMPLATES, render
from models.identity import Mail
from services.core.encryption import DecryptionError, decrypt_with_any
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.core.work_queue import Lease, RetryPolicy, WorkQueue
from services.mail.outbox import USE, associated_data

logger = logging.getLogger(__name__)

MAILS = WorkQueue(
    "mail",
    Mail,
    select(Mail.id, Mail.recipient, Mail.template, Mail.encrypted_values, Mail.created_at, Mail.attempts).order_by(
        Mail.due_at, Mail.id
    ),
    lease=timedelta(minutes=2),  # more than the delivery of one mail can take
    retry=RetryPolicy(timedelta(seconds=30), timedelta(minutes=5)),
)


def send_due(uow_factory: UnitOfWorkFactory) -> bool:
    """Send one mail that is due; False if none is due, no server is configured, or the server takes no mail now."""
    server = uow_factory.ports.find(MailServer)
    if server is None:
        return False
    with uow_factory.open(SYSTEM_CALLER) as uow:
        lease = MAILS.acquire(uow)
    if lease is None:
        return False
    with lease.while_held(uow_factory):
        return _send_or_expire(uow_factory, server, lease)


def _send_or_expire(uow_factory: UnitOfWorkFactory, server: MailServer, lease: Lease) -> bool:
    mail = lease.row
    if mail.template not in TEMPLATES or lease.acquired_at >= mail.created_at + TEMPLATES[mail.template].useful:
        _give_up(uow_factory, lease, "expired", "it is too old to be useful")
        return True
    return _send(uow_factory, server, lease)


def _send(uow_factory: UnitOfWorkFactory, server: MailServer, lease: Lease) -> bool:
    mail = lease.row
    try:
        rendered = render(mail.template, _values(mail, uow_factory.ports[SecretKey].accepted))
        server.send(rendered, Envelope(mail.recipient, mail.id, mail.created_at))
    except (DecryptionError, KeyError):
        _give_up(uow_factory, lease, "undecryptable", "it was encrypted under another SECRET_KEY")
    except RefusedError as error:
        _give_up(uow_factory, lease, "refused", str(error))
    except DelayedError as error:
        _retry(uow_factory, lease, str(error), delay_all=False)
    except ServerError as error:
        _retry(uow_factory, lease, str(error), delay_all=True)
        return False
    else:
        with uow_factory.open(SYSTEM_CALLER) as uow:
            if lease.release(uow):
                _erase(uow, mail.id, sent_at=uow.now)
    return True


def _values(mail: Row[Any], secret_keys: Iterable[bytes]) -> Mapping[str, Any]:
    """Return the values of the template's fields; raise DecryptionError if they cannot be read."""
    if mail.encrypted_values is None:
        raise DecryptionError
    values: dict[str, Any] = orjson.loads(
        decrypt_with_any(secret_keys, USE, associated_data(mail.id, mail.recipient), mail.encrypted_values)
    )
    return values


def _give_up(uow_factory: UnitOfWorkFactory, lease: Lease, code: str, message: str) -> None:
    logger.error("mail %s (%s) is given up: %s", lease.row.id, lease.row.template, message)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        if lease.fail(uow, code, message, None):
            _erase(uow, lease.row.id)


def _erase(uow: UnitOfWork, mail_id: str, **changes: Any) -> None:
    uow.session.execute(update(Mail).where(Mail.id == mail_id).values(encrypted_values=None, **changes))


def _retry(uow_factory: UnitOfWorkFactory, lease: Lease, message: str, *, delay_all: bool) -> None:
    """Try the mail again later; with `delay_all`, because the server itself fails, all other mails wait as long."""
    mail = lease.row
    delay = MAILS.retry.delay(mail.attempts)
    logger.warning("mail %s (%s) is tried again in %.0f s: %s", mail.id, mail.template, delay.total_seconds(), message)
    with uow_factory.open(SYSTEM_CALLER) as uow:
        due_at = uow.now + delay
        lease.fail(uow, "server_unavailable", message, due_at)
        if delay_all:
            waiting = update(Mail).where(Mail.due_at < due_at, Mail.lease_until.is_(None))
            uow.session.execute(waiting.values(due_at=due_at))
