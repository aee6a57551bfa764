"""`/settings/notifications`: what you get emails about in this organisation."""

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from rules import web_addresses
from web.dashboard.page import Change, DashboardPage, next_state, redirect_with_notice, state_of
from web.fields import split_list, to_number
from web.operations import Call, OperationError

_EDITED = ("kinds", "remindBefore")
_LABELS = {"kinds": "Notifications", "remind_before": "Reminders"}


class Notifications(DashboardPage):
    """Which mails the signed-in person gets."""

    path = web_addresses.NOTIFICATIONS
    section = web_addresses.SETTINGS
    notices = {"saved": "Your choice is saved."}

    def get(self, error: OperationError | None = None, given: Mapping[str, str] | None = None) -> Response:
        """Show what is chosen."""
        [chosen] = self.read(Call("get_my_notifications"))
        values: dict[str, Any] = {
            "choices": chosen["choices"],
            "shown": next_state(state_of(chosen, *_EDITED), given, error),
            "chosen": chosen["kinds"] if given is None else request.form.getlist("kind"),
            "remind_before": given["remind_before"] if given else ", ".join(map(str, chosen["remindBefore"])),
        }
        return self.show_form("settings/notifications.html", error, _LABELS, **values)

    def post(self) -> Response:
        """Save the choice."""
        given = self.context.form_fields("remind_before", "shown")
        minutes = [to_number(text) for text in split_list(given["remind_before"])]
        try:
            body = {"kinds": request.form.getlist("kind"), "remindBefore": minutes}
            self.change(Change("get_my_notifications", "update_my_notifications", _EDITED), body, given["shown"])
        except OperationError as error:
            details = [type(each)("/remind_before", each.message) for each in error.details]
            return self.get(error.with_details(details), given)
        return redirect_with_notice(self.path, "saved")
