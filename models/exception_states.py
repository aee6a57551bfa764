"""The states of exceptions in SQL, as `rules.freezes.pull_request_exceptions.state_of` defines them."""

from datetime import datetime

from sqlalchemy import ColumnElement, and_, not_, or_

from models.exception_queries import is_standing
from models.exceptions import PullRequestException
from models.queries import in_force
from rules.freezes.pull_request_exceptions import ExceptionState


def state_is(state: ExceptionState, now: datetime) -> ColumnElement[bool]:
    """Return the condition for exceptions in a state at `now`; the query joins their freezes."""
    row = PullRequestException
    denied = row.decision.is_not_distinct_from("denied")
    over = or_(
        row.expired_at.is_not(None),
        and_(row.expires_at.is_not(None), row.expires_at <= now),
        not_(in_force(now)),
    )
    conditions: dict[ExceptionState, ColumnElement[bool]] = {
        "pending": and_(row.decision.is_(None), row.revoked_at.is_(None), row.expired_at.is_(None), not_(over)),
        "granted": and_(is_standing(now), in_force(now)),
        "denied": denied,
        "revoked": and_(not_(denied), row.revoked_at.is_not(None)),
        "expired": and_(not_(denied), row.revoked_at.is_(None), over),
    }
    return conditions[state]
