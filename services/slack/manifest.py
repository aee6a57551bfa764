"""The manifest of the Slack app: what an operator pastes at Slack to create it."""

from typing import Any

import orjson

from integrations.slack import Slack
from integrations.slack.client import DEFAULT_COMMAND, SCOPES
from rules import web_addresses
from rules.access.access_tokens import AccessTokenSettings
from rules.web_addresses import WebOrigin
from services.core.unit_of_work import UnitOfWork

REQUESTS = "/webhooks/slack"
"""The one address to which Slack sends commands, interactions and events."""


def render(uow: UnitOfWork) -> bytes:
    """Return the manifest as JSON, with names as Slack defines them."""
    slack = uow.ports.find(Slack)
    command = slack.settings.command if slack else DEFAULT_COMMAND
    request_url = f"{uow.ports[AccessTokenSettings].audience}{REQUESTS}"
    manifest: dict[str, Any] = {
        "display_information": {
            "name": "Change freezes",
            "description": "Freeze merges, request and decide exceptions, and know before a freeze begins.",
        },
        "features": {
            "bot_user": {"display_name": "Change freezes", "always_online": True},
            "slash_commands": [
                {
                    "command": command,
                    "url": request_url,
                    "description": "Freeze merges, lift freezes, request exceptions",
                    "usage_hint": "status | start | lift | request | subscribe | link | help",
                    "should_escape": False,
                }
            ],
        },
        "oauth_config": {
            "redirect_urls": [f"{uow.ports[WebOrigin].url}{web_addresses.SLACK}"],
            "scopes": {"bot": list(SCOPES)},
        },
        "settings": {
            "event_subscriptions": {"request_url": request_url, "bot_events": ["app_uninstalled", "tokens_revoked"]},
            "interactivity": {"is_enabled": True, "request_url": request_url},
            "org_deploy_enabled": False,
            "socket_mode_enabled": False,
            "token_rotation_enabled": False,
        },
    }
    return orjson.dumps(manifest, option=orjson.OPT_INDENT_2)
