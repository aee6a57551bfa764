"""What gives an organisation its plan, and who has had a trial."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import lru_cache
from typing import cast

import orjson
from sqlalchemy import ColumnElement, ForeignKey, Index, LargeBinary, Select, func, select, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from models.base import Base
from models.queries import freezable
from models.repositories import Repository, WatchedBranch
from models.schedule_queries import existing
from models.schedules import Schedule
from rules.billing.grants import GrantedPlan, GrantSource, PlanGrants

_MAX_CACHED = 10_000


class PlanGrant(Base):
    """A grant of a plan; it is in force until its end. A source that needs several tells them apart by reference."""

    __tablename__ = "plan_grants"
    __table_args__ = (
        Index("ix_plan_grants_trials", "until", postgresql_where=text("source = 'trial' AND announced_at IS NULL")),
    )

    organization_id: Mapped[str] = mapped_column(ForeignKey("organizations.id"), primary_key=True)
    source: Mapped[str] = mapped_column(primary_key=True)
    reference: Mapped[str] = mapped_column(primary_key=True, server_default="")
    """Of `stripe`: the id of the subscription; otherwise empty, since there is one grant at most."""
    plan: Mapped[str]
    until: Mapped[datetime | None]
    created_at: Mapped[datetime]
    announced_at: Mapped[datetime | None]
    """When a mail announced the end of a trial."""

    @property
    def as_grant(self) -> GrantedPlan:
        """The grant as the rules see it."""
        return GrantedPlan(cast("GrantSource", self.source), self.plan, self.until)


GRANT_KEY = (PlanGrant.organization_id, PlanGrant.source, PlanGrant.reference)


class UsedTrial(Base):
    """A person had a trial. It has no organisation, so that it outlives the deletion and the purge of one."""

    __tablename__ = "used_trials"

    person_hash: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    """HMAC of the person's id, or of their e-mail address: each trial has a row for both."""
    used_at: Mapped[datetime]


class TrialHashKey(Base):
    """A key of the hashes in `used_trials`, encrypted: it outlives the `SECRET_KEY` from which it was derived."""

    __tablename__ = "trial_hash_keys"

    id: Mapped[str] = mapped_column(primary_key=True)
    encrypted_key: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime]


def grants_of_organizations(
    session: Session, organization_ids: Collection[str], default_plan: str
) -> Mapping[str, PlanGrants]:
    """Return the grants of organisations by id."""
    rows = session.scalars(select(PlanGrant).where(PlanGrant.organization_id.in_(organization_ids))).all()
    return {
        each: PlanGrants([row.as_grant for row in rows if row.organization_id == each], default_plan)
        for each in organization_ids
    }


@lru_cache(_MAX_CACHED)
def read_grants(rows: tuple[str | None, ...], default_plan: str) -> PlanGrants:
    """Return the grants that `find_api_key`, `find_session` and `find_oauth_grant` return.

    Each row has one, as JSON: a list of a list of source, plan and end. None: there is no grant.
    """
    found = [grant for row in rows if row is not None for grant in orjson.loads(row)]
    grants = [
        GrantedPlan(source, plan, datetime.fromisoformat(until) if until else None) for source, plan, until in found
    ]
    return PlanGrants(tuple(grants), default_plan)


def watched_branch_count(organization_id: str | ColumnElement[str]) -> Select[int]:
    """Return the query of the number of watched branches that count towards the limit: what a freeze can reach."""
    return (
        select(func.count())
        .select_from(WatchedBranch)
        .join(Repository, Repository.id == WatchedBranch.repository_id)
        .where(*freezable(organization_id))
    )


def schedule_count(organization_id: str | ColumnElement[str]) -> Select[int]:
    """Return the query of the number of schedules that count towards the limit: those that are not deleted."""
    return select(func.count()).select_from(Schedule).where(existing(organization_id))


COUNTS: Mapping[str, Callable[[str | ColumnElement[str]], Select[int]]] = {
    "watched_branches": watched_branch_count,
    "schedules": schedule_count,
}
"""By the name of the limit: the query of the number that counts towards it, of an organisation."""


def usage_of(session: Session, organization_id: str) -> dict[str, int]:
    """Return how much of the limited things an organisation has, by the names of the limits."""
    counts = [count(organization_id).scalar_subquery().label(name) for name, count in COUNTS.items()]
    return dict(session.execute(select(*counts)).mappings().one())
