"""Destinations of notifications: how far each has read the audit, and the windows that were announced to it."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Index, Integer, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class NotificationDestination(Base):
    """Where events of an organisation go: a webhook endpoint, a channel of Slack, or the mails to its members.

    Its row is locked before those of its channel.
    """

    __tablename__ = "notification_destinations"

    id: Mapped[Id]
    """That of the webhook endpoint, of the subscription in Slack, or of the organisation whose members get mails."""
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    channel: Mapped[str]
    """`webhook`, `slack` or `mail`."""
    sequence: Mapped[int] = mapped_column(BigInteger)
    """The number of the last sealed audit entry that it has taken."""
    remind_before: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default="{}")
    """How many minutes before a window begins it is announced; each is an announcement of its own."""
    due_at: Mapped[datetime | None]
    """When entries are to be read for it; none: it has taken all that were sealed."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """How many times its channel failed to take events since it last did."""

    __table_args__ = (
        Index("ix_notification_destinations_organization_id", "organization_id"),
        Index("ix_notification_destinations_due_at", "due_at", "id", postgresql_where=text("due_at IS NOT NULL")),
    )


class Reminder(Base):
    """A window that was announced to a destination, so many minutes before it begins: never twice."""

    __tablename__ = "reminders"

    destination_id: Mapped[str] = mapped_column(
        ForeignKey("notification_destinations.id", ondelete="CASCADE"), primary_key=True
    )
    occurrence_id: Mapped[str] = mapped_column(primary_key=True)
    minutes: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(index=True)


class MailChoice(Base):
    """What a member chose to get mails of in one organisation; it ends with the membership."""

    __tablename__ = "mail_choices"

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(primary_key=True)
    kinds: Mapped[list[str] | None]
    """Kinds of notification; none: those that their role is given."""
    remind_before: Mapped[list[int]] = mapped_column(ARRAY(Integer), server_default="{}")
    """How many minutes before a window begins they get a mail."""
    updated_at: Mapped[datetime]

    __table_args__ = (
        ForeignKeyConstraint(
            ["organization_id", "user_id"],
            ["memberships.organization_id", "memberships.user_id"],
            name="fk_mail_choices_membership",
            ondelete="CASCADE",
        ),
    )
