"""The requests of a person, a device, an MCP client and a Slack user who are given every kind of secret over HTTP."""

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx
from sqlalchemy import select
from sqlalchemy.orm import Session

from models.oauth import OAuthClient
from models.organizations import Organization
from tests import factories
from tests.handlers.callers import EVERYTHING
from tests.handlers.oauth.requests import CLIENT_ID, DECIDE, DOCUMENT, PREVIEW, REDIRECT, VERIFIER, answer_of, query_of
from tests.harness.accounts import ask
from tests.harness.mails import mailed_token, token_of
from tests.harness.passwords import PASSWORD
from tools.fake_slack import FakeSlack
from tools.mcp_requests import request_of

ADDRESS = "grace@example.com"
WRONG = "nine purple wheelbarrows"
SECOND = "eight green bicycles"
THIRD = "ten yellow umbrellas"
OTHER_ADDRESS = "grace.hopper@example.com"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@dataclass
class Scenario:
    """Sends requests, and keeps the secrets that it is given."""

    http: httpx.Client
    session: Session
    secrets: dict[str, str] = field(default_factory=dict)
    """By a name for messages."""
    refusals: list[str] = field(default_factory=list)
    """The bodies of all answers from status 400 on."""
    statuses: set[int] = field(default_factory=set)
    sent: list[tuple[str, str, str | None, dict[str, Any]]] = field(default_factory=list)
    """Every request: method, path, credential and the rest, to be sent again."""

    def ask(self, method: str, path: str, token: str | None = None, **request: Any) -> Any:
        """Send a request and return the JSON of its answer; None if that is something else."""
        self.sent.append((method, path, token, request))
        answer = ask(self.http, method, path, token, **request)
        self.http.cookies.clear()
        self.statuses.add(answer.status_code)
        if answer.status_code >= 400:
            self.refusals.append(answer.text)
        return answer.json() if answer.headers.get("Content-Type") == "application/json" else None

    def keep(self, name: str, secret: str) -> str:
        """Keep a secret, and return it. Fail if it is short, or the same as another one."""
        assert len(secret) > 15, name
        assert secret not in self.secrets.values(), name
        self.secrets[name] = secret
        return secret

    def sign_up(self) -> str:
        """Make an account, reset its password, change it twice, and return a session token."""
        body = {"name": "Grace Hopper", "email": ADDRESS, "password": PASSWORD}
        self.ask("POST", "/api/auth/sign-up", json=body)
        confirming = self.keep("confirming", mailed_token(self.session, ADDRESS))
        self.ask("POST", "/api/auth/verify-email", json={"token": confirming, "password": WRONG})
        self.ask("POST", "/api/auth/verify-email", json={"token": confirming, "password": PASSWORD})
        self.ask("POST", "/api/auth/sign-up", json=body)
        self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": WRONG})
        self.ask("POST", "/api/auth/sign-in", json={"email": WRONG, "password": WRONG})
        first = self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": PASSWORD})
        self.keep("first session", first["sessionToken"])
        self.ask("POST", "/api/auth/forgot-password", json={"email": ADDRESS})
        resetting = self.keep("resetting", mailed_token(self.session, ADDRESS))
        self.ask("POST", "/api/auth/reset-password", json={"token": resetting, "password": SECOND})
        self.ask("POST", "/api/auth/reset-password", json={"token": resetting, "password": WRONG})
        again = self.ask("POST", "/api/auth/sign-in", json={"email": ADDRESS, "password": SECOND})
        self.change_account(again["sessionToken"])
        return self.keep("session", again["sessionToken"])

    def change_account(self, token: str) -> None:
        """Choose a third password and the second again, another address and the first again."""
        once = {"Idempotency-Key": "another password"}
        for current, new in ((WRONG, THIRD), (SECOND, "password12"), (SECOND, THIRD), (THIRD, SECOND)):
            body = {"currentPassword": current, "password": new}
            self.ask("POST", "/api/auth/change-password", token, json=body, headers=once if new == THIRD else {})
        for address in (OTHER_ADDRESS, ADDRESS):
            for password in (WRONG, SECOND):
                self.ask("POST", "/api/auth/change-email", token, json={"email": address, "password": password})
            confirming = self.keep(f"to {address}", mailed_token(self.session, address))
            for _ in range(2):
                self.ask("POST", "/api/auth/confirm-email", token, json={"token": confirming})

    def set_up_organization(self, token: str) -> None:
        """Create an organisation with keys, a feed, a webhook, an invitation and a claim of an installation."""
        self.ask("POST", "/v1/onboarding/bootstrap", self.keep("JWT", self._mint(token)), json={})
        minted = self.keep("second JWT", self._mint(token))
        body = {"name": "A key", "scopes": ["freeze:read"], "expiresAt": None}
        once = {"Idempotency-Key": self.keep("idempotency key", "what-a-client-calls-a-request")}
        for name in ("key", "key again"):
            made = self.ask("POST", "/v1/api-keys", minted, json=body, headers=once)
            self.secrets.setdefault(name, made["secret"])
        path = f"/v1/api-keys/{made['apiKey']['id']}/rotate"
        self.keep("rotated key", self.ask("POST", path, minted, json={}, headers={"Idempotency-Key": "2"})["secret"])
        feed = self.ask("POST", "/v1/calendar-feeds", minted, json={"name": "A calendar"})
        path = urlsplit(feed["url"]).path
        self.keep("calendar feed", path.removeprefix("/calendars/").removesuffix(".ics"))
        self.ask("GET", path)
        self.ask("GET", path, params={"unknown": "x"})
        wanted = {"name": "A webhook", "url": "https://hooks.example.com/in", "events": ["*"]}
        webhook = self.ask("POST", "/v1/webhooks", minted, json=wanted, headers={"Idempotency-Key": "3"})
        self.keep("secret of a webhook", webhook["secret"])
        path = f"/v1/webhooks/{webhook['webhook']['id']}"
        self.keep("rotated secret of a webhook", self.ask("POST", f"{path}/rotate", minted)["secret"])
        for rest in ("", "/deliveries"):
            self.ask("GET", path + rest, minted)
        self.ask("POST", f"{path}/test", minted)
        self.ask("GET", "/v1/freezes", self.secrets["rotated key"])
        self.ask("POST", "/v1/freezes", self.secrets["rotated key"], json={})
        invitation = {"email": "eve@example.com", "role": "member"}
        invited = self.ask("POST", "/v1/invitations", minted, json=invitation)
        self.keep("invitation", mailed_token(self.session, "eve@example.com"))
        link = self.ask("GET", f"/v1/invitations/{invited['id']}/link", minted)
        self.ask("GET", "/v1/invitations/preview", minted, params={"token": self.keep("link", token_of(link["url"]))})
        self.keep("state", token_of(self.ask("GET", "/v1/github/install-url", minted)["url"]))
        claim = {"installationId": 7, "state": self.secrets["state"], "code": self.keep("code", "a" * 10 + "b" * 10)}
        self.ask("POST", "/v1/installations/claim", minted, json=claim)

    def sign_in_device(self, token: str) -> None:
        """Sign a device in."""
        asked = self.ask("POST", "/api/auth/device/code", content="client_id=cli", headers=FORM)
        self.keep("device code", asked["device_code"])
        decision = {"userCode": asked["user_code"], "decision": "approve"}
        body = f"grant_type={GRANT}&client_id=cli&device_code={asked['device_code']}"
        self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)
        self.ask("POST", "/api/auth/device/approve", token, json=decision)
        given = self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)
        self.keep("device's JWT", given["access_token"])
        self.keep("device's session", given["session_token"])
        self.ask("POST", "/api/auth/device/token", content=body, headers=FORM)

    def connect_client(self, token: str) -> None:
        """Connect an MCP client, have it act and renew its tokens, and end the connection."""
        now = factories.now()
        client = OAuthClient(client_id=CLIENT_ID, document=DOCUMENT, fetched_at=now, fresh_until=now + timedelta(1))
        self.session.add(client)
        self.session.flush()
        [organization] = self.session.scalars(select(Organization.id))
        query = query_of(state=self.keep("state of a client", "what-a-client-remembers-of-a-request"))
        self.ask("POST", PREVIEW, json={"query": query})
        self.ask("GET", f"/oauth/authorize?{query}")
        decision = {"query": query, "decision": "approve", "organizationId": organization, "scopes": ["freeze:write"]}
        for name in ("authorization code", "second authorization code"):
            location = self.ask("POST", DECIDE, token, json=decision)["location"]
            code = self.keep(name, answer_of(location)["code"])
        redeemed = {
            "grant_type": "authorization_code",
            "client_id": CLIENT_ID,
            "redirect_uri": REDIRECT,
            "code_verifier": self.keep("code verifier", VERIFIER),
        }
        wrong = {**redeemed, "code": self.secrets["authorization code"], "code_verifier": "x" * 43}
        self.ask("POST", "/oauth/token", data=wrong)
        given = self.ask("POST", "/oauth/token", data={**redeemed, "code": code})
        self.keep("access token", given["access_token"])
        renewed = {"grant_type": "refresh_token", "client_id": CLIENT_ID}
        refreshed = {**renewed, "refresh_token": self.keep("refresh token", given["refresh_token"])}
        given = self.ask("POST", "/oauth/token", data=refreshed)
        self.keep("second refresh token", given["refresh_token"])
        access = self.keep("second access token", given["access_token"])
        arguments = {**EVERYTHING, "idempotencyKey": self.keep("key of a tool call", "what-a-client-calls-a-tool-call")}
        for tool in ("svc_start_freeze", "svc_list_freezes"):
            headers, body = request_of("tools/call", {"name": tool, "arguments": arguments})
            self.ask("POST", "/mcp", access, content=body, headers=headers)
        self.ask("GET", "/v1/freezes", access)
        revoked = {"token": self.secrets["second refresh token"], "client_id": CLIENT_ID}
        self.ask("POST", "/oauth/revoke", data=revoked)
        self.ask("POST", "/oauth/token", data={**redeemed, "code": code})

    def connect_slack(self, token: str, slack: FakeSlack) -> None:
        """Connect a workspace, link a Slack user, and disconnect while Slack fails."""
        minted = self._mint(token)
        for attempt in ("", "second "):
            url = self.ask("GET", "/v1/slack/install-url", minted, params={"team": "T0ACME"})["url"]
            back = slack.install(url)
            for name, secret in back.items():
                self.keep(f"{attempt}{name} of Slack", secret)
            self.ask("GET", "/slack", params=back)
            self.ask("POST", "/v1/slack/claim", minted, json=back)
            self.ask("POST", "/v1/slack/claim", minted, json=back)
        self.keep("token of Slack", slack.tokens[0].access_token)
        link = slack.type("link").body["blocks"]
        found = re.search(r"/slack/link\?token=([\w-]{43})", json.dumps(link))
        assert found is not None, link
        linking = self.keep("link of a Slack user", found[1])
        self.ask("GET", "/slack/link", params={"token": linking})
        for _ in range(2):
            self.ask("POST", "/v1/slack/link", minted, json={"token": linking})
        self.ask("POST", "/v1/slack/subscriptions", minted, json={"channelId": "C0RELEASES"})
        slack.faults.add("error", "/api/", status=500)
        self.ask("DELETE", "/v1/slack", minted)

    def misuse_secrets(self) -> None:
        """Send each secret where it does not belong: in malformed bodies, in queries and as a credential."""
        for secret in list(self.secrets.values()):
            self.ask("GET", "/v1/freezes", secret, params={"cursor": secret, "token": secret})
            self.ask("GET", "/api/auth/token", secret + "x", headers={"Cookie": f"session={secret}"})
            self.ask("POST", "/api/auth/sign-in", json={"email": [secret], "password": {"a": secret}})
            self.ask("POST", "/api/auth/verify-email", json={"token": secret + "x", "password": secret})
            raw: dict[str, Any] = {"content": f'{{"token": "{secret}"', "headers": {"Content-Type": "application/json"}}
            self.ask("POST", "/api/auth/verify-email", **raw)
            self.ask("POST", "/api/auth/device/token", content=f"grant_type={secret}&client_id={secret}", headers=FORM)
            self.ask("GET", "/verify", params={"token": secret})
            self.ask("GET", "/slack", params={"state": secret, "code": secret, "error": secret})
            self.ask("POST", "/webhooks/slack", content=f"token={secret}&text={secret}", headers=FORM)
            self.ask("GET", "/oauth/authorize", params={"client_id": secret, "state": secret, "code": secret})
            names = ("code", "refresh_token", "device_code", "client_secret", "code_verifier")
            form = {"grant_type": "authorization_code", "client_id": CLIENT_ID, **dict.fromkeys(names, secret)}
            self.ask("POST", "/oauth/token", data=form)
            self.ask("POST", "/oauth/token", data={**form, "client_id": secret})
            self.ask("POST", "/oauth/revoke", data={"token": secret + "x"})
            headers, body = request_of("tools/call", {"name": "svc_list_freezes", "arguments": {"cursor": secret}})
            self.ask("POST", "/mcp", secret, content=body, headers=headers)

    def _mint(self, token: str) -> str:
        return str(self.ask("GET", "/api/auth/token", token)["token"])
