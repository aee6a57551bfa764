"""`/`: the organisations of somebody who is signed in, their invitations, and what else is signed in as them."""

import re
from typing import Any

from flask import Response, request

from rules.errors import ServiceError
from services.core.unit_of_work import UnitOfWork
from services.identity import session_views, sessions
from services.organizations import invitations, memberships
from web.desk import Desk, Visitor, go

MOST = 100
"""Rows of one kind that the page lists."""
NOTICES = {
    "joined": "You are a member now. The organisation is among yours below.",
    "switched": "This browser acts in another organisation now.",
    "ended": "The session has ended.",
    "made": "Your organisation is there. You are its owner.",
}
_LABELS = {"name": "Name of the organisation"}
_BROWSERS = (("Edg", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = ("Windows", "Android", "iPhone", "iPad", "Mac OS", "CrOS", "Linux")


class Home:
    """The page, and what its forms do: make an organisation, switch between several, end a session."""

    path = "/"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show it."""
        return self._show(NOTICES.get(request.args.get("notice", "")))

    def act(self) -> Response:
        """Do what the button says."""
        given = self.desk.answers("do", "organization_id", "session_id", "name")
        jobs = {"switch": self._switch, "end": self._end, "make": self._make}
        job = jobs.get(given["do"])
        if job is None:
            raise ServiceError("validation_failed", "The form does not say what to do.")
        return job(given)

    def _switch(self, given: dict[str, str]) -> Response:
        def switch(uow: UnitOfWork, visitor: Visitor) -> None:
            sessions.set_active(uow, visitor.session_id, given["organization_id"])

        self.desk.work_signed_in("/", switch)
        return go("/?notice=switched")

    def _end(self, given: dict[str, str]) -> Response:
        def end(uow: UnitOfWork, visitor: Visitor) -> bool:
            session_views.end(uow, given["session_id"])
            return visitor.session_id == given["session_id"]

        own = self.desk.work_signed_in("/", end)
        return self.desk.let_out("/sign-in?notice=out") if own else go("/?notice=ended")

    def _make(self, given: dict[str, str]) -> Response:
        name = given["name"]
        try:
            self.desk.require("bootstrap_organization", name=name)
            self.desk.work_signed_in("/", lambda uow, _: memberships.bootstrap(uow, name or None))
        except ServiceError as error:
            return self._show(None, error, name)
        return go("/?notice=made")

    def _show(self, notice: str | None, error: ServiceError | None = None, name: str = "") -> Response:
        shown = self.desk.work_signed_in("/", _gather)
        values: dict[str, Any] = {**shown, "notice": notice, "name": name, "called": called}
        if error is not None:
            return self.desk.show_again("home.html", error, _LABELS, **values)
        return self.desk.show("home.html", **values)


def _gather(uow: UnitOfWork, _: Visitor) -> dict[str, Any]:
    return {
        "organizations": memberships.list_mine(uow, None, MOST).data,
        "invitations": invitations.list_pending(uow, None, MOST).data,
        "sessions": session_views.list_sessions(uow, None, MOST).data,
    }


def called(client: str) -> str:
    """Return what somebody would call the client that a session was begun with, by its `User-Agent`."""
    if not client.startswith("Mozilla/"):
        return re.split(r"[\s/]", client, maxsplit=1)[0] or "Something unknown"
    browser = next((name for mark, name in _BROWSERS if mark in client), "A browser")
    system = next((name for name in _SYSTEMS if name in client), None)
    return f"{browser} on {system}" if system else browser
