"""`/slack`, the workspace of an organisation, and `/slack/link`, where a person lets their Slack user act as them.

Slack sends a person back to `/slack` after an installation, with a state and a code. Nothing happens by following an
address, since anyone can write one. The page names the organisation to connect only to the person who requested it.
That of a link names the Slack user, because a link can be passed on.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Response, request

from rules import web_addresses
from rules.errors import Detail
from web.connecting import EXPIRED, act_in, find_requested, show_refusal
from web.context import NO_ORGANIZATION, Visitor, unknown_button
from web.linked_organization import address_to_return_to, require_linked_organization
from web.operations import OperationError
from web.views import PageView

CLAIM, INSTALL, DISCONNECT = "claim_slack_workspace", "get_slack_install_url", "disconnect_slack"
LIST_CHANNELS = "list_slack_channels"
MAX_LISTED = 50
"""Channels that one page lists to choose from."""
_LISTING_SCOPES = frozenset({"channels:read", "groups:read"})
"""The permissions without which the page lists no channels, or no private ones. All else goes on without them."""
_LINK_EXPIRED = (
    "This link has been used, is older than ten minutes, or is of an organisation that you do not belong to. Type the "
    "command in Slack again."
)


EVENTS = {
    "freeze.started": "Freezes that start",
    "freeze.ended": "Freezes that end",
    "window.upcoming": "Planned windows, an hour before",
    "exception.requested": "Requests for exceptions",
    "exception.decided": "Decisions about exceptions",
    "freeze.bypassed": "Merges past a freeze",
    "enforcement.lost": "Rules that no longer block",
}
"""What a channel may get messages about, in words."""
_FIELDS_OF_CHANNELS = ("chosen", "channel", "channel_name", "find", "after", "subscription_id")
_LABELS = {
    "chosen": "Channel",
    "channel": "Address",
    "channel_name": "Name",
    "events": "Messages",
    "find": "Channel",
    "q": "Channel",
}


def _channel_of(text: str) -> str:
    """Return the id in the address of a channel, as Slack copies it; any other text as it is."""
    return text.partition("/archives/")[2].partition("/")[0].partition("?")[0] or text


def _at_its_field(detail: Detail, *, is_listed: bool) -> Detail:
    """Return a problem of a channel's id at the field that the form has for it."""
    if detail.path != "/channelId":
        return detail
    if is_listed:
        return replace(detail, path="/chosen", message="Choose a channel.")
    return replace(detail, path="/channel")


