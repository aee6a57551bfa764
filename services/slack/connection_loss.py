"""What Slack takes away: the whole connection, a scope, or a channel; each opens an alert."""

from models.slack import SlackConnection, SlackSubscription
from rules import web_addresses
from rules.web_addresses import WebOrigin
from services.alerts.alerts import Alert, open_alert, resolve_alerts
from services.core.unit_of_work import UnitOfWork

LOST, SCOPES_MISSING, PAUSED = "slack_connection_lost", "slack_scopes_missing", "slack_subscription_paused"
_CHANNEL_REASONS = {
    "channel_not_found": "the channel is gone, or private without our bot",
    "not_in_channel": "our bot is not in the channel",
    "is_archived": "the channel is archived",
    "restricted_action": "the channel's settings let our bot post nothing",
}


def mark_lost(uow: UnitOfWork, connection: SlackConnection, why: str) -> None:
    """Record that Slack has ended a connection, erase its token, and open an alert.

    Links and subscriptions stay for when the workspace is connected again. `why` is Slack's code. A connection that is
    lost or removed already stays as it is.
    """
    if connection.lost_at is not None or connection.removed_at is not None:
        return
    connection.lost_at, connection.lost_why = uow.now, why
    connection.encrypted_tokens = connection.due_at = None
    uow.session.flush()
    uow.audit("slack.lost", target_of(connection), before={"state": "connected"}, after={"state": "lost"}, why=why)
    message = (
        f"Slack ended the connection with {connection.team_name} ({why}): no messages are posted, and commands do "
        "nothing. Install the app again."
    )
    resolve_alerts(uow, [SCOPES_MISSING])
    _alert(uow, LOST, LOST, target_of(connection), message)


def record_missing_scope(uow: UnitOfWork, connection: SlackConnection, needed: str) -> None:
    """Record that a call needed a scope that was not granted, and open an alert."""
    connection.scopes = [scope for scope in connection.scopes if scope != needed]
    uow.session.flush()
    alert_missing_scopes(uow, connection, [needed])


def alert_missing_scopes(uow: UnitOfWork, connection: SlackConnection, missing: list[str]) -> None:
    """Open the alert about scopes that were not granted."""
    names = ", ".join(missing)
    message = f"The Slack app lacks permissions in {connection.team_name}: {names}. Install it again."
    _alert(uow, SCOPES_MISSING, SCOPES_MISSING, target_of(connection), message)


def pause_subscription(uow: UnitOfWork, subscription: SlackSubscription, why: str) -> None:
    """Pause the subscription of a channel that Slack refuses, and open an alert; `why` is Slack's code.

    A subscription that is paused already stays as it is.
    """
    if subscription.paused_at is not None:
        return
    subscription.paused_at, subscription.paused_why = uow.now, why
    uow.session.flush()
    target = subscription_target(subscription)
    before, after = {"state": "active"}, {"state": "paused"}
    uow.audit("slack.subscription_updated", target, before=before, after=after, why=why)
    reason = _CHANNEL_REASONS.get(why, why)
    message = f"No messages are posted to #{subscription.channel_name}: {reason}. Resume or remove the subscription."
    _alert(uow, paused_key(subscription), PAUSED, target, message)


def paused_key(subscription: SlackSubscription) -> str:
    """Return the key of the alert about a paused subscription."""
    return f"{PAUSED} {subscription.id}"


def target_of(connection: SlackConnection) -> tuple[str, str, str]:
    """Return a workspace as target of audit entries and subject of alerts."""
    return "slack_workspace", connection.team_id, connection.team_name


def subscription_target(subscription: SlackSubscription) -> tuple[str, str, str]:
    """Return a subscription as target of audit entries and subject of alerts."""
    return "slack_subscription", subscription.id, subscription.channel_name


def _alert(uow: UnitOfWork, key: str, kind: str, subject: tuple[str, str, str], message: str) -> None:
    action = ("Open the settings of Slack", f"{uow.ports[WebOrigin].url}{web_addresses.SLACK}")
    open_alert(uow, Alert(key, kind, "warning", subject, message, action))
