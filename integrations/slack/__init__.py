"""Slack: a thin client of its Web API, and the signatures of its requests."""

from integrations.slack.client import Slack, SlackSettings
from integrations.slack.errors import (
    SlackChannelError,
    SlackContentError,
    SlackError,
    SlackScopeError,
    SlackTokenError,
    SlackUnavailableError,
)

__all__ = [
    "Slack",
    "SlackChannelError",
    "SlackContentError",
    "SlackError",
    "SlackScopeError",
    "SlackSettings",
    "SlackTokenError",
    "SlackUnavailableError",
]
