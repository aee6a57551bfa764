"""Links: which person a Slack user is.

E-mail addresses prove nothing here, because a workspace's administrators can change them. A Slack user gets a one-time
address at our web origin, where a person who is signed in confirms that this Slack user may act as them. From then on,
what the Slack user types and clicks has the role that the person has in the organisation at that moment.
"""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, or_, select

from models.slack import SlackConnection, SlackLink
from rules import web_addresses
from rules.errors import ServiceError, field_error
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork
from services.identity import one_time_tokens
from services.organizations import memberships

LINK_LIFETIME = timedelta(minutes=10)


def issue_link(uow: UnitOfWork, connection: SlackConnection, slack_user_id: str, slack_user_name: str) -> str:
    """Return a one-time address for a Slack user; earlier ones for the same user become invalid."""
    subject = f"{connection.team_id} {slack_user_id}"
    one_time_tokens.invalidate(uow, "slack_link", subject)
    details = {
        "team_id": connection.team_id,
        "team_name": connection.team_name,
        "slack_user_id": slack_user_id,
        "slack_user_name": slack_user_name,
    }
    token = one_time_tokens.issue(
        uow, "slack_link", subject, LINK_LIFETIME, organization_id=connection.organization_id, details=details
    )
    return f"{uow.ports[WebOrigin].url}{web_addresses.SLACK_LINK}?{urlencode({'token': token})}"


def find_request(uow: UnitOfWork, token: str) -> dict[str, Any]:
    """Return the Slack user that a token is of, the organisation and the caller's role there; raise `not_found`.

    Runs in units of work of the database role `identity`: the person may act in another organisation meanwhile.
    """
    request = one_time_tokens.peek(uow, "slack_link", token)
    row = None if request is None else memberships.find(uow, request.organization_id)
    if request is None or row is None:
        message = "This token is unknown, was used, is older than ten minutes, or is of an organisation of others."
        raise ServiceError("not_found", message)
    organization, role, _ = row
    return {
        "organization": organization,
        "role": role,
        "team": {"id": request.details["team_id"], "name": request.details["team_name"]},
        "slack_user": {"id": request.details["slack_user_id"], "name": request.details["slack_user_name"]},
    }


def link(uow: UnitOfWork, token: str) -> dict[str, Any]:
    """Let the Slack user of a token act as the caller from now on, and return its id; earlier links of both end.

    Raise `invalid_parameter` if the token is not valid in this organisation, `invalid_state` if its workspace is not
    connected any more.
    """
    request = one_time_tokens.consume(uow, "slack_link", token)
    if request is None or request.organization_id != uow.organization:
        raise _invalid_token()
    team_id, slack_user_id = request.details["team_id"], request.details["slack_user_id"]
    if not _is_connected(uow, team_id):
        raise ServiceError("invalid_state", "The Slack workspace is not connected any more.")
    for earlier in _lock_links(uow, slack_user_id):
        if (earlier.user_id, earlier.slack_user_id) == (uow.caller.user_id, slack_user_id):
            return {"slack_user_id": slack_user_id}
        _end(uow, earlier)
    row = SlackLink(
        organization_id=uow.organization,
        team_id=team_id,
        slack_user_id=slack_user_id,
        user_id=uow.caller.user_id,
        created_at=uow.now,
    )
    uow.session.add(row)
    uow.session.flush()
    after = {"team": team_id, "slackUserId": slack_user_id}
    uow.audit(
        "slack.linked", _target(uow, row), before=None, after=after, slackUserName=request.details["slack_user_name"]
    )
    return {"slack_user_id": slack_user_id}


def unlink(uow: UnitOfWork) -> bool:
    """End the caller's link; False if there is none."""
    query = select(SlackLink).where(
        SlackLink.organization_id == uow.organization, SlackLink.user_id == uow.caller.user_id
    )
    row = uow.session.scalars(query.with_for_update()).one_or_none()
    if row is not None:
        _end(uow, row)
    return row is not None


def _is_connected(uow: UnitOfWork, team_id: str) -> bool:
    """True if the workspace is connected; its disconnection waits for this transaction."""
    query = select(SlackConnection.id).where(
        SlackConnection.organization_id == uow.organization,
        SlackConnection.team_id == team_id,
        SlackConnection.removed_at.is_(None),
        SlackConnection.lost_at.is_(None),
    )
    return uow.session.scalar(query.with_for_update(key_share=True)) is not None


def _lock_links(uow: UnitOfWork, slack_user_id: str) -> list[SlackLink]:
    """Return the links of the Slack user and of the caller, locked."""
    query = select(SlackLink).where(
        SlackLink.organization_id == uow.organization,
        or_(SlackLink.slack_user_id == slack_user_id, SlackLink.user_id == uow.caller.user_id),
    )
    return list(uow.session.scalars(query.order_by(SlackLink.slack_user_id).with_for_update()))


def _end(uow: UnitOfWork, row: SlackLink) -> None:
    uow.session.delete(row)
    uow.session.flush()
    before = {"team": row.team_id, "slackUserId": row.slack_user_id}
    uow.audit("slack.unlinked", _target(uow, row), before=before, after=None)


def _target(uow: UnitOfWork, row: SlackLink) -> tuple[str, str, str]:
    name = uow.session.scalars(select(func.member_name(row.user_id, row.organization_id))).one()
    return "user", row.user_id, name


def _invalid_token() -> ServiceError:
    message = "is invalid, expired or already used, or is of another organisation; request a new link in Slack"
    return field_error("/token", message)
