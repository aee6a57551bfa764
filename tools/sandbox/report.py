"""What the sandbox reports: `sandbox.json` for programs, a few lines for people."""

import json
from typing import Any

from tools.fake_stripe.keys import SECRET_KEY
from tools.sandbox.console import say
from tools.sandbox.persisted_secrets import PersistedSecrets, write_private
from tools.sandbox.settings import ENVIRONMENT, REPORT, ROOT, Settings
from tools.sandbox.tenants import PASSWORD

FREEZE = {"scope": {"type": "organization"}, "reason": "Quarter-end close", "impactAcknowledged": True}
SETUP = {"scope": {"type": "organization"}, "mode": "plan"}


def write_report(
    settings: Settings,
    secrets: PersistedSecrets,
    addresses: dict[str, str],
    pids: dict[str, int],
    organizations: dict[str, Any],
) -> None:
    """Write `sandbox.json`: its appearance says that everything is ready."""
    report = {
        "baseUrl": settings.base_url,
        "webUrl": settings.base_url,
        "githubUrl": settings.github_url,
        "stripeUrl": settings.stripe_url,
        "slackUrl": settings.slack_url,
        "mailboxUrl": settings.mailbox_url,
        "githubToken": secrets.github_token,
        "stripeKey": SECRET_KEY,
        "webhookSecret": secrets.webhook_secret,
        "stripeWebhookSecret": secrets.stripe_webhook_secret,
        "password": PASSWORD,
        "pids": pids,
        **addresses,
        "organizations": organizations,
    }
    write_private(settings.directory / REPORT, report)


def print_summary(settings: Settings, key: str, administrator: str) -> None:
    """Print where everything is, and lines to paste: with a key, and with the session of globex's administrator."""
    elsewhere = "" if settings.directory == ROOT / ".sandbox" else f" --directory {settings.directory}"
    say(
        f"""
API        {settings.base_url}
Reference  {settings.base_url}/docs
GitHub     {settings.github_url}
Stripe     {settings.stripe_url}
Slack      {settings.slack_url}
Mail sent  {settings.mailbox_url}
Sign in    {settings.base_url}/sign-in as owner@acme.example, "{PASSWORD}"
Keys, session tokens and addresses are in {settings.directory / REPORT}

Paste these into another terminal:

  export BASE={settings.base_url} KEY="Authorization: Bearer {key}" JSON="Content-Type: application/json"
  export GLOBEX="Authorization: Bearer {administrator}"
  curl -H "$KEY" "$BASE/v1/repos?limit=3"
  curl -H "$KEY" "$BASE/v1/freeze-state?repo=acme/web&branch=main"
  curl -H "$KEY" "$BASE/v1/enforcement?limit=3"
  curl -H "$KEY" -H "$JSON" $BASE/v1/freezes -d '{json.dumps(FREEZE)}'
  curl -H "$KEY" -H "$JSON" $BASE/v1/freezes/lift -d '{json.dumps({"scope": FREEZE["scope"]})}'
  curl -H "$GLOBEX" -H "$JSON" $BASE/v1/enforcement/setup -d '{json.dumps(SETUP)}'
  (. {settings.directory / ENVIRONMENT}; .venv/bin/python -m app audit verify acme)

A third terminal shows the webhooks of acme as they are sent (docs/guide/webhooks.md), until Ctrl-C:

  .venv/bin/python -m tools.sandbox.listen{elsewhere}

MCP clients use {settings.base_url}/mcp with this key, for example Claude Code (docs/guide/mcp.md has others):

  claude mcp add --transport http change-freeze $BASE/mcp --header "$KEY"

Ctrl-C stops everything; the next start finds the data again."""
    )
