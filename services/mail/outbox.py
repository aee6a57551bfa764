"""The mail outbox: a mail is written in the same transaction as its cause and sent after the commit.

Its fields are encrypted, since links are secrets. The job `mail` delivers it (`services/mail/delivery.py`).
"""

from datetime import UTC, datetime
from typing import Any

import orjson

from integrations.mail.templates import TEMPLATES
from models.identity import Mail
from rules.ids import new_id
from services.core.encryption import encrypt
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork

USE = "mails"
"""The purpose of the encryption of a mail's values."""


def enqueue_mail(uow: UnitOfWork, recipient: str, template: str, **values: Any) -> None:
    """Queue a mail to one address, and wake the job that delivers it.

    `template` is a key of `TEMPLATES` (`integrations/mail/templates.py`), and `values` are those of all its fields:
    strings, datetimes and lists of strings. Raise ValueError if the template is unknown or its fields do not match.
    """
    if template not in TEMPLATES or TEMPLATES[template].fields != values.keys():
        raise ValueError(f"no mail template {template!r} with the fields {', '.join(sorted(values))}")
    mail_id = new_id("mal")
    fields = orjson.dumps({name: _format(value) for name, value in values.items()})
    uow.session.add(
        Mail(
            id=mail_id,
            organization_id=uow.caller.organization_id,
            recipient=recipient,
            template=template,
            encrypted_values=encrypt(uow.ports[SecretKey].current, USE, associated_data(mail_id, recipient), fields),
            created_at=uow.now,
            due_at=uow.now,
            attempts=0,
        )
    )
    uow.wake("mail")


def associated_data(mail_id: str, recipient: str) -> str:
    """Return the associated data of a mail's encryption: moved to another row or address, it does not decrypt."""
    return f"{mail_id} {recipient}"


def _format(value: Any) -> Any:
    """Return a datetime as readable text, and other values unchanged."""
    return f"{value.astimezone(UTC):%-d %B %Y, %H:%M} UTC" if isinstance(value, datetime) else value
