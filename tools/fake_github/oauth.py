"""What people may do, and how they let an OAuth client act for them: authorisation with PKCE.

What people may do is in `model/roles.py`. There are two clients: an OAuth App, and the GitHub App itself, whose tokens
also show where it is installed. Nothing here is kept in the state file: codes and tokens are short-lived.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from tools.fake_github.core import Core
from tools.fake_github.model.installations import client_id_of
from tools.fake_github.model.records import Account, Installation, Repository
from tools.fake_github.model.refusals import Refusal
from tools.fake_github.model.roles import LEVELS, level_of
from tools.simulation.answers import Answer

CLIENT_ID = "Iv1.c0dehost00000000"
CLIENT_SECRET = "fake-github-client-secret"  # noqa: S105 - opens nothing but this simulation
APP_CLIENT_SECRET = "fake-github-app-client-secret"  # noqa: S105 - the same
CODE_LIFETIME = timedelta(minutes=10)
TOKEN_SECONDS = 28_800
CALLBACK_ERRORS = {
    "incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
    "bad_verification_code": "The code passed is incorrect or expired.",
    "redirect_uri_mismatch": "The redirect_uri MUST match the registered callback URL for this application.",
}


@dataclass(frozen=True, slots=True)
class Code:
    """An authorisation that waits to be exchanged."""

    client_id: str
    account: Account
    redirect_uri: str
    challenge: str
    ends: datetime


@dataclass(slots=True)
class OAuth:
    """Rights, codes and tokens of people."""

    github: Core
    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    app_client_secret: str = APP_CLIENT_SECRET
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    app_tokens: set[str] = field(default_factory=set)
    """Those of the tokens that were given to the GitHub App itself."""
    issued: list[str] = field(default_factory=list)
    """Every code and token that was ever given out, for tests that look for them where they must not be."""

    def reset(self) -> None:
        """Forget everything."""
        for kept in (self.codes, self.tokens, self.app_tokens, self.issued):
            kept.clear()

    @property
    def rights(self) -> dict[str, dict[str, str]]:
        """Return the rights of people, as in `World`."""
        return self.github.world.rights

    @property
    def clients(self) -> dict[str, str]:
        """Return the secret of each client: the OAuth App, and the GitHub App."""
        return {self.client_id: self.client_secret, client_id_of(self.github.app.id): self.app_client_secret}

    @property
    def visitor(self) -> Account:
        """Return the person who opens our pages, unless the address names another."""
        login = self.github.settings.authorizing_person or self.github.maintainer.login
        return self.github.world.add_account(login, "User")

    def level(self, account: Account, repository: Repository) -> str | None:
        """Return what a person may do in a repository; None: they do not see it."""
        return level_of(self.github.world, account, repository)

    def permissions(self, account: Account, repository: Repository) -> dict[str, bool]:
        """Return the `permissions` of a repository as a person sees it."""
        level = self.level(account, repository)
        reached = LEVELS.index(level) if level in LEVELS else -1
        return {name: index <= reached for index, name in enumerate(LEVELS)}

    def role(self, account: Account, organization: str) -> str | None:
        """Return a person's role in an organisation; None: they are no member."""
        own = self.rights.get(account.login.lower())
        if own is None:
            return "admin"
        return {"admin": "admin", None: None}.get(own.get(organization.lower()), "member")

    def reaches(self, account: Account, installation: Installation) -> bool:
        """Return whether a person has anything to do with what the App is installed in."""
        own = self.rights.get(account.login.lower())
        if own is None or installation.account_id == account.id:
            return True
        login = self.github.world.accounts[installation.account_id].login.lower()
        return any(place == login or place.startswith(login + "/") for place in own)

    def give_code(self, client_id: str, account: Account, redirect_uri: str, challenge: str = "") -> str:
        """Return a code that the client can exchange for a token of the person."""
        code = secrets.token_hex(10)
        ends = self.github.world.clock() + CODE_LIFETIME
        self.codes[code] = Code(client_id, account, redirect_uri, challenge, ends)
        self.issued.append(code)
        return code

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], raw: bytes) -> Answer:
        """Answer what needs no token of the API: GitHub's own pages, and the client's own calls."""
        try:
            if (method, path) == ("GET", "/login/oauth/authorize"):
                return self._authorize(query)
            if (method, path) == ("POST", "/login/oauth/access_token"):
                return self._exchange(_fields(headers, raw))
            for client_id in self.clients:
                if (method, path) == ("DELETE", f"/applications/{client_id}/token"):
                    return self._revoke(client_id, headers, orjson.loads(raw or b"{}"))
        except orjson.JSONDecodeError:
            return Answer(400, {"message": "Problems parsing JSON"})
        except Refusal as refusal:
            return Answer(refusal.status, {"message": refusal.message})
        return Answer(404, {"message": "Not Found"})

    def _authorize(self, query: dict[str, str]) -> Answer:
        """Send the person back at once, as if they had pressed the button."""
        client_id = query.get("client_id", "")
        if client_id not in self.clients:
            raise Refusal(404, "Not Found")
        target = query.get("redirect_uri", "")
        if urlsplit(target).scheme not in {"http", "https"}:
            raise Refusal(400, CALLBACK_ERRORS["redirect_uri_mismatch"])
        if query.get("code_challenge") and query.get("code_challenge_method") != "S256":
            raise Refusal(400, "code_challenge_method must be S256")
        login = query.get("login")
        account = self.github.world.add_account(login, "User") if login else self.visitor
        code = self.give_code(client_id, account, target, query.get("code_challenge", ""))
        back = urlencode({"code": code, "state": query.get("state", "")})
        return Answer(302, None, {"Location": f"{target}{'&' if '?' in target else '?'}{back}"})

    def _exchange(self, given: dict[str, Any]) -> Answer:
        """Give a token for a code, once; as GitHub does, with status 200 for a refusal too."""
        client_id = str(given.get("client_id", ""))
        expected = self.clients.get(client_id, "")
        if not expected or not hmac.compare_digest(str(given.get("client_secret", "")).encode(), expected.encode()):
            return _refused("incorrect_client_credentials")
        code = self.codes.pop(str(given.get("code", "")), None)
        if code is None or code.client_id != client_id or self.github.world.clock() >= code.ends:
            return _refused("bad_verification_code")
        if given.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            return _refused("redirect_uri_mismatch")
        digest = hashlib.sha256(str(given.get("code_verifier", "")).encode()).digest()
        if code.challenge and base64.urlsafe_b64encode(digest).decode().rstrip("=") != code.challenge:
            return _refused("bad_verification_code")
        token = f"ghu_{secrets.token_hex(18)}"
        self.tokens.add(token)
        if client_id != self.client_id:
            self.app_tokens.add(token)
        self.issued.append(token)
        self.github.world.tokens[token] = code.account
        body = {"access_token": token, "token_type": "bearer", "scope": "", "expires_in": TOKEN_SECONDS}
        return Answer(200, body)

    def _revoke(self, client_id: str, headers: dict[str, str], given: dict[str, Any]) -> Answer:
        expected = base64.b64encode(f"{client_id}:{self.clients[client_id]}".encode()).decode()
        if not hmac.compare_digest(headers.get("authorization", "").encode(), f"Basic {expected}".encode()):
            raise Refusal(401, "Requires authentication")
        token = str(given.get("access_token", ""))
        if token not in self.tokens or (token in self.app_tokens) != (client_id != self.client_id):
            raise Refusal(404, "Not Found")
        self.tokens.discard(token)
        self.app_tokens.discard(token)
        self.github.world.tokens.pop(token, None)
        return Answer(204)


def _fields(headers: dict[str, str], raw: bytes) -> dict[str, Any]:
    """Read a form or JSON."""
    if "json" in headers.get("content-type", ""):
        parsed = orjson.loads(raw or b"{}")
        return parsed if isinstance(parsed, dict) else {}
    return dict(parse_qsl(raw.decode("utf-8", "replace")))


def _refused(error: str) -> Answer:
    documentation = "https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app"
    return Answer(200, {"error": error, "error_description": CALLBACK_ERRORS[error], "error_uri": documentation})
