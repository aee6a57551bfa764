"""What tests need to be there: one plain function for each kind of row, on a session that sees every organisation.

Each one gives sensible values to everything that a test does not care for, adds the row and flushes it.
"""

from tests.factories.adding import SYSTEM, now, sha
from tests.factories.freezes import exception, freeze, occurrence, schedule, target
from tests.factories.organizations import (
    AUDIENCE,
    ISSUER,
    ROLES,
    SCOPES,
    SECRET_KEY,
    MintedKey,
    api_key,
    audit_actions,
    calendar_feed,
    connection,
    invitation,
    key_pair,
    login,
    member_token,
    membership,
    organization,
    session_token,
    signer,
    user,
)
from tests.factories.plans import change_plan, grant, grants_of
from tests.factories.repositories import (
    FINDINGS,
    branch,
    branch_enforcement,
    head_check,
    installation,
    pull_request,
    repository,
    watched,
)
from tests.factories.slack import slack_connection, slack_link, slack_message, slack_subscription
from tests.factories.webhooks import webhook, webhook_message

__all__ = [
    "AUDIENCE",
    "FINDINGS",
    "ISSUER",
    "ROLES",
    "SCOPES",
    "SECRET_KEY",
    "SYSTEM",
    "MintedKey",
    "api_key",
    "audit_actions",
    "branch",
    "branch_enforcement",
    "calendar_feed",
    "change_plan",
    "connection",
    "exception",
    "freeze",
    "grant",
    "grants_of",
    "head_check",
    "installation",
    "invitation",
    "key_pair",
    "login",
    "member_token",
    "membership",
    "now",
    "occurrence",
    "organization",
    "pull_request",
    "repository",
    "schedule",
    "session_token",
    "sha",
    "signer",
    "slack_connection",
    "slack_link",
    "slack_message",
    "slack_subscription",
    "target",
    "user",
    "watched",
    "webhook",
    "webhook_message",
]
