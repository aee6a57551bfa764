"""Slack: the workspace of an organisation, its people there, and the channels that get messages."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Identity, Index, LargeBinary, text
from sqlalchemy.dialects.postgresql import ARRAY, INTEGER
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased


class SlackConnection(Leased, Base):
    """The workspace that an organisation is connected to, with the token of our bot there.

    It is live until Slack ends it (lost) or a person does (removed). The work on a live row is to refresh its token;
    that on a removed row is to revoke the token at Slack, after which the row is deleted.
    """

    __tablename__ = "slack_connections"
    __table_args__ = (
        Index(
            "uq_slack_connections_organization_id",
            "organization_id",
            unique=True,
            postgresql_where=text("removed_at IS NULL"),
        ),
        Index(
            "uq_slack_connections_team_id",
            "team_id",
            unique=True,
            postgresql_where=text("removed_at IS NULL AND lost_at IS NULL"),
        ),
        Index("ix_slack_connections_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    team_id: Mapped[str]
    """Slack's id of the workspace; of a token that was refused for all workspaces at once, that of the enterprise."""
    team_name: Mapped[str]
    bot_user_id: Mapped[str]
    scopes: Mapped[list[str]]
    """What Slack has granted."""
    encrypted_tokens: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The access token as JSON, with refresh token and end if Slack rotates it; erased once the connection is lost."""
    connected_by: Mapped[dict[str, Any]]
    connected_at: Mapped[datetime]
    lost_at: Mapped[datetime | None]
    lost_why: Mapped[str | None]
    """Slack's word for it, such as `token_revoked`."""
    removed_at: Mapped[datetime | None]


class SlackLink(Base):
    """A person's Slack user: what they type and click in that workspace is theirs.

    It ends with the membership. A workspace has one organisation, so a Slack user there has one person.
    """

    __tablename__ = "slack_links"
    __table_args__ = (
        ForeignKeyConstraint(
            ["organization_id", "user_id"],
            ["memberships.organization_id", "memberships.user_id"],
            name="fk_slack_links_membership",
            ondelete="CASCADE",
        ),
        Index("uq_slack_links_user_id", "organization_id", "user_id", unique=True),
    )

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    team_id: Mapped[str] = mapped_column(primary_key=True)
    slack_user_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str]
    created_at: Mapped[datetime]


class SlackSubscription(Base):
    """A channel that gets messages: about which events, in which repositories, and how long before windows."""

    __tablename__ = "slack_subscriptions"
    __table_args__ = (
        Index("uq_slack_subscriptions_channel_id", "organization_id", "channel_id", unique=True),
        Index("ix_slack_subscriptions_organization_id", "organization_id", "created_at", "id"),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    channel_id: Mapped[str]
    channel_name: Mapped[str]
    events: Mapped[list[str]]
    patterns: Mapped[list[str] | None]
    """Names of repositories, as globs; None: all of them."""
    remind_before: Mapped[list[int]] = mapped_column(ARRAY(INTEGER))
    """Minutes before a window."""
    created_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    paused_at: Mapped[datetime | None]
    paused_why: Mapped[str | None]
    """Slack's word for it, such as `channel_not_found`."""

    @property
    def state(self) -> Literal["active", "paused"]:
        """`paused` while Slack accepts no messages in the channel."""
        return "active" if self.paused_at is None else "paused"


class SlackMessage(Leased, Base):
    """A message of a channel, rendered from its facts when it is posted, and again when they change.

    What a channel has not got yet comes in the order of `position`. The work is to post the message, or to update it.
    """

    __tablename__ = "slack_messages"
    __table_args__ = (
        Index("uq_slack_messages_bundle", "subscription_id", "bundle", unique=True),
        Index("ix_slack_messages_subjects", "subjects", postgresql_using="gin"),
        Index("ix_slack_messages_due", "subscription_id", "position", postgresql_where=text("due_at IS NOT NULL")),
        Index("ix_slack_messages_sent_at", "subscription_id", "sent_at"),
        Index("ix_slack_messages_organization_id", "organization_id", "due_at"),
        Index("ix_slack_messages_created_at", "created_at"),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    subscription_id: Mapped[str] = mapped_column(ForeignKey("slack_subscriptions.id", ondelete="CASCADE"))
    position: Mapped[int] = mapped_column(BigInteger, Identity())
    kind: Mapped[str]
    """What the message is about (`rules/slack/notices.py`)."""
    bundle: Mapped[str | None]
    """Names what happens within a minute and shares one message; None: one thing has a message of its own."""
    subjects: Mapped[list[str]]
    """The ids of what it is about: freezes or exceptions."""
    facts: Mapped[dict[str, Any]]
    useful_until: Mapped[datetime | None]
    """When it is given up if it was not posted; None: never."""
    reply_to: Mapped[str | None] = mapped_column(ForeignKey("slack_messages.id", ondelete="SET NULL"), index=True)
    """The message in whose thread it is posted."""
    created_at: Mapped[datetime]
    ts: Mapped[str | None]
    """Slack's name of the message in its channel, once it was posted."""
    sent_at: Mapped[datetime | None]
    """When it was last posted or updated."""
