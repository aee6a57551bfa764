"""Installing the app: what a person consents to, codes, tokens, and their rotation."""

import secrets
from collections.abc import Mapping
from urllib.parse import urlencode

from tools.fake_slack.core import APP_ID, BOT, Core
from tools.fake_slack.model import Json, Token

CODE_LIFETIME = 600.0
TOKEN_LIFETIME = 43_200
EVERYWHERE = "all"
"""In place of a workspace: all workspaces of the enterprise."""


def refuse(core: Core, query: Mapping[str, str]) -> str | None:
    """Return why the page of an installation cannot be shown, or None."""
    if query.get("client_id") != core.settings.client_id:
        return "Invalid client_id parameter"
    expected = core.settings.redirect_url
    if not query.get("redirect_uri") or (expected is not None and query["redirect_uri"] != expected):
        return "redirect_uri did not match any configured URIs"
    return None if query.get("scope") else "No scopes requested"


def consent(core: Core, query: Mapping[str, str], team: str, user: str) -> str:
    """Install the app in a workspace, or everywhere, and return the address that the person is led back to."""
    code = secrets.token_hex(16)
    core.codes[code] = {
        "team": None if team == EVERYWHERE else team,
        "user": user,
        "scopes": core.settings.granted_scopes or query["scope"].split(","),
        "redirect_uri": query["redirect_uri"],
        "made_at": core.clock(),
    }
    return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query.get('state', '')})}"


def cancel(query: Mapping[str, str]) -> str:
    """Return the address that a person is led back to who does not install the app."""
    return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query.get('state', '')})}"


def access(core: Core, params: Mapping[str, str], client: tuple[str, str] | None) -> Json:
    """Answer `oauth.v2.access`: a code, or a refresh token, for a token."""
    if client is None or client[0] != core.settings.client_id:
        return _refused("invalid_client_id")
    if client[1] != core.settings.client_secret:
        return _refused("bad_client_secret")
    if params.get("grant_type") == "refresh_token":
        return _refresh(core, params.get("refresh_token", ""))
    return _exchange(core, params)


def _exchange(core: Core, params: Mapping[str, str]) -> Json:
    code = core.codes.pop(params.get("code", ""), None)
    if code is None:
        return _refused("invalid_code")
    if core.clock() - code["made_at"] > CODE_LIFETIME:
        return _refused("code_expired")
    if code["redirect_uri"] != params.get("redirect_uri"):
        return _refused("bad_redirect_uri")
    token = core.token_of(code["team"])
    if token is None:
        token = Token(f"xoxb-{secrets.token_hex(16)}", code["team"], [])
        core.tokens.append(token)
    token.scopes = sorted({*token.scopes, *code["scopes"]})  # an installation adds scopes, it takes none away
    if core.settings.token_rotation:
        _rotate(token)
    return _answer(core, token, code["user"])


def _refresh(core: Core, refresh_token: str) -> Json:
    found = [each for each in core.tokens if refresh_token and each.refresh_token == refresh_token and not each.revoked]
    if not found:
        return _refused("invalid_refresh_token")
    _rotate(found[0])
    return _answer(core, found[0], None)


def _rotate(token: Token) -> None:
    token.access_token = f"xoxe.xoxb-1-{secrets.token_hex(16)}"
    token.refresh_token = f"xoxe-1-{secrets.token_hex(16)}"


def _answer(core: Core, token: Token, user: str | None) -> Json:
    core.changes += 1
    everywhere = token.team is None
    enterprise = {"id": "E0ALL", "name": "All of Acme"} if everywhere else None
    team = None if everywhere else {"id": token.team, "name": core.workspace(str(token.team)).name}
    rotated = {"refresh_token": token.refresh_token, "expires_in": TOKEN_LIFETIME} if token.refresh_token else {}
    return {
        "ok": True,
        "app_id": APP_ID,
        "authed_user": {"id": user} if user else None,
        "scope": ",".join(token.scopes),
        "token_type": "bot",
        "access_token": token.access_token,
        "bot_user_id": BOT,
        "team": team,
        "enterprise": enterprise,
        "is_enterprise_install": everywhere,
        **rotated,
    }


def _refused(error: str) -> Json:
    return {"ok": False, "error": error}
