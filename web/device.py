"""`/device`: a person lets a device in that shows them a code, or sends it away (RFC 8628, 3.3 and 5.4).

The code is asked for by a form even where the address brings it, so that nobody approves by following a link; then the
page names what asks, from where, for which organisation, and what it will be able to do.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from models.identity import DeviceAuthorization
from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import devices, sessions
from services.organizations import memberships
from web.desk import Desk, Visitor
from web.problems import at
from web.roles import powers

_LABELS = {"user_code": "Code", "organization_id": "Organisation"}
NO_DEVICE = "No device waits under this code. It may be mistyped, used, or older than ten minutes."
MOST_ORGANIZATIONS = 100


class Device:
    """The page, in its three steps: the code, the consent, and what came of it."""

    path = "/device"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the form for the code."""
        code = request.args.get("user_code", "")
        back = f"/device?{urlencode({'user_code': code})}" if code else "/device"
        self.desk.work_signed_in(back, lambda _unit, visitor: visitor)
        return self.desk.show("device.html", user_code=code)

    def act(self) -> Response:
        """Show what asks, or do as its form says."""
        given = self.desk.answers("user_code", "decision", "organization_id")
        act = self._decide if given["decision"] in {"approve", "deny"} else self._consent
        try:
            return act(given)
        except ServiceError as error:
            shown = at("user_code", error) if error.code == "not_found" else error
            return self.desk.show_again("device.html", shown, _LABELS, user_code=given["user_code"])

    def _consent(self, given: dict[str, str]) -> Response:
        if not given["user_code"]:
            raise at("user_code", ServiceError("missing_parameter", "Enter the code that your device shows."))

        def look(uow: UnitOfWork, _: Visitor) -> tuple[DeviceAuthorization | None, Sequence[Any]]:
            return devices.find_pending(uow, given["user_code"]), memberships.list_mine(
                uow, None, MOST_ORGANIZATIONS
            ).data

        device, organizations = self.desk.work_signed_in("/device", look)
        if device is None:
            raise ServiceError("not_found", NO_DEVICE)
        active = next((each for each in organizations if each["active"]), None)
        return self.desk.show(
            "consent.html",
            device=device,
            organizations=organizations,
            chosen=active or next(iter(organizations), None),
            powers=powers,
            days=sessions.LIFETIME.days,
        )

    def _decide(self, given: dict[str, str]) -> Response:
        approve = given["decision"] == "approve"

        def decide(uow: UnitOfWork, _: Visitor) -> DeviceAuthorization:
            return devices.decide(uow, given["user_code"], approve, given["organization_id"] or None)

        return self.desk.show("decided.html", device=self.desk.work_signed_in("/device", decide))
