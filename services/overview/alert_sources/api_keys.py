"""Alerts about API keys that expire."""

from sqlalchemy import (
    func,
    literal,
    literal_column,
    select,
)

from models.api_keys import ApiKey
from rules.web_addresses import API_KEYS
from services.overview.alert_sources.columns import NOW, ORGANIZATION, Query, alert_columns, format_instant, page

EXPIRING = "The API key “%s” expires on %s. Create a new key, update the clients that use this one, and revoke it."
_EXPIRES_SOON = "api_keys.expires_at - least(interval '14 days', (api_keys.expires_at - api_keys.created_at) / 4)"
"""Start of the alert for a key: two weeks before it expires, or a quarter of its lifetime if that is shorter."""


def expiring_keys() -> Query:
    """Return an alert per API key that expires soon."""
    since = literal_column(_EXPIRES_SOON, ApiKey.expires_at.type)
    message = func.format(
        EXPIRING,
        ApiKey.name,
        format_instant(ApiKey.expires_at),
    )
    subject = ("api_key", ApiKey.id, ApiKey.name)
    action = ("Open the API keys", page(API_KEYS))
    query = select(*alert_columns("expiring_key", literal("warning"), since, subject, message, action))
    return query.where(
        ApiKey.organization_id == ORGANIZATION,
        ApiKey.revoked_at.is_(None),
        ApiKey.expires_at > NOW,
        since <= NOW,
    )
