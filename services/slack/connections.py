"""The workspace of an organisation: connect it, show it, disconnect it.

Slack redirects the user to our page with the `state` of the install URL (`redirect_states`) and a code, which is
exchanged for the token of our bot. No transaction is open meanwhile.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import delete, func, select, text
from sqlalchemy.dialects.postgresql import insert

from integrations.slack import Slack
from integrations.slack.client import SCOPES, SlackInstallation
from models.organizations import Organization
from models.slack import SlackConnection, SlackLink, SlackSubscription
from rules import web_addresses
from rules.errors import ServiceError
from rules.ids import new_id
from rules.web_addresses import WebOrigin
from services.alerts.alerts import resolve_alerts
from services.core.rotated_secrets import SecretKey
from services.core.unit_of_work import UnitOfWork
from services.organizations import organizations, redirect_states
from services.slack.calls import calling_slack, slack_of
from services.slack.connection_loss import LOST, SCOPES_MISSING, alert_missing_scopes, target_of
from services.slack.subscriptions import remove_all
from services.slack.tokens import CONNECTIONS, encrypt_tokens, next_refresh

_FIND = text("SELECT * FROM find_slack_connection(:team)")
"""The live connection of a workspace in any organisation, past row-level security: `connection_id, organization_id`."""
_KEEP_TOKEN = text("SELECT keep_slack_token(:team)")
"""Deletes removed connections of a workspace whose token is still to be revoked: that would end the new token too."""

POSTPONED_FOR = timedelta(minutes=1)
"""How much later a token is revoked when a workspace is being connected: longer than Slack takes to exchange a code."""


def show(uow: UnitOfWork) -> dict[str, Any]:
    """Return the connection as `GET /v1/slack` does, with the caller's Slack user."""
    connection = find_connection(uow)
    mine = select(SlackLink.slack_user_id).where(
        SlackLink.organization_id == uow.organization, SlackLink.user_id == uow.caller.user_id
    )
    linked = uow.session.scalar(mine)
    counted = select(func.count()).where(SlackSubscription.organization_id == uow.organization)
    return {
        **_view(connection),
        "available": uow.ports.find(Slack) is not None,
        "subscription_count": uow.session.scalars(counted).one(),
        "me": {"linked": linked is not None, "slack_user_id": linked},
    }


def install_url(uow: UnitOfWork, team_id: str | None) -> dict[str, Any]:
    """Return the URL for installing the app in a workspace, with a new state.

    Raise `slack_already_connected` if a workspace is connected and `team_id` is not its id, and `slack_unavailable`.
    """
    slack = slack_of(uow)
    connection = find_connection(uow)
    if connection is not None and connection.lost_at is None and connection.team_id != team_id:
        raise _already_connected(connection)
    state, expires_at = redirect_states.issue(uow, "slack")
    organization = uow.session.get_one(Organization, uow.organization)
    uow.audit("slack.requested", ("organization", organization.id, organization.name))
    return {"url": slack.authorize_url(state, _redirect_uri(uow), team_id), "expires_at": expires_at}


def claim(uow: UnitOfWork, state: str, code: str) -> dict[str, Any]:
    """Connect the workspace that a code is for; if it is connected already, it gets the new token.

    Raise `invalid_parameter` if the state is not the caller's, `slack_already_connected` if the organisation has
    another workspace or another organisation has this one, `invalid_state` if the app was installed for all workspaces
    of an Enterprise Grid organisation, and `slack_unavailable`, also while a former token is being revoked.
    """
    slack = slack_of(uow)
    redirect_states.require_own(uow, "slack", state)
    _postpone_revocations(uow)
    with calling_slack(uow):
        installation = slack.exchange_code(code, _redirect_uri(uow))
    organizations.lock_current(uow)
    redirect_states.consume_own(uow, "slack", state)
    if installation.team_id is None:
        _revoke(uow, installation)
        message = (
            "Slack installed the app for all workspaces of an Enterprise Grid organisation. Install it in one of them, "
            "which is chosen at the top of Slack's page."
        )
        raise ServiceError("invalid_state", message, commit_on_error=True)
    existing = find_connection(uow, lock=True)
    if existing is not None and existing.lost_at is None and existing.team_id != installation.team_id:
        # If another organisation has this workspace, revoking the token would end its connection.
        if uow.session.execute(_FIND, {"team": installation.team_id}).first() is None:
            _revoke(uow, installation)
        refusal = _already_connected(existing)
        raise ServiceError(refusal.code, refusal.message, commit_on_error=True)
    before = _audit_snapshot(existing)
    connection = _store(uow, existing, installation)
    uow.audit("slack.connected", target_of(connection), before=before, after=_audit_snapshot(connection))
    resolve_alerts(uow, [LOST, SCOPES_MISSING])
    if missing := _missing_scopes(connection):
        alert_missing_scopes(uow, connection, missing)
    return show(uow)


def disconnect(uow: UnitOfWork) -> None:
    """Disconnect the workspace, if there is one, with all its links and subscriptions; a job revokes the token."""
    organizations.lock_current(uow)
    connection = find_connection(uow, lock=True)
    if connection is None:
        return
    before = _audit_snapshot(connection)
    _forget_workspace(uow, connection)
    if connection.encrypted_tokens is None:
        uow.session.delete(connection)
    else:
        connection.removed_at = connection.due_at = uow.now
        connection.attempts = 0
        uow.wake(CONNECTIONS.kind)
    uow.session.flush()
    resolve_alerts(uow, [LOST, SCOPES_MISSING])
    uow.audit("slack.disconnected", target_of(connection), before=before, after=None)


