"""Replacement of `SECRET_KEY`: what the database has encrypted under the previous key is encrypted under the new one.

While both are configured everything can be read, so the work may be done at any time, in parts, and again. Rows are
compared with what was read when they are written: a row that changed meanwhile was encrypted under the new key.

Two things cannot be encrypted again, since their keys also depend on what only clients have: stored responses that show
a secret, which are erased after an hour, and the cookies of known devices, whose loss only makes them unknown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import and_, func, select, text, update
from sqlalchemy.orm import InstrumentedAttribute

from models.billing import TrialHashKey
from models.identity import Mail
from models.organizations import SigningKey
from models.outgoing_webhooks import WebhookEndpoint
from models.requests import IdempotencyKey
from models.slack import SlackConnection
from services.billing import used_trials
from services.core.encryption import DecryptionError, decrypt_with_any, encrypt
from services.core.rotated_secrets import SecretKey
from services.core.stored_replies import SECRET_RETENTION
from services.core.unit_of_work import SYSTEM_CALLER, UnitOfWork, UnitOfWorkFactory
from services.identity import signing_keys
from services.mail import outbox
from services.outgoing_webhooks import endpoints
from services.slack import tokens

BATCH_SIZE = 200
"""Values that one transaction reads."""


@dataclass(frozen=True, slots=True)
class EncryptedColumn:
    """A column whose values are encrypted under `SECRET_KEY`."""

    name: str
    """What its values are, in the plural."""
    value: InstrumentedAttribute[Any]
    use: str
    row: tuple[InstrumentedAttribute[Any], ...]
    """What its values are encrypted for; the first column is the primary key."""


COLUMNS = (
    EncryptedColumn("signing keys", SigningKey.encrypted_private_key, signing_keys.USE, (SigningKey.kid,)),
    EncryptedColumn("queued mails", Mail.encrypted_values, outbox.USE, (Mail.id, Mail.recipient)),
    EncryptedColumn("tokens of Slack", SlackConnection.encrypted_tokens, tokens.USE, (SlackConnection.id,)),
    EncryptedColumn("webhook secrets", WebhookEndpoint.encrypted_secret, endpoints.USE, (WebhookEndpoint.id,)),
    EncryptedColumn(
        "previous webhook secrets", WebhookEndpoint.encrypted_previous_secret, endpoints.USE, (WebhookEndpoint.id,)
    ),
    EncryptedColumn("keys of used trials", TrialHashKey.encrypted_key, used_trials.KEY_USE, (TrialHashKey.id,)),
)


@dataclass(slots=True)
class Count:
    """How many values of a column can be read with which key."""

    column: EncryptedColumn
    current: int = 0
    previous: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class SecretSurvey:
    """What the database has encrypted."""

    counts: list[Count]
    keys_to_keep: int
    """Keys of used trials that only a `SECRET_KEY` has."""
    replies_until: datetime | None
    """When the last stored response that shows a secret is erased; None if there is none."""


def survey(uow_factory: UnitOfWorkFactory) -> SecretSurvey:
    """Return what can be read with which key. It writes nothing."""
    counts = [_read_column(uow_factory, column) for column in COLUMNS]
    with uow_factory.open(SYSTEM_CALLER, read_only=True) as uow:
        newest = uow.session.scalar(select(func.max(IdempotencyKey.created_at)).where(IdempotencyKey.secret))
        until = None if newest is None or newest + SECRET_RETENTION <= uow.now else newest + SECRET_RETENTION
        return SecretSurvey(counts, len(used_trials.keys_to_keep(uow)), until)


def rotate(uow_factory: UnitOfWorkFactory) -> list[Count]:
    """Encrypt under `SECRET_KEY` what is encrypted under the previous one; return what was found before."""
    with uow_factory.open(SYSTEM_CALLER) as uow:
        _commit_durably(uow)
        used_trials.keep_keys(uow)
    return [_read_column(uow_factory, column, rewrite=True) for column in COLUMNS]


def _read_column(uow_factory: UnitOfWorkFactory, column: EncryptedColumn, *, rewrite: bool = False) -> Count:
    """Decrypt and count the values of a column; `rewrite` encrypts those of the previous key again."""
    count = Count(column)
    for uow, rows in _batches(uow_factory, column, read_only=not rewrite):
        secret, *others = uow.ports[SecretKey].accepted
        for value, *row in rows:
            bound = " ".join(row)
            if _decrypted([secret], column, bound, value) is not None:
                count.current += 1
            elif (plain := _decrypted(others, column, bound, value)) is None:
                count.unreadable += 1
            else:
                count.previous += 1
                if rewrite:
                    unchanged = and_(column.row[0] == row[0], column.value == value)
                    encrypted = encrypt(secret, column.use, bound, plain)
                    uow.session.execute(update(column.value.class_).where(unchanged).values({column.value: encrypted}))
    return count


def _batches(
    uow_factory: UnitOfWorkFactory, column: EncryptedColumn, *, read_only: bool
) -> Iterator[tuple[UnitOfWork, list[Any]]]:
    """Yield the rows of a column, in the order of their ids, each batch in a transaction of its own."""
    after = ""
    while True:
        query = select(column.value, *column.row).where(column.value.is_not(None), column.row[0] > after)
        with uow_factory.open(SYSTEM_CALLER, read_only=read_only) as uow:
            if not read_only:
                _commit_durably(uow)
            rows = list(uow.session.execute(query.order_by(column.row[0]).limit(BATCH_SIZE)))
            yield uow, rows
        if len(rows) < BATCH_SIZE:
            return
        after = rows[-1][1]


def _decrypted(secrets: Iterable[bytes], column: EncryptedColumn, bound: str, value: bytes) -> bytes | None:
    try:
        return decrypt_with_any(secrets, column.use, bound, value)
    except DecryptionError:
        return None


def _commit_durably(uow: UnitOfWork) -> None:
    """Have the commit wait for the disk: the previous key may be removed as soon as this is reported."""
    uow.session.execute(text("SET LOCAL synchronous_commit = on"))
