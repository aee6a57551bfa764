"""Operations of the tag Slack."""

from typing import Any

from schemas.replies import RawReply, SecretReply
from services.core.pagination import Page
from services.core.unit_of_work import UnitOfWork
from services.organizations import redirect_states
from services.slack import channels, connections, links, manifest, subscriptions


def get_slack_connection(uow: UnitOfWork) -> object:
    """Return the organisation's workspace, and the caller's Slack user."""
    return connections.show(uow)


def get_slack_install_url(uow: UnitOfWork, team: str | None) -> SecretReply:
    """Return the page of Slack where the app is installed for this organisation."""
    return SecretReply(connections.install_url(uow, team))


def get_slack_install_request(uow: UnitOfWork, state: str) -> object:
    """Return the organisation that a workspace was requested for."""
    return redirect_states.find_request(uow, "slack", state)


def claim_slack_workspace(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Connect the workspace in which the app was installed."""
    return connections.claim(uow, body["state"], body["code"])


def disconnect_slack(uow: UnitOfWork) -> None:
    """Disconnect the workspace."""
    connections.disconnect(uow)


def get_slack_manifest(uow: UnitOfWork) -> RawReply:
    """Return the manifest of the app."""
    return RawReply(200, {"Content-Type": "application/json"}, manifest.render(uow))


def list_slack_channels(uow: UnitOfWork, q: str | None, limit: int, cursor: str | None) -> Page:
    """List the channels of the workspace."""
    return channels.list_channels(uow, q, cursor, limit)


def list_slack_subscriptions(uow: UnitOfWork, limit: int, cursor: str | None) -> Page:
    """List the subscribed channels, newest first."""
    return subscriptions.list_subscriptions(uow, cursor, limit)


def subscribe_slack_channel(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Subscribe a channel."""
    return subscriptions.subscribe(uow, subscriptions.WantedSubscription(**body))


def update_slack_subscription(uow: UnitOfWork, slack_subscription_id: str, body: dict[str, Any]) -> object:
    """Change a channel's subscription."""
    return subscriptions.change(uow, slack_subscription_id, body)


def unsubscribe_slack_channel(uow: UnitOfWork, slack_subscription_id: str) -> None:
    """Remove a channel's subscription."""
    subscriptions.unsubscribe(uow, slack_subscription_id)


def link_slack_user(uow: UnitOfWork, body: dict[str, Any]) -> object:
    """Let a Slack user act as the caller."""
    return links.link(uow, body["token"])


def unlink_slack_user(uow: UnitOfWork) -> None:
    """End the caller's link."""
    links.unlink(uow)


def get_slack_link_request(uow: UnitOfWork, token: str) -> object:
    """Return the Slack user that is to act as the caller."""
    return links.find_request(uow, token)
