"""`/installed`: where GitHub sends a person who has installed the App; its form claims the installation.

Without anything in its address it is the way there: it tells what is connected, and gives the address at GitHub.

The address names an installation, a state and a code. Nothing happens by following it: anybody can write one. The page
says which organisation is to be connected, to the person alone who asked GitHub for it, and the claim itself proves
the rest (`services/installations/claims.py`).
"""

from typing import Any, NamedTuple

from flask import Response, request
from sqlalchemy import select

from models.organizations import Membership, Organization
from rules.access.permissions import role_reaches
from rules.errors import ServiceError
from services.core.unit_of_work import Caller, UnitOfWork
from services.identity import one_time_tokens
from services.installations import claims, views
from web.desk import Desk, Visitor

CLAIM, INSTALL = "claim_installation", "get_install_url"
_FIELDS = {"installation_id": "installationId", "state": "state", "code": "code"}
_OLD = "This address was used already, is older than an hour, or was given to somebody else."
_NOWHERE = "You act in no organisation. Make one on the first page, or choose one of yours there."
_ASKED = "GitHub has asked an owner of the account to install the App. Ask for a new address once they have done so."
_BARE = (
    "GitHub sent no authorisation along. The App has to request user authorisation during installation; tell whoever "
    "runs this service."
)


class Asked(NamedTuple):
    """For which organisation an installation was asked for, and as whom it is claimed."""

    organization: str
    role: str
    """The visitor's there."""
    caller: Caller


class Installed:
    """The page."""

    path = "/installed"

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def ask(self) -> Response:
        """Show what will be connected; without anything in the address, what is, and the way to connect it."""
        if not request.args:
            return self._begin()
        given = {name: request.args.get(name, "") for name in _FIELDS}
        if not all(given.values()):
            if request.args.get("setup_action") == "request":
                return self.desk.show("refused.html", title="Not installed yet", message=_ASKED)
            return self.desk.show("refused.html", 404, title="Not an authorisation", message=_BARE)
        back = request.full_path
        try:
            asked = self.desk.work_signed_in(back, lambda uow, visitor: self._asked(uow, visitor, given["state"]))
        except ServiceError as error:
            return self._refused(error)
        return self.desk.show("installed.html", organization=asked.organization, given=given)

    def _begin(self, *, address: bool = False) -> Response:
        """Show how far the visitor's organisation has come; with `address` also GitHub's, where they may have it."""
        place = self.desk.work_signed_in(self.path, self._present)
        if place is None:
            return self.desk.show("refused.html", 404, title="No organisation", message=_NOWHERE)
        if address:
            self._require_role(place, INSTALL)
        with self.desk.organizations.open(place.caller, read_only=not address) as uow:
            url = claims.install_url(uow)["url"] if address else None
            stands = views.status(uow, None)
        return self.desk.show(
            "connect.html", organization=place.organization, stands=stands, url=url, may=self._may(place, INSTALL)
        )

    def _present(self, uow: UnitOfWork, visitor: Visitor) -> Asked | None:
        return self._place(uow, visitor, visitor.organization_id) if visitor.organization_id else None

    def act(self) -> Response:
        """Claim it, or give GitHub's address."""
        given = self.desk.answers(*_FIELDS, "do")
        if given.pop("do") == "install":
            return self._begin(address=True)
        try:
            body = self._body(given)
            asked = self.desk.work_signed_in("/", lambda uow, visitor: self._asked(uow, visitor, given["state"]))
            with self.desk.organizations.open(asked.caller) as uow:
                claimed = claims.claim(uow, body["installationId"], body["state"], body["code"])
        except ServiceError as error:
            return self._refused(error)
        return self.desk.show("connected.html", organization=asked.organization, installation=claimed)

    def _body(self, given: dict[str, str]) -> dict[str, Any]:
        number = given["installation_id"]
        body: dict[str, Any] = {_FIELDS[name]: text for name, text in given.items()}
        body["installationId"] = int(number) if number.isascii() and number.isdecimal() and len(number) < 17 else number
        self.desk.shape(CLAIM).require(body)
        return body

    def _asked(self, uow: UnitOfWork, visitor: Visitor, state: str) -> Asked:
        """Return what a state was given for; raises `not_found` for one that is no more, or was not the visitor's."""
        token = one_time_tokens.peek(uow, "installation", state)
        if token is None or token.subject != visitor.user_id:
            raise ServiceError("not_found", _OLD)
        asked = self._place(uow, visitor, token.organization_id)
        self._require_role(asked, CLAIM)
        return asked

    def _place(self, uow: UnitOfWork, visitor: Visitor, organization_id: str | None) -> Asked:
        """Return an organisation of the visitor's; raises `not_found` for another one, or none."""
        found = uow.session.execute(
            select(Organization, Membership.role)
            .join(Membership, Membership.organization_id == Organization.id)
            .where(Organization.id == organization_id, Membership.user_id == visitor.user_id)
            .where(Organization.deleted_at.is_(None))
        ).first()
        if found is None:
            raise ServiceError("not_found", _OLD)
        organization, role = found
        caller = Caller(
            organization.id,
            uow.actor,
            "dashboard",
            plan=organization.plan,
            principal_id=visitor.user_id,
            request_id=uow.caller.request_id,
            session_id=visitor.session_id,
            address=uow.caller.address,
            client=uow.caller.client,
        )
        return Asked(organization.name, role, caller)

    def _may(self, asked: Asked, operation: str) -> bool:
        """Tell whether the visitor has the role that the contract asks of who calls the operation."""
        role: Any = asked.role
        least: Any = self._least(operation)
        return role_reaches(role, least)

    def _least(self, operation: str) -> str | None:
        return self.desk.contract.operations[operation].least_role

    def _require_role(self, asked: Asked, operation: str) -> None:
        if not self._may(asked, operation):
            message = f"This needs the role {self._least(operation)}; yours is {asked.role}."
            raise ServiceError("insufficient_permission", message)

    def _refused(self, error: ServiceError) -> Response:
        if error.code == "not_found" or (error.details and error.details[0].path == "/state"):
            return self.desk.spent(_OLD, "/", "Go to the first page, and ask for a new address")
        return self.desk.refuse(error)
