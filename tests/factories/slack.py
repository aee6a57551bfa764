"""Rows of Slack: workspaces, links and subscribed channels."""

from typing import Any

from sqlalchemy.orm import Session

from integrations.slack.client import SCOPES, SlackTokens
from models.organizations import Organization, User
from models.slack import SlackConnection, SlackLink, SlackMessage, SlackSubscription
from rules.ids import new_id
from services.slack.tokens import encrypt_tokens
from tests.factories.adding import SYSTEM, added, now
from tests.factories.organizations import SECRET_KEY


def slack_connection(
    session: Session, organization: Organization, *, token: str = "xoxb-of-tests", **columns: Any
) -> SlackConnection:
    """Add the workspace of an organisation."""
    connection_id = new_id("slk")
    given = {
        "id": connection_id,
        "organization_id": organization.id,
        "team_id": f"T{organization.id[4:].upper()}",
        "team_name": organization.name,
        "bot_user_id": "U0BOT",
        "scopes": list(SCOPES),
        "encrypted_tokens": encrypt_tokens(SECRET_KEY.encode(), connection_id, SlackTokens(token)),
        "connected_by": SYSTEM,
        "connected_at": now(),
    }
    return added(session, SlackConnection(**given | columns))


def slack_link(session: Session, connection: SlackConnection, user: User, **columns: Any) -> SlackLink:
    """Add the Slack user of a member."""
    given = {
        "organization_id": connection.organization_id,
        "team_id": connection.team_id,
        "slack_user_id": f"U{user.id[4:].upper()}",
        "user_id": user.id,
    }
    return added(session, SlackLink(**given | columns))


def slack_subscription(session: Session, organization: Organization, **columns: Any) -> SlackSubscription:
    """Add a subscribed channel."""
    given = {
        "id": new_id("sls"),
        "organization_id": organization.id,
        "channel_id": "C0RELEASES",
        "channel_name": "releases",
        "events": ["freeze.started", "freeze.ended"],
        "remind_before": [60],
        "created_by": SYSTEM,
    }
    return added(session, SlackSubscription(**given | columns))


def slack_message(session: Session, subscription: SlackSubscription, **columns: Any) -> SlackMessage:
    """Add a message that was posted."""
    given = {
        "id": new_id("slm"),
        "organization_id": subscription.organization_id,
        "subscription_id": subscription.id,
        "kind": "note",
        "subjects": ["frz_1"],
        "facts": {"action": "freeze.enforced", "total": 1, "shown": [{"type": "freeze", "id": "frz_1", "name": "A"}]},
        "ts": "1700000000.000001",
        "sent_at": now(),
        "attempts": 0,
    }
    return added(session, SlackMessage(**given | columns))
