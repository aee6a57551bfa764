"""What the database holds about connections with workspaces."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from models.attention import AttentionItem
from models.slack import SlackConnection
from services.slack.tokens import decrypt_tokens
from tests import factories


def rows(session: Session) -> list[SlackConnection]:
    """Return all connections, oldest first."""
    session.expire_all()
    return list(session.scalars(select(SlackConnection).order_by(SlackConnection.id)))


def token_of(session: Session) -> str:
    """Return the decrypted token of the only connection."""
    [row] = rows(session)
    tokens = decrypt_tokens([factories.SECRET_KEY.encode()], row.id, row.encrypted_tokens)
    assert tokens is not None
    return tokens.access_token


def alerts(session: Session) -> list[str]:
    """Return the types of the alerts that are open."""
    session.expire_all()
    open_ones = select(AttentionItem.type).where(AttentionItem.cleared_at.is_(None))
    return list(session.scalars(open_ones.order_by(AttentionItem.type)))
