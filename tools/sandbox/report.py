"""What the sandbox hands over: `sandbox.json` for programs, a few lines for people."""

from collections.abc import Callable
from typing import Any

from tools.sandbox.keepsakes import Keepsakes, write_private
from tools.sandbox.settings import Settings


def write_report(
    settings: Settings,
    keepsakes: Keepsakes,
    addresses: dict[str, str],
    pids: dict[str, int],
    organizations: dict[str, Any],
) -> None:
    """Write `sandbox.json`: its appearance says that everything is ready."""
    report = {
        "baseUrl": settings.base_url,
        "webUrl": settings.base_url,
        "codeHostUrl": settings.code_host_url,
        "codeHostToken": keepsakes.code_host_token,
        "webhookSecret": keepsakes.webhook_secret,
        "pids": pids,
        **addresses,
        "organizations": organizations,
    }
    write_private(settings.directory / "sandbox.json", report)


def tell(settings: Settings, key: str, say: Callable[[str], None]) -> None:
    """Print where everything is, and lines to paste."""
    freeze = '{"scope": {"type": "organization"}, "reason": "Quarter-end close", "impactAcknowledged": true}'
    say("")
    say(f"API        {settings.base_url}")
    say(f"Reference  {settings.base_url}/docs")
    say(f"Code host  {settings.code_host_url}")
    say(f"Keys, session tokens and addresses are in {settings.directory / 'sandbox.json'}")
    say("")
    say("Paste these into another terminal:")
    say("")
    say(f"  export BASE={settings.base_url} KEY={key}")
    say('  curl -H "Authorization: Bearer $KEY" "$BASE/v1/repos?limit=3"')
    say('  curl -H "Authorization: Bearer $KEY" "$BASE/v1/freeze-state?repo=acme/web&branch=main"')
    say(f"  curl -H \"Authorization: Bearer $KEY\" --json '{freeze}' $BASE/v1/freezes")
    say('  curl -H "Authorization: Bearer $KEY" --json \'{"scope": {"type": "organization"}}\' $BASE/v1/freezes/lift')
    say("")
    say("Ctrl-C stops everything; the next start finds the data again.")
