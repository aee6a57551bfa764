"""What people may do, and how they let an OAuth client act for them: authorisation with PKCE.

A person without rights of their own may do everything, as `maintainer` does; with rights they may do what these say.
Nothing here is kept in the state file: codes and tokens are short-lived, and rights are for tests.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import orjson

from tools.codehost.model.records import Account, Repository
from tools.codehost.model.refusals import Refusal
from tools.codehost.rest.answers import Answer

if TYPE_CHECKING:
    from tools.codehost.host import CodeHost

CLIENT_ID = "Iv1.c0deh0st00000000"
CLIENT_SECRET = "codehost-client-secret"  # noqa: S105 - opens nothing but this simulation
CODE_LIFE = timedelta(minutes=10)
TOKEN_SECONDS = 28_800
LEVELS = ("pull", "triage", "push", "maintain", "admin")
CALLBACK_ERRORS = {
    "incorrect_client_credentials": "The client_id and/or client_secret passed are incorrect.",
    "bad_verification_code": "The code passed is incorrect or expired.",
    "redirect_uri_mismatch": "The redirect_uri MUST match the registered callback URL for this application.",
}


@dataclass(frozen=True, slots=True)
class Code:
    """An authorisation that waits to be exchanged."""

    account: Account
    redirect_uri: str
    challenge: str
    ends: datetime


@dataclass(slots=True)
class People:
    """Rights, codes and tokens of people."""

    host: "CodeHost"
    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    rights: dict[str, dict[str, str]] = field(default_factory=dict)
    """Login → account or `owner/name`, in lower case → level; an account's `admin` is its owner."""
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    issued: list[str] = field(default_factory=list)
    """Every code and token that was ever given out, for tests that look for them where they must not be."""

    def reset(self) -> None:
        """Forget everything."""
        for kept in (self.rights, self.codes, self.tokens, self.issued):
            kept.clear()

    def level(self, account: Account, repository: Repository) -> str | None:
        """Return what a person may do in a repository; None: they do not see it."""
        own = self.rights.get(account.login.lower())
        if own is None:
            return "admin"
        owner = self.host.world.owner(repository).login.lower()
        if own.get(owner) == "admin":
            return "admin"
        return own.get(self.host.world.full_name(repository).lower())

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

    def answer(self, method: str, path: str, query: dict[str, str], headers: dict[str, str], raw: bytes) -> Answer:
        """Answer what needs no token of the API: GitHub's own pages, and the client's own calls."""
        try:
            if (method, path) == ("GET", "/login/oauth/authorize"):
                return self._authorize(query)
            if (method, path) == ("POST", "/login/oauth/access_token"):
                return self._exchange(_fields(headers, raw))
            if (method, path) == ("DELETE", f"/applications/{self.client_id}/token"):
                return self._revoke(headers, orjson.loads(raw or b"{}"))
        except orjson.JSONDecodeError:
            return Answer(400, {"message": "Problems parsing JSON"})
        except Refusal as refusal:
            return Answer(refusal.status, {"message": refusal.message})
        return Answer(404, {"message": "Not Found"})

    def _authorize(self, query: dict[str, str]) -> Answer:
        """Send the person back at once, as if they had pressed the button."""
        if query.get("client_id") != self.client_id:
            raise Refusal(404, "Not Found")
        target = query.get("redirect_uri", "")
        if urlsplit(target).scheme not in {"http", "https"}:
            raise Refusal(400, CALLBACK_ERRORS["redirect_uri_mismatch"])
        if query.get("code_challenge") and query.get("code_challenge_method") != "S256":
            raise Refusal(400, "code_challenge_method must be S256")
        world = self.host.world
        login = query.get("login") or self.host.settings.authorizing_person or self.host.maintainer.login
        code = secrets.token_hex(10)
        account = world.add_account(login, "User")
        self.codes[code] = Code(account, target, query.get("code_challenge", ""), world.clock() + CODE_LIFE)
        self.issued.append(code)
        back = urlencode({"code": code, "state": query.get("state", "")})
        return Answer(302, None, {"Location": f"{target}{'&' if '?' in target else '?'}{back}"})

    def _exchange(self, given: dict[str, Any]) -> Answer:
        """Give a token for a code, once; as GitHub does, with status 200 for a refusal too."""
        secret = hmac.compare_digest(str(given.get("client_secret", "")).encode(), self.client_secret.encode())
        if given.get("client_id") != self.client_id or not secret:
            return _refused("incorrect_client_credentials")
        code = self.codes.pop(str(given.get("code", "")), None)
        if code is None or self.host.world.clock() >= code.ends:
            return _refused("bad_verification_code")
        if given.get("redirect_uri", code.redirect_uri) != code.redirect_uri:
            return _refused("redirect_uri_mismatch")
        digest = hashlib.sha256(str(given.get("code_verifier", "")).encode()).digest()
        if code.challenge and base64.urlsafe_b64encode(digest).decode().rstrip("=") != code.challenge:
            return _refused("bad_verification_code")
        token = f"ghu_{secrets.token_hex(18)}"
        self.tokens.add(token)
        self.issued.append(token)
        self.host.world.tokens[token] = code.account
        body = {"access_token": token, "token_type": "bearer", "scope": "", "expires_in": TOKEN_SECONDS}
        return Answer(200, body)

    def _revoke(self, headers: dict[str, str], given: dict[str, Any]) -> Answer:
        expected = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        if not hmac.compare_digest(headers.get("authorization", "").encode(), f"Basic {expected}".encode()):
            raise Refusal(401, "Requires authentication")
        token = str(given.get("access_token", ""))
        if token not in self.tokens:
            raise Refusal(404, "Not Found")
        self.tokens.discard(token)
        self.host.world.tokens.pop(token, None)
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
