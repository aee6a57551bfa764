"""Rules of exceptions: what lets pull requests merge during a freeze without a decision of a person."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from models.base import Base, Id


class ExceptionRule(Base):
    """A rule of an organisation: which pull requests it lets in, past which freezes. One that is deleted is gone."""

    __tablename__ = "exception_rules"

    id: Mapped[Id]
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"))
    name: Mapped[str]
    """Unique in its organisation, in whatever case."""
    enabled: Mapped[bool]
    reason: Mapped[str]
    """The reason of the exceptions that it grants."""
    scope: Mapped[dict[str, Any]]
    """The contract's `Scope` object."""
    freezes: Mapped[str]
    """The freezes that it lets past: `all`, those that were started by hand (`manual`), or those of `schedules`."""
    schedule_ids: Mapped[list[str]]
    """Of `schedules`: those whose freezes it lets past."""
    allow: Mapped[dict[str, Any]]
    """The conditions, as the contract has them (`rules/exceptions/language.py`)."""
    identities: Mapped[dict[str, Any]]
    """Whom the names in `allow` meant when it was saved (`Identities.as_json`)."""
    per_freeze: Mapped[int | None]
    """How many pull requests it lets past one freeze at most; None: any number."""
    created_at: Mapped[datetime]
    created_by: Mapped[dict[str, Any]]
    updated_at: Mapped[datetime]
    facts_changed_at: Mapped[datetime | None]
    """When GitHub last said that one of its teams has other members, or that a label was changed."""

    __table_args__ = (Index("ix_exception_rules_page", "organization_id", "created_at", "id"),)


class ExceptionRuleResult(Base):
    """What the last pass that judged a pull request found of a rule."""

    __tablename__ = "exception_rule_results"

    pull_request_id: Mapped[str] = mapped_column(ForeignKey("pull_requests.id", ondelete="CASCADE"), primary_key=True)
    rule_id: Mapped[str] = mapped_column(
        ForeignKey("exception_rules.id", ondelete="CASCADE"), primary_key=True, index=True
    )
    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), index=True)
    head_sha: Mapped[str]
    """The head that was judged."""
    outcome: Mapped[str]
    """`met`, `missed`, `unknown` (facts could not be read), or `revoked`: met, but a person revoked the exception."""
    conditions: Mapped[list[dict[str, Any]]] = mapped_column(JSONB)
    """Of each condition `outcome`, `requires` and `found` (`rules.exceptions.evaluation.ConditionResult`)."""
    judged_at: Mapped[datetime]
    """Since when it is so."""


Index("uq_exception_rules_name", ExceptionRule.organization_id, func.lower(ExceptionRule.name), unique=True)
