"""Events of Slack: that our App was uninstalled in a workspace, or its token revoked, in either order.

An event can be late, and be sent again for minutes. One that is older than the connection is about an earlier one.
"""

import logging
from datetime import UTC, datetime
from typing import Any

from rules.access.permissions import SYSTEM
from services.core.unit_of_work import UnitOfWork
from services.slack.connection_loss import mark_lost
from services.slack.connections import enter_workspace, find_connection

logger = logging.getLogger(__name__)


def handle_event(uow: UnitOfWork, body: dict[str, Any]) -> bool:
    """Record what a signed `event_callback` says about a connected workspace; False if it says nothing new."""
    event, team_id = body.get("event"), body.get("team_id")
    why = _loss(event) if isinstance(event, dict) else None
    if why is None or not isinstance(team_id, str) or enter_workspace(uow, team_id) is None:
        return False
    connection = find_connection(uow, lock=True)
    if connection is None or connection.lost_at is not None:
        return False
    happened_at = _time_of(body)
    if happened_at is not None and happened_at < connection.connected_at:
        logger.info("event %s of %s is older than its connection", why, team_id)
        return False
    with uow.impersonate(actor=SYSTEM, source="slack"):
        mark_lost(uow, connection, why)
    return True


def _loss(event: dict[str, Any]) -> str | None:
    """Return how an event ends a connection, or None if it does not."""
    if event.get("type") == "app_uninstalled":
        return "app_uninstalled"
    tokens = event.get("tokens")
    revoked = event.get("type") == "tokens_revoked" and isinstance(tokens, dict) and bool(tokens.get("bot"))
    return "token_revoked" if revoked else None


def _time_of(body: dict[str, Any]) -> datetime | None:
    """Return the end of the second in which an event happened."""
    seconds = body.get("event_time")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds < 2**33:
        return None
    return datetime.fromtimestamp(seconds + 1, UTC)
