"""The client of Slack's Web API: every call has a timeout and is sent once.

A message is not sent twice by itself, since `chat.postMessage` is not idempotent. Nothing of a call is logged here,
because its parameters may be secrets. No call may be made inside a database transaction.
"""

import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http.client import HTTPException
from threading import BoundedSemaphore
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.webhook import WebhookClient, WebhookResponse

from integrations.slack.errors import LATER, SlackError, SlackUnavailableError, error_of
from integrations.spans import child_span

CALL_TIMEOUT = 5
FORM_TIMEOUT = 2
"""Of a form, which a person waits for and Slack opens within three seconds of their click."""
MAX_CONCURRENT_CALLS = 3
"""Of a process: the other threads serve the requests that do not need Slack, however long it hangs."""
CHANNELS_SCOPE, PRIVATE_CHANNELS_SCOPE = "channels:read", "groups:read"
SCOPES = (CHANNELS_SCOPE, "chat:write", "chat:write.public", "commands", PRIVATE_CHANNELS_SCOPE)
CHANNELS_PER_CALL = 999
"""The most that Slack lists in one call, archived channels counted that it then leaves out."""
DEFAULT_COMMAND = "/freeze"
RESPONSE_ORIGIN = "https://hooks.slack.com"

Blocks = Sequence[dict[str, Any]]

_silent = logging.getLogger(f"{__name__}.silent")
_silent.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class SlackSettings:
    """What the client is configured with."""

    client_id: str
    client_secret: str = field(repr=False)
    signing_secrets: tuple[str, ...] = field(repr=False)
    """One, or two while one replaces the other."""
    command: str = DEFAULT_COMMAND
    """The slash command: of two Apps with the same one in a workspace, the one installed last gets it."""
    url: str = "https://slack.com"


