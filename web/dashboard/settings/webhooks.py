"""`/settings/webhooks`: addresses to which events are sent; and `/settings/webhooks/{id}`, one with its messages."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.context import unknown_button
from web.dashboard.addresses import address_of
from web.dashboard.page import Change, DashboardPage, filters, next_state, redirect_with_notice, state_of
from web.fields import split_list, to_number
from web.operations import Call, OperationError

LABELS = {"name": "Name", "url": "Address", "events": "Events", "remind_before": "Reminders"}
STATES = {"pending": "Waiting for another attempt", "delivered": "Delivered", "failed": "Given up"}
"""Words for the states of a message."""
DISABLED = {
    "by_person": "A person disabled it.",
    "gone": "It answered 410: the address is gone.",
    "failing": "Every attempt of five days failed.",
}
"""Why a webhook is disabled."""
_EDITED = ("name", "url", "events", "remindBefore")
_FIELDS = ("do", "shown", "name", "url", "single", "remind_before", "delivery_id")


class Webhooks(DashboardPage):
    """The list, and the form that adds one."""

    path = web_addresses.WEBHOOKS
    section = web_addresses.SETTINGS
    notices = {"deleted": "The webhook has been deleted."}

    def get(self, error: OperationError | None = None, given: Mapping[str, str] | None = None) -> Response:
        """Show the webhooks."""
        self.read()
        values: dict[str, Any] = {"given": given or {}}
        if self.may("list_webhooks"):
            webhooks, events = self.read_part(
                Call("list_webhooks", query={"limit": 50}), Call("list_webhook_events", query={"limit": 100})
            )
            values |= {"webhooks": webhooks["data"], "families": _families(events["data"])}
            values["chosen"] = request.form.getlist("family")
        return self.show_form("settings/webhooks.html", error, LABELS, **values)

    def post(self) -> Response:
        """Add one, and show its secret once."""
        given = self.context.form_fields(*_FIELDS)
        if given["do"] != "create":
            raise unknown_button()
        try:
            created = self.context.call("create_webhook", body=_body(given)).content
        except OperationError as error:
            return self.get(_at_fields(error), given)
        self.read()
        return self.show("settings/webhook_secret.html", created=created)


class WebhookPage(DashboardPage):
    """One webhook: its settings, its secret, and its messages."""

    path = web_addresses.WEBHOOK
    section = web_addresses.SETTINGS
    notices = {
        "saved": "The webhook has been changed.",
        "enabled": "Events are sent again, from now on.",
        "disabled": "Nothing more is sent.",
        "tested": "A test event is on its way.",
        "sent": "The message is sent again.",
    }

    def get(
        self, item_id: str, error: OperationError | None = None, given: Mapping[str, str] | None = None
    ) -> Response:
        """Show the webhook."""
        params = {"webhookId": item_id}
        webhook, deliveries, events = self.read(
            Call("get_webhook", params),
            Call("list_webhook_deliveries", params, {"limit": 25, **filters("state", "cursor")}),
            Call("list_webhook_events", query={"limit": 100}),
        )
        families = _families(events["data"])
        names = {name for name, _ in families}
        sent = bool(given and given["do"] == "save")
        values: dict[str, Any] = {
            "webhook": webhook,
            "shown": next_state(state_of(webhook, *_EDITED), given, error),
            "deliveries": deliveries["data"],
            "next_cursor": deliveries["nextCursor"],
            "families": families,
            "chosen": request.form.getlist("family") if sent else webhook["events"],
            "single": ", ".join(each for each in webhook["events"] if each not in names),
            "states": STATES,
            "disabled": DISABLED,
            "sent": sent,
            "given": given or {},
        }
        return self.show_form("settings/webhook.html", error, LABELS, **values)

    def post(self, item_id: str) -> Response:
        """Do what the button says."""
        given = self.context.form_fields(*_FIELDS)
        params, call = {"webhookId": item_id}, self.context.call
        try:
            if given["do"] == "delete":
                call("delete_webhook", path_params=params)
                return redirect_with_notice(web_addresses.WEBHOOKS, "deleted")
            if given["do"] == "rotate":
                created = call("rotate_webhook_secret", path_params=params, body={}).content
                self.read()
                return self.show("settings/webhook_secret.html", created=created)
            notice = self._perform(given, params)
        except OperationError as error:
            return self.get(item_id, _at_fields(error), given)
        return redirect_with_notice(address_of(self.path, item_id), notice)

    def _perform(self, given: Mapping[str, str], params: Mapping[str, str]) -> str:
        """Return the name of the notice of what was done. Raise OperationError."""
        do, call = given["do"], self.context.call
        if do == "save":
            self.change(Change("get_webhook", "update_webhook", _EDITED, params), _body(given), given["shown"])
            return "saved"
        if do in {"enable", "disable"}:
            call("update_webhook", path_params=params, body={"enabled": do == "enable"})
            return f"{do}d"
        if do == "test":
            call("send_webhook_test", path_params=params)
            return "tested"
        if do == "redeliver":
            call("redeliver_webhook", path_params={**params, "deliveryId": given["delivery_id"]})
            return "sent"
        raise unknown_button()


def _families(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return everything and the families of events, with their meanings."""
    return [(each["event"], each["meaning"]) for each in events if each["event"].endswith("*")]


def _body(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a creation or change; what is no number is left to the operation to refuse."""
    body: dict[str, Any] = {name: given[name] for name in ("name", "url") if given[name]}
    return {
        **body,
        "events": [*request.form.getlist("family"), *split_list(given["single"])],
        "remindBefore": [to_number(text) for text in split_list(given["remind_before"])],
    }


def _at_fields(error: OperationError) -> OperationError:
    """Return a refusal whose details name the fields of the form: that of a list, not of its items."""
    fields = {"remindBefore": "remind_before"}
    found = [(each, each.path.split("/")[1]) for each in error.details if each.path.startswith("/")]
    return error.with_details([type(each)(f"/{fields.get(name, name)}", each.message) for each, name in found])
