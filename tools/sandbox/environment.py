"""The environment of the sandbox's processes: everything that `app/config.py` reads."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from app.config import Config
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.oauth import APP_CLIENT_SECRET, CLIENT_ID, CLIENT_SECRET
from tools.fake_slack.settings import CLIENT_ID as SLACK_CLIENT_ID
from tools.fake_slack.settings import CLIENT_SECRET as SLACK_CLIENT_SECRET
from tools.fake_slack.settings import SIGNING_SECRET as SLACK_SIGNING_SECRET
from tools.fake_stripe.keys import SECRET_KEY
from tools.sandbox.persisted_secrets import PersistedSecrets, write_private_text
from tools.sandbox.settings import HOST, Settings
from tools.sandbox.tenants import APP_ID, APP_SLUG

NO_LIMIT = "1000000"
"""Requests a minute that nobody sends."""


DEFAULTS = {
    "VALIDATE_RESPONSES": "1",
    "RATE_LIMIT_ORGANIZATION": NO_LIMIT,
    "RATE_LIMIT_WRITES": NO_LIMIT,
    "GITHUB_RULESET_DELAY": "0",
}
"""Rate limits are not met, and the simulated GitHub enforces rulesets at once."""


def child_environment(
    settings: Settings, secrets: PersistedSecrets, private_key: Path, database_url: str, redis_url: str
) -> dict[str, str]:
    """Return the environment of the service's processes; the caller's own adds what is not set here.

    The caller may change what is in `DEFAULTS`.
    """
    fixed = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "PORT": str(settings.port),
        "BASE_URL": settings.base_url,
        "WEB_URL": settings.base_url,
        "DOCS_URL": f"{settings.base_url}/docs",
        "STATUS_URL": f"{settings.base_url}/status",
        "GITHUB_API_URL": settings.github_url,
        "GITHUB_APP_ID": str(APP_ID),
        "GITHUB_APP_SLUG": APP_SLUG,
        "GITHUB_APP_PRIVATE_KEY_FILE": str(private_key),
        "GITHUB_APP_CLIENT_ID": client_id_of(APP_ID),
        "GITHUB_APP_CLIENT_SECRET": APP_CLIENT_SECRET,
        "GITHUB_CLIENT_ID": CLIENT_ID,
        "GITHUB_CLIENT_SECRET": CLIENT_SECRET,
        "GITHUB_WEB_URL": settings.github_url,
        "GITHUB_WEBHOOK_SECRET": secrets.webhook_secret,
        "STRIPE_API_URL": settings.stripe_url,
        "STRIPE_SECRET_KEY": SECRET_KEY,
        "STRIPE_WEBHOOK_SECRET": secrets.stripe_webhook_secret,
        "SLACK_URL": settings.slack_url,
        "SLACK_CLIENT_ID": SLACK_CLIENT_ID,
        "SLACK_CLIENT_SECRET": SLACK_CLIENT_SECRET,
        "SLACK_SIGNING_SECRET": SLACK_SIGNING_SECRET,
        "CURSOR_SECRET": secrets.cursor_secret,
        "SECRET_KEY": secrets.cursor_secret,
        "SMTP_URL": f"smtp://{HOST}:{settings.smtp_port}",
        "MAIL_FROM": "Change-Freeze Service <no-reply@sandbox.test>",
        "SESSION_JWT_TTL": str(settings.session_ttl_seconds),
        "MAINTENANCE_FILE": str(settings.directory / "maintenance"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONUNBUFFERED": "1",
    }
    ignored = {"BIND", "GITHUB_GRAPHQL_URL", "GITHUB_APP_PRIVATE_KEY", "SESSION_ISSUER", "SLACK_COMMAND"}
    inherited = {name: value for name, value in os.environ.items() if name not in ignored}
    return DEFAULTS | inherited | fixed


def write_environment(file: Path, environment: Mapping[str, str]) -> None:
    """Write the service's configuration for a shell, so that the operator commands work in the sandbox."""
    names = [name for one in fields(Config) if (name := one.name.upper()) in environment]
    write_private_text(file, "".join(f"export {name}={shlex.quote(environment[name])}\n" for name in names))