@dataclass(frozen=True, slots=True)
class SlackTokens:
    """The token of our bot in a workspace, and how it is refreshed if Slack rotates it."""

    access_token: str = field(repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    expires_in: int | None = None
    """Seconds."""


@dataclass(frozen=True, slots=True)
class SlackInstallation:
    """What Slack answers about an installation of the App."""

    tokens: SlackTokens
    team_id: str | None
    """None if the App was installed for all workspaces of an Enterprise Grid organisation."""
    team_name: str
    enterprise_id: str | None
    bot_user_id: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A channel that is not archived."""

    id: str
    name: str
    is_private: bool


@dataclass(frozen=True, slots=True)
class SlackChannels:
    """Some channels of a workspace in Slack's order, perhaps none; `next_cursor` is empty after the last ones."""

    channels: Sequence[SlackChannel]
    next_cursor: str


class Slack:
    """Calls of Slack; each raises a SlackError, which says what can be done about it."""

    def __init__(self, settings: SlackSettings) -> None:
        self.settings = settings
        self._free = BoundedSemaphore(MAX_CONCURRENT_CALLS)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()  # once: to make it takes longer than a call

    def authorize_url(self, state: str, redirect_uri: str, team_id: str | None = None) -> str:
        """Return the page at which a person installs the App, in this workspace if it is given."""
        query = {
            "client_id": self.settings.client_id,
            "scope": ",".join(SCOPES),
            "user_scope": "",
            "redirect_uri": redirect_uri,
            "state": state,
        }
        return f"{self.settings.url}/oauth/v2/authorize?" + urlencode(query | ({"team": team_id} if team_id else {}))

    def exchange_code(self, code: str, redirect_uri: str) -> SlackInstallation:
        """Return the installation of a code; a code is accepted once, with the same redirect."""
        answer = self._authorize(code=code, redirect_uri=redirect_uri)
        team, enterprise = answer.get("team") or {}, answer.get("enterprise") or {}
        everywhere = answer.get("is_enterprise_install") is True
        return SlackInstallation(
            tokens=_tokens_of(answer),
            team_id=None if everywhere else team.get("id"),
            team_name=str(team.get("name") or enterprise.get("name") or ""),
            enterprise_id=enterprise.get("id"),
            bot_user_id=str(answer.get("bot_user_id") or ""),
            scopes=tuple(sorted(filter(None, str(answer.get("scope") or "").split(",")))),
        )

    def check(self) -> None:
        """Raise SlackError unless Slack knows the app's id and secret, which it judges before the code."""
        try:
            self._authorize(code="a code that does not exist")
        except SlackError as error:
            if error.code != "invalid_code":
                raise

    def refresh_token(self, refresh_token: str) -> SlackTokens:
        """Return new tokens for a refresh token, which is accepted once."""
        return _tokens_of(self._authorize(grant_type="refresh_token", refresh_token=refresh_token))

    def revoke_token(self, token: str) -> None:
        """Revoke a token."""
        self._call(token, "auth.revoke", {})

    def post_message(
        self, token: str, channel_id: str, text: str, blocks: Blocks = (), *, thread_ts: str | None = None
    ) -> str:
        """Post a message, and return its `ts`, which names it in its channel; `thread_ts` is that of its thread."""
        params = {**_message(text, blocks), "channel": channel_id, "unfurl_links": False, "unfurl_media": False}
        return str(
            self._call(token, "chat.postMessage", params | ({"thread_ts": thread_ts} if thread_ts else {}))["ts"]
        )

    def update_message(self, token: str, channel_id: str, ts: str, text: str, blocks: Blocks = ()) -> None:
        """Replace a message."""
        self._call(token, "chat.update", {**_message(text, blocks), "channel": channel_id, "ts": ts})

    def list_channels(self, token: str, cursor: str = "", *, private: bool) -> SlackChannels:
        """Return public channels, with `private` also private ones that our bot is in, after Slack's cursor.

        Slack reads these parameters from a form alone, and asks for the scope of each type.
        """
        params = {
            "types": "public_channel,private_channel" if private else "public_channel",
            "exclude_archived": "true",
            "limit": str(CHANNELS_PER_CALL),
            "cursor": cursor,
        }
        answer = self._call(token, "conversations.list", params, is_form=True)
        channels = [
            SlackChannel(str(each["id"]), str(each.get("name") or each["id"]), each.get("is_private") is True)
            for each in answer.get("channels") or []
            if not each.get("is_archived")
        ]
        return SlackChannels(channels, str((answer.get("response_metadata") or {}).get("next_cursor") or ""))

    def open_view(self, token: str, trigger_id: str, view: dict[str, Any]) -> None:
        """Open a form; a trigger is accepted once, within three seconds."""
        self._call(token, "views.open", {"trigger_id": trigger_id, "view": view}, timeout=FORM_TIMEOUT)

    def respond(self, response_url: str, message: dict[str, Any]) -> None:
        """Send a message to the `response_url` of a command or click, which is accepted five times in 30 minutes."""
        parts = urlsplit(response_url)
        if f"{parts.scheme}://{parts.netloc}" not in {RESPONSE_ORIGIN, self.settings.url}:
            raise SlackError("invalid_response_url")
        client = WebhookClient(response_url, timeout=CALL_TIMEOUT, ssl=self._tls, logger=_silent, retry_handlers=[])
        with self._calling("response_url", parts.hostname):
            answer: WebhookResponse = client.send_dict(message)
        if answer.status_code == 429 or answer.status_code >= 500:
            raise SlackUnavailableError(f"http_{answer.status_code}", retry_after=_retry_after(answer.headers))
        if answer.status_code >= 400:
            raise SlackError(f"http_{answer.status_code}")

    def _authorize(self, **params: str) -> dict[str, Any]:
        auth = {"client_id": self.settings.client_id, "client_secret": self.settings.client_secret}
        return self._call(None, "oauth.v2.access", params, auth=auth, is_form=True)

    def _call(
        self,
        token: str | None,
        method: str,
        params: dict[str, Any],
        *,
        timeout: int = CALL_TIMEOUT,
        auth: Any = None,
        is_form: bool = False,
    ) -> dict[str, Any]:
        """Return the answer of a method. Raise the SlackError of a refusal."""
        base_url = f"{self.settings.url}/api/"
        client = WebClient(token, base_url=base_url, timeout=timeout, ssl=self._tls, logger=_silent, retry_handlers=[])
        with self._calling(method, urlsplit(base_url).hostname):
            form, json = (params, None) if is_form else (None, params)
            answer = client.api_call(method, params=form, json=json, auth=auth)
        return cast("dict[str, Any]", answer.data)

    @contextmanager
    def _calling(self, method: str, host: str | None) -> Iterator[None]:
        """Run a call as one of a few, and translate its errors."""
        if not self._free.acquire(blocking=False):
            raise SlackUnavailableError("busy", "Too many calls of Slack are in progress.")
        try:
            with child_span(f"Slack {method}", {"server.address": host or ""}):
                yield
        except SlackApiError as error:
            raise _error_of(error.response) from None
        except (OSError, HTTPException, SlackClientError, ValueError) as error:
            raise SlackUnavailableError("no_answer", f"Slack did not answer: {type(error).__name__}") from None
        finally:
            self._free.release()


def _error_of(answer: Any) -> SlackError:
    """Return the error of a refused call, whatever Slack, or something in front of it, has answered."""
    data = answer.data if isinstance(answer.data, dict) else {}
    code = data.get("error")
    if answer.status_code == 429 or code in LATER:
        return SlackUnavailableError(
            "ratelimited" if answer.status_code == 429 else str(code), retry_after=_retry_after(answer.headers)
        )
    if answer.status_code >= 500 or not isinstance(code, str) or not code.isidentifier():
        return SlackUnavailableError(f"http_{answer.status_code}")
    return error_of(code, str(data.get("needed") or ""))


def _retry_after(headers: Any) -> float | None:
    """Return the seconds of `Retry-After`, or None if there are none."""
    found = {str(name).lower(): str(value) for name, value in headers.items()}.get("retry-after", "")
    return float(found) if found.isascii() and found.isdecimal() and len(found) < 6 else None


def _message(text: str, blocks: Blocks) -> dict[str, Any]:
    return {"text": text, **({"blocks": list(blocks)} if blocks else {})}


def _tokens_of(answer: dict[str, Any]) -> SlackTokens:
    expires_in = answer.get("expires_in")
    return SlackTokens(
        str(answer["access_token"]), answer.get("refresh_token"), int(expires_in) if expires_in is not None else None
    )
