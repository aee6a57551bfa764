"""`/invitation`: who invites to what, with which role; accepted by its form alone.

The mailed link shows it to whoever has it. Only the account of the invited address accepts it, and finds it under its
id too, so that no sign-in on the way has to carry the secret along.
"""

from typing import Any
from urllib.parse import urlencode

from flask import Response, request

from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.organizations import invitations
from web.desk import Desk, Visitor, go
from web.roles import powers

MOST = 100
"""Invitations of one person that are looked through."""
_GONE = "There is no such invitation for you, or it has been accepted, taken back, or has expired."


class Invitation:
    """The page of one invitation."""

    path = "/invitation"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show the invitation of a mailed token, or one to the address of who is signed in."""
        mailed, wanted = request.args.get("token", ""), request.args.get("id", "")
        try:
            if mailed:
                found = self.desk.work(lambda uow, _: invitations.preview(uow, mailed))
            else:
                found = self.desk.work_signed_in(_address(wanted), lambda uow, _: _own(uow, wanted))
        except ServiceError as error:
            if error.code != "invitation_not_found":
                raise
            return self.desk.spent(_GONE, "/", "Go to the first page")
        return self.desk.show(
            "invitation.html", invitation=found, powers=powers(found["role"]), back=_address(found["id"])
        )

    def act(self) -> Response:
        """Accept it."""
        wanted = self.desk.answers("id")["id"]

        def accept(uow: UnitOfWork, _: Visitor) -> None:
            invitations.accept(uow, wanted)

        try:
            self.desk.work_signed_in(_address(wanted), accept)
        except ServiceError as error:
            if error.code != "invitation_not_found":
                raise
            return self.desk.spent(_GONE, "/", "Go to the first page")
        return go("/?notice=joined")


def _own(uow: UnitOfWork, wanted: str) -> dict[str, Any]:
    for invitation in invitations.list_pending(uow, None, MOST).data:
        if invitation["id"] == wanted:
            return dict(invitation)
    raise ServiceError("invitation_not_found", _GONE)


def _address(invitation_id: str) -> str:
    return f"/invitation?{urlencode({'id': invitation_id})}"
