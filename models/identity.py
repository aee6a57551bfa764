"""What identity needs besides people and organisations: invitations, one-time tokens, mail, attempts, devices."""

from datetime import datetime
from typing import Any, get_args

from sqlalchemy import BigInteger, ForeignKey, ForeignKeyConstraint, Identity, Index, LargeBinary, text
from sqlalchemy.ext.hybrid import hybrid_method
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id
from models.leases import Leased
from models.predicates import and_, is_null, not_
from rules.access.invitations import InvitationState


class Invitation(Base):
    """An invitation of an address to become a member; its state follows from its instants."""

    __tablename__ = "invitations"
    __table_args__ = (
        Index("ix_invitations_organization_id", "organization_id", "created_at"),
        Index("ix_invitations_email", "email", postgresql_where=text("accepted_at IS NULL AND revoked_at IS NULL")),
    )

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    email: Mapped[str]
    """In lower case: only the account of that address may accept."""
    role: Mapped[str]
    invited_by: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    accepted_at: Mapped[datetime | None]
    accepted_by: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    revoked_at: Mapped[datetime | None]

    @hybrid_method
    def has_state(self, state: InvitationState, now: datetime) -> bool:
        """True if the invitation is in the state; one that was accepted or revoked does not expire."""
        if state == "accepted":
            return not_(is_null(self.accepted_at))
        if state == "revoked":
            return and_(is_null(self.accepted_at), not_(is_null(self.revoked_at)))
        over = self.expires_at <= now
        undecided = and_(is_null(self.accepted_at), is_null(self.revoked_at))
        return and_(undecided, over if state == "expired" else not_(over))

    def state(self, now: datetime) -> InvitationState:
        """Return the state of the invitation."""
        return next(state for state in get_args(InvitationState) if self.has_state(state, now))


class OneTimeToken(Base):
    """The SHA-256 of a secret that was mailed or put into an address, good for one use until it expires.

    `purpose` is `verify_email`, `reset_password`, `change_email`, `invitation`, `installation`, `slack` or
    `slack_link`; `subject` the id of the person, the invitation or the Slack user that it is for.
    """

    __tablename__ = "one_time_tokens"
    __table_args__ = (Index("ix_one_time_tokens_subject", "purpose", "subject"),)

    token_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    purpose: Mapped[str]
    subject: Mapped[str]
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    details: Mapped[dict[str, Any]] = mapped_column(server_default="{}")
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    used_at: Mapped[datetime | None]


class Mail(Leased, Base):
    """A mail in the outbox: written in the transaction of the change that it announces, sent by a job."""

    __tablename__ = "mails"
    __table_args__ = (Index("ix_mails_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),)

    id: Mapped[Id]
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    recipient: Mapped[str]
    template: Mapped[str]
    encrypted_values: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The values of the template's fields as JSON, encrypted because links are secrets; erased once it is sent."""
    created_at: Mapped[datetime]
    sent_at: Mapped[datetime | None]


class ThrottledAttempt(Base):
    """An attempt at something with a limit: a password, a device code, a mail to an address."""

    __tablename__ = "throttled_attempts"
    __table_args__ = (Index("ix_throttled_attempts_subject", "kind", "subject", "at"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    kind: Mapped[str]
    subject: Mapped[str]
    """What it is counted for: an account, or a network address."""
    at: Mapped[datetime] = mapped_column(index=True)


class DeviceAuthorization(Base):
    """A device waits for a person to approve it (RFC 8628)."""

    __tablename__ = "device_authorizations"

    device_code_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    user_code: Mapped[str] = mapped_column(index=True)
    client_id: Mapped[str]
    address: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)
    interval_seconds: Mapped[int]
    polled_at: Mapped[datetime | None]
    decided_at: Mapped[datetime | None]
    approved: Mapped[bool | None]
    user_id: Mapped[str | None] = mapped_column(ForeignKey("users.id"))
    organization_id: Mapped[str | None] = mapped_column(ForeignKey("organizations.id"))
    consumed_at: Mapped[datetime | None]
    resource: Mapped[str | None]
    """The resource of the access tokens that the device wants; None: it signs in as the person."""
    scopes: Mapped[list[str] | None]
    """With a resource: the scopes that it requests, and after the decision those that the person allowed."""


class GitHubLink(Base):
    """A member's own account at GitHub, as GitHub has confirmed it; it ends with the membership."""

    __tablename__ = "github_links"
    __table_args__ = (
        ForeignKeyConstraint(
            ["organization_id", "user_id"],
            ["memberships.organization_id", "memberships.user_id"],
            name="fk_github_links_membership",
            ondelete="CASCADE",
        ),
        Index("uq_github_links_account_id", "organization_id", "account_id", unique=True),
    )

    organization_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(primary_key=True)
    account_id: Mapped[int] = mapped_column(BigInteger)
    """GitHub's id of the account, which survives a rename."""
    login: Mapped[str]
    created_at: Mapped[datetime]