def find_connection(uow: UnitOfWork, *, lock: bool = False) -> SlackConnection | None:
    """Return the organisation's connection, live or lost, or None."""
    query = select(SlackConnection).where(
        SlackConnection.organization_id == uow.organization, SlackConnection.removed_at.is_(None)
    )
    options = {"populate_existing": True}
    return uow.session.scalars(query.with_for_update() if lock else query, execution_options=options).one_or_none()


def enter_workspace(uow: UnitOfWork, team_id: str) -> SlackConnection | None:
    """Continue in the organisation that a workspace is connected to, and return the connection; None if there is none.

    For requests of Slack, which name a workspace and no organisation.
    """
    row = uow.session.execute(_FIND, {"team": team_id}).one_or_none() if "\x00" not in team_id else None
    if row is None:
        return None
    uow.bind_organization(row.organization_id)
    return find_connection(uow)


def _forget_workspace(uow: UnitOfWork, connection: SlackConnection) -> None:
    """Remove the links and subscriptions of a workspace."""
    remove_all(uow)
    uow.session.execute(delete(SlackLink).where(SlackLink.organization_id == connection.organization_id))


def _store(uow: UnitOfWork, existing: SlackConnection | None, installation: SlackInstallation) -> SlackConnection:
    """Store an installation, in the row of a live connection or in place of a lost one; return its connection.

    Raise `slack_already_connected` if another organisation has the workspace.
    """
    uow.session.execute(_KEEP_TOKEN, {"team": installation.team_id})
    if existing is not None and existing.lost_at is not None:
        if existing.team_id != installation.team_id:
            _forget_workspace(uow, existing)
        uow.session.delete(existing)
        uow.session.flush()
        existing = None
    connection_id = existing.id if existing is not None else new_id("slk")
    values = {
        "team_name": installation.team_name,
        "bot_user_id": installation.bot_user_id,
        "scopes": list(installation.scopes),
        "encrypted_tokens": encrypt_tokens(uow.ports[SecretKey].current, connection_id, installation.tokens),
        "connected_by": uow.actor.as_json(),
        "connected_at": uow.now,
        "due_at": next_refresh(uow.now, installation.tokens),
        "attempts": 0,
    }
    if existing is not None:
        for name, value in values.items():
            setattr(existing, name, value)
        uow.session.flush()
        return existing
    key = {"id": connection_id, "organization_id": uow.organization, "team_id": installation.team_id}
    added = insert(SlackConnection).values({**key, **values}).on_conflict_do_nothing().returning(SlackConnection.id)
    if uow.session.scalar(added) is None:
        message = f"The Slack workspace {installation.team_name} is connected to another organisation."
        raise ServiceError("slack_already_connected", message)
    return uow.session.get_one(SlackConnection, connection_id)


def _postpone_revocations(uow: UnitOfWork) -> None:
    """Have no token of the organisation revoked for a while: until it is revoked, Slack issues it again.

    Raise `slack_unavailable` while one is being revoked.
    """
    removed = select(SlackConnection).where(
        SlackConnection.organization_id == uow.organization, SlackConnection.removed_at.is_not(None)
    )
    for connection in uow.session.scalars(removed.with_for_update(), execution_options={"populate_existing": True}):
        if connection.lease_until is not None and connection.lease_until > uow.now:
            message = "The former connection to Slack is just being ended. Try again in a few seconds."
            raise ServiceError("slack_unavailable", message)
        connection.due_at = max(connection.due_at or uow.now, uow.now + POSTPONED_FOR)
    uow.session.flush()


def _revoke(uow: UnitOfWork, installation: SlackInstallation) -> None:
    """Have the token of an installation revoked that is not stored: as a connection that is removed already."""
    connection_id = new_id("slk")
    uow.session.add(
        SlackConnection(
            id=connection_id,
            organization_id=uow.organization,
            team_id=installation.team_id or installation.enterprise_id or "",
            team_name=installation.team_name,
            bot_user_id=installation.bot_user_id,
            scopes=list(installation.scopes),
            encrypted_tokens=encrypt_tokens(uow.ports[SecretKey].current, connection_id, installation.tokens),
            connected_by=uow.actor.as_json(),
            connected_at=uow.now,
            removed_at=uow.now,
            due_at=uow.now,
        )
    )
    uow.session.flush()
    uow.wake(CONNECTIONS.kind)


def _view(connection: SlackConnection | None) -> dict[str, Any]:
    if connection is None:
        return {"state": "none", "team": None, "connected_by": None, "connected_at": None, "missing_scopes": []}
    return {
        "state": "connected" if connection.lost_at is None else "lost",
        "team": {"id": connection.team_id, "name": connection.team_name},
        "connected_by": connection.connected_by,
        "connected_at": connection.connected_at,
        "missing_scopes": _missing_scopes(connection) if connection.lost_at is None else [],
    }


def _audit_snapshot(connection: SlackConnection | None) -> dict[str, Any] | None:
    """Return what the audit log shows of a connection."""
    if connection is None:
        return None
    return {
        "state": "connected" if connection.lost_at is None else "lost",
        "team": connection.team_id,
        "scopes": list(connection.scopes),
    }


def _missing_scopes(connection: SlackConnection) -> list[str]:
    return [scope for scope in SCOPES if scope not in connection.scopes]


def _redirect_uri(uow: UnitOfWork) -> str:
    return f"{uow.ports[WebOrigin].url}{web_addresses.SLACK}"


def _already_connected(connection: SlackConnection) -> ServiceError:
    message = (
        f"The Slack workspace {connection.team_name} ({connection.team_id}) is connected already. Disconnect it first. "
        "To install the app there again, send its id as team."
    )
    return ServiceError("slack_already_connected", message)