class SlackWorkspace(PageView):
    """The workspace: its state, and connecting, disconnecting and unlinking."""

    path = web_addresses.SLACK

    def get(self) -> Response:
        """Show the connection; with what Slack sent, show what will be connected."""
        if "error" in request.args:
            message = "The app was not installed in Slack, and nothing was changed."
            return self.context.message_page("Slack is not connected", message, 200, link=(self.path, "Back to Slack"))
        given = {name: request.args.get(name, "") for name in ("state", "code")}
        if not all(given.values()):
            return self._status() if "find" not in request.args else self._find_channels()
        self.context.require_visitor(request.full_path)
        try:
            requested = self._requested(given["state"])
        except OperationError as error:
            return self._refused(error)
        return self.context.render("slack_claim.html", organization=requested["organization"], given=given)

    def post(self) -> Response:
        """Connect the workspace, give Slack's address, disconnect, or unlink the visitor."""
        given = self.context.form_fields("do", "state", "code", "team", *_FIELDS_OF_CHANNELS)
        visitor = self.context.require_visitor(self.path)
        if given["do"] == "claim":
            return self._claim(visitor, given)
        if given["do"] == "install":
            query = {"team": given["team"]} if given["team"] else {}
            return self._status(url=self.context.call(INSTALL, query=query).content["url"])
        if given["do"] in {"subscribe", "unsubscribe"}:
            return self._choose_channel(given)
        if given["do"] not in {"disconnect", "unlink"}:
            raise unknown_button()
        self.context.call(DISCONNECT if given["do"] == "disconnect" else "unlink_slack_user")
        return self._status(done="Slack is disconnected." if given["do"] == "disconnect" else "You are unlinked.")

    def _find_channels(self) -> Response:
        """Show the channels whose name has what was looked for."""
        self.context.require_visitor(request.full_path)
        given = {name: request.args.get(name, "") for name in ("find", "after")}
        try:
            return self._status(found=self._list_channels(given), given=given)
        except OperationError as error:
            details = [replace(each, path="/find") if each.path == "q" else each for each in error.details]
            return self._status(error=error.with_details(details), given=given)

    def _list_channels(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        query = {"limit": str(MAX_LISTED), "q": given["find"].strip(), "cursor": given["after"]}
        page: Mapping[str, Any] = self.context.call(
            LIST_CHANNELS, query={name: value for name, value in query.items() if value}
        ).content
        return page

    def _list_again(self, given: Mapping[str, str]) -> Mapping[str, Any] | None:
        """Return the channels that a person chose from; None if Slack does not list them now."""
        try:
            return self._list_channels(given)
        except OperationError:
            return None

    def _choose_channel(self, given: Mapping[str, str]) -> Response:
        """Have messages posted to a channel, or no more. `chosen` is the id and the name of a listed one."""
        try:
            if given["do"] == "unsubscribe":
                params = {"slackSubscriptionId": given["subscription_id"]}
                self.context.call("unsubscribe_slack_channel", path_params=params)
                return self._status(done="The channel gets no more messages.")
            listed, _, name = given["chosen"].partition(" ")
            body: dict[str, Any] = {"channelId": listed or _channel_of(given["channel"])}
            if name := name or given["channel_name"]:
                body["channelName"] = name.removeprefix("#")
            if events := request.form.getlist("event"):
                body["events"] = events
            self.context.call("subscribe_slack_channel", body=body)
        except OperationError as error:
            is_listed = "find" in request.form
            details = [_at_its_field(each, is_listed=is_listed) for each in error.details]
            found = self._list_again(given) if is_listed else None
            return self._status(error=error.with_details(details), given=given, found=found)
        return self._status(done="The channel gets messages from now on.")

    def _claim(self, visitor: Visitor, given: Mapping[str, str]) -> Response:
        try:
            requested = self._requested(given["state"])
            act_in(self.context, visitor, requested["organization"])
            self.context.call(CLAIM, body={"state": given["state"], "code": given["code"]})
        except OperationError as error:
            return self._refused(error)
        return self._status(done="Slack is connected.")

    def _status(
        self,
        url: str | None = None,
        done: str | None = None,
        error: OperationError | None = None,
        given: Mapping[str, str] | None = None,
        found: Mapping[str, Any] | None = None,
    ) -> Response:
        visitor = self.context.require_visitor(address_to_return_to())
        require_linked_organization(visitor)
        organization = visitor.organization
        if organization is None:
            return self.context.message_page("No organisation", NO_ORGANIZATION, 404)
        subscriptions = []
        if self.context.may(organization["role"], "list_slack_subscriptions"):
            subscriptions = self.context.call("list_slack_subscriptions", query={"limit": "100"}).content["data"]
        connection = self.context.call("get_slack_connection").content
        missing = set(connection["missingScopes"])
        values: dict[str, Any] = {
            "organization": organization,
            "connection": connection,
            "missing": sorted(missing - _LISTING_SCOPES),
            "missing_to_list": sorted(missing & _LISTING_SCOPES),
            "found": found,
            "subscriptions": subscriptions,
            "events": EVENTS,
            "chosen": request.form.getlist("event") or list(EVENTS),
            "given": given or {},
            "url": url,
            "done": done,
            "may_install": self.context.may(organization["role"], INSTALL),
            "may_subscribe": self.context.may(organization["role"], "subscribe_slack_channel"),
        }
        return self.context.render_form("slack.html", error, _LABELS, **values)

    def _requested(self, state: str) -> Mapping[str, Any]:
        return find_requested(self.context, "get_slack_install_request", CLAIM, state)

    def _refused(self, error: OperationError) -> Response:
        return show_refusal(self.context, error, "state", EXPIRED, (self.path, "Start again"))


class SlackLink(PageView):
    """The confirmation of a link."""

    path = web_addresses.SLACK_LINK

    def get(self) -> Response:
        """Show which Slack user is to act as the visitor, and where."""
        self.context.require_visitor(request.full_path)
        given = request.args.get("token", "")
        try:
            requested = self._requested(given)
        except OperationError as error:
            return self._refused(error)
        return self.context.render("slack_link.html", requested=requested, given=given)

    def post(self) -> Response:
        """Link the Slack user."""
        given = self.context.form_fields("link")["link"]
        visitor = self.context.require_visitor(web_addresses.SLACK)
        try:
            requested = self._requested(given)
            act_in(self.context, visitor, requested["organization"])
            self.context.call("link_slack_user", body={"token": given})
        except OperationError as error:
            return self._refused(error)
        message = f"@{requested['slackUser']['name']} acts as you in {requested['organization']['name']} from now on."
        link = (web_addresses.SLACK, "Slack and your link")
        return self.context.message_page("Your Slack user is linked", message, 200, link=link)

    def _requested(self, token: str) -> Mapping[str, Any]:
        if not token:
            raise OperationError(404, "not_found", _LINK_EXPIRED)
        requested: Mapping[str, Any] = self.context.call("get_slack_link_request", query={"token": token}).content
        return requested

    def _refused(self, error: OperationError) -> Response:
        return show_refusal(self.context, error, "token", _LINK_EXPIRED, (web_addresses.SLACK, "Slack"))
