"""Exceptions: single pull requests that may merge during a freeze."""

from datetime import datetime
from typing import Any, LiteralString

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.ext.hybrid import hybrid_method, hybrid_property
from sqlalchemy.orm import Mapped, aliased, mapped_column

from models.base import Base, Id
from models.predicates import TEXT_NOW, Condition, and_, as_text, is_ahead, is_null, is_value, not_, or_
from rules.freezes.pull_request_exceptions import STATES, ExceptionState


class PullRequestException(Base):
    """One pull request, one freeze: requested, decided, and ended. Its state follows from its instants.

    It applies to the pull request on one base (`branch_id`), and under `pin_to_head` only to the commit `head_sha`.
    """

    __tablename__ = "exceptions"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    request_group_id: Mapped[str]
    freeze_id: Mapped[str] = mapped_column(ForeignKey("freezes.id"))
    pull_request_id: Mapped[str] = mapped_column(ForeignKey("pull_requests.id"))
    branch_id: Mapped[str] = mapped_column(ForeignKey("watched_branches.id"))
    reason: Mapped[str]
    pin_to_head: Mapped[bool]
    head_sha: Mapped[str | None]
    """The head at the time of the request, or of the grant."""
    created_at: Mapped[datetime]
    requested_by: Mapped[dict[str, Any] | None]
    requested_at: Mapped[datetime | None]
    decision: Mapped[str | None]
    """`granted` or `denied`; None while it is pending."""
    decided_by: Mapped[dict[str, Any] | None]
    decided_at: Mapped[datetime | None]
    decision_reason: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    revoked_by: Mapped[dict[str, Any] | None]
    revoked_at: Mapped[datetime | None]
    expired_at: Mapped[datetime | None]
    """When it ended by its time or with its freeze, once that is recorded."""
    decided_through: Mapped[str | None]
    """The audit source of the decision, such as `compat`; None also if that was not recorded yet."""
    used_at: Mapped[datetime | None]
    used_commit: Mapped[str | None]
    rule_id: Mapped[str | None] = mapped_column(ForeignKey("exception_rules.id", ondelete="SET NULL"))
    """The rule that granted it; None also once that is deleted."""
    rule_name: Mapped[str | None]
    """The name of the rule when it granted it; None for what people have granted or requested."""

    __table_args__ = (
        Index("ix_exceptions_page", "organization_id", "created_at", "id"),
        Index("ix_exceptions_group", "request_group_id"),
        Index("ix_exceptions_freeze_id", "freeze_id"),
        Index("ix_exceptions_pull_request_id", "pull_request_id"),
        Index("ix_exceptions_branch_id", "branch_id"),
        Index("ix_exceptions_rule_id", "rule_id", postgresql_where=text("rule_id IS NOT NULL")),
    )

    @hybrid_property
    def is_open(self) -> bool:
        """True if the exception was neither denied nor revoked, and its end is not recorded."""
        denied = is_value(self.decision, "denied")
        return and_(not_(denied), is_null(self.revoked_at), is_null(self.expired_at))

    @hybrid_property
    def is_undecided(self) -> bool:
        """True if the exception is open, and was not decided on."""
        return and_(is_null(self.decision), is_null(self.revoked_at), is_null(self.expired_at))

    @hybrid_method
    def lasts(self, now: datetime, freeze_in_force: Condition) -> bool:
        """True if neither the exception's own end has come nor that of its freeze."""
        return and_(is_ahead(self.expires_at, now), freeze_in_force)

    @hybrid_method
    def is_active(self, now: datetime, freeze_in_force: Condition) -> bool:
        """True if the exception is granted: it lets its pull request pass the freeze."""
        return and_(self.decision == "granted", self.is_open, self.lasts(now, freeze_in_force))

    @hybrid_method
    def has_state(self, state: ExceptionState, now: datetime, freeze_in_force: Condition) -> bool:
        """True if the exception is in the state.

        A denial or a revocation is final. What is open ends with its freeze, and at its own end, recorded or not.
        """
        denied = is_value(self.decision, "denied")
        if state == "denied":
            return denied
        if state == "revoked":
            return and_(not_(denied), not_(is_null(self.revoked_at)))
        if state == "expired":
            over = or_(not_(is_null(self.expired_at)), not_(self.lasts(now, freeze_in_force)))
            return and_(not_(denied), is_null(self.revoked_at), over)
        if state == "granted":
            return self.is_active(now, freeze_in_force)
        return and_(self.is_undecided, self.lasts(now, freeze_in_force))

    def state(self, now: datetime, *, freeze_in_force: bool) -> ExceptionState:
        """Return the state of the exception."""
        return next(state for state in STATES if self.has_state(state, now, freeze_in_force))


Index(
    "ix_exceptions_pending",
    PullRequestException.organization_id,
    PullRequestException.created_at,
    PullRequestException.id,
    postgresql_where=PullRequestException.is_undecided,
)
Index(
    "uq_exceptions_open",
    PullRequestException.freeze_id,
    PullRequestException.pull_request_id,
    PullRequestException.branch_id,
    unique=True,
    postgresql_where=PullRequestException.is_open,
)
Index(
    "ix_exceptions_open_by_rule",
    PullRequestException.branch_id,
    postgresql_where=and_(PullRequestException.rule_name.is_not(None), PullRequestException.is_open),
)
Index(
    "ix_exceptions_expires_at",
    PullRequestException.expires_at,
    postgresql_where=and_(PullRequestException.is_open, PullRequestException.expires_at.is_not(None)),
)

_EXCEPTION = aliased(PullRequestException, name="e")
ACTIVE: LiteralString = as_text(_EXCEPTION.is_active(TEXT_NOW, freeze_in_force=True))
"""`is_active` for statements written as text, of freezes in force: of the table `exceptions` as `e`, at `:now`."""
