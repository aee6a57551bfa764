"""The outbox: a mail is written with the change that it tells of, and leaves only if that change is committed.

What it is filled with is sealed, since links are secrets; the job `mail` sends it (`services/mail/delivery.py`).
"""

from datetime import UTC, datetime
from typing import Any

import orjson

from integrations.mail.templates import TEMPLATES
from models.identity import Mail
from rules.ids import new_id
from services.core.encryption import encrypt
from services.core.unit_of_work import UnitOfWork

USE = "mails"


def enqueue_mail(uow: UnitOfWork, recipient: str, template: str, **values: Any) -> None:
    """Write a mail to one address; texts, instants and lists of texts fill the fields of its template.

    Templates and their fields are in `integrations/mail/templates.py`:
    `verify_email(url)`, `known_address(sign_in_url, forgot_url)`, `reset_password(url)`,
    `invitation(organization, inviter, role, url, expires_at)`,
    `organization_deleted(organization, by, deleted_at, purged_at)`, `rules_left(organization, left)`.
    Raises ValueError for an unknown template, and for fields that are missing or too many.
    """
    if template not in TEMPLATES or TEMPLATES[template].fields != values.keys():
        raise ValueError(f"there is no mail {template} with the fields {', '.join(sorted(values))}")
    mail_id = new_id("mal")
    told = orjson.dumps({name: _told(value) for name, value in values.items()})
    uow.session.add(
        Mail(
            id=mail_id,
            organization_id=uow.caller.organization_id,
            recipient=recipient,
            template=template,
            sealed=encrypt(uow.dependencies.secret_key, USE, bound_to(mail_id, recipient), told),
            created_at=uow.now,
            due_at=uow.now,
            attempts=0,
        )
    )
    uow.wake("mail")


def bound_to(mail_id: str, recipient: str) -> str:
    """Return what a sealed mail is bound to: moved to another row or address, it does not open."""
    return f"{mail_id} {recipient}"


def _told(value: Any) -> Any:
    """Return an instant as people write it, and anything else as it is."""
    return f"{value.astimezone(UTC):%-d %B %Y, %H:%M} UTC" if isinstance(value, datetime) else value
