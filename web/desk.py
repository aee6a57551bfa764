"""The desk that people come to: who they are by their cookie, the unit that works for them, and what they are shown.

Every request has one unit of the realm `identity`; to look at a page it is opened read-only, so that nothing can
happen by following a link. What a form may hold is said by the contract's operation of the same purpose; what may be
done is said by the services, as it is to everybody who calls the API.
"""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from flask import Response, g, redirect, request
from sqlalchemy import select

from app.edge.operation import MAX_USER_AGENT_LENGTH
from app.edge.retries import retry_on_serialization_failure
from models.organizations import LoginSession, Membership, Organization, User
from rules.access.permissions import NOBODY, Actor
from rules.errors import ServiceError
from schemas.contract import Contract
from schemas.dialect import Validators
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.identity import sessions
from services.identity.cookies import NAME as COOKIE
from services.identity.cookies import delete_cookie, set_cookie
from web.forms import LONGEST_ANSWER, LONGEST_FORM, Guard, shown
from web.problems import problems_of
from web.shapes import Shape

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETURNS = ("/", "/device", "/invitation", "/installed")
"""Pages that a sign-in may lead on to."""
_SECRETS = ("token", "user_code", "code", "state")
"""Parameters of an address that are nobody else's business."""
_TITLES = {
    401: "Sign in again",
    403: "Not allowed",
    404: "Not found",
    409: "Not possible now",
    410: "Gone",
    429: "Too many tries",
}


class SignInNeededError(Exception):
    """The page is for somebody who is signed in; `back` is where they wanted to go."""

    def __init__(self, back: str) -> None:
        super().__init__(back)
        self.back = back


class Visitor(NamedTuple):
    """Somebody who is signed in, and the organisation that they act in, if there is one."""

    session_id: str
    user_id: str
    name: str
    email: str
    organization_id: str | None


@dataclass(frozen=True, slots=True)
class Desk:
    """What the pages for people share."""

    contract: Contract
    uow_factory: UnitOfWorkFactory
    organizations: UnitOfWorkFactory
    """Opens units of the realm `organization`, for the page that works in one."""
    guard: Guard
    shape: Callable[[str], Shape]

    def work(self, job: Callable[[UnitOfWork, Visitor | None], T]) -> T:
        """Return what the job makes of a unit of the visitor's; a refusal whose effects stay is raised after commit."""
        looks = request.method in {"GET", "HEAD"}
        return self._in_unit(looks, lambda uow: job(uow, self._visitor(uow)))

    def work_as_nobody(self, job: Callable[[UnitOfWork], T]) -> T:
        """Do the same for somebody who is not known yet, whatever cookie they bring."""
        return self._in_unit(False, job)

    def _in_unit(self, read_only: bool, job: Callable[[UnitOfWork], T]) -> T:  # noqa: FBT001 - as `Units.open` has it
        def once() -> T:
            with self.uow_factory.open(_caller(), read_only=read_only) as uow:
                try:
                    return job(uow)
                except ServiceError as error:
                    if not error.commit_on_error:
                        raise
                    refused = error
            raise refused

        return retry_on_serialization_failure(once)

    def work_signed_in(self, back: str, job: Callable[[UnitOfWork, Visitor], T]) -> T:
        """Do the same for somebody who is signed in; raises SignInNeededError."""

        def checked(uow: UnitOfWork, visitor: Visitor | None) -> T:
            if visitor is None:
                raise SignInNeededError(back)
            return job(uow, visitor)

        return self.work(checked)

    def _visitor(self, uow: UnitOfWork) -> Visitor | None:
        """Return who asks, and have the unit act as them; support looks at organisations, not at people's pages."""
        session = sessions.find(uow, request.cookies.get(COOKIE, ""))
        if session is None or session.support:
            return None
        user = uow.session.get_one(User, session.user_id)
        actor = Actor("user", user.id, user.name)
        uow.caller = replace(uow.caller, actor=actor, principal_id=user.id, session_id=session.id)
        organization_id = _acts_in(uow, session)
        if organization_id is not None:
            uow.bind_organization(organization_id)
        g.visitor = Visitor(session.id, user.id, user.name, user.email, organization_id)
        return g.visitor  # type: ignore[no-any-return]

    def answers(self, *names: str) -> dict[str, str]:
        """Return the fields of a form that this page sent, without the spaces around them; raises ForeignFormError."""
        request.max_content_length = LONGEST_FORM
        self.guard.check(_subject())
        given = {name: request.form.get(name, "") for name in names}
        if any("\0" in text or len(text) > LONGEST_ANSWER for text in given.values()):
            raise ServiceError("validation_failed", "The form holds something that nobody can have typed.")
        return {name: text if name == "password" else text.strip() for name, text in given.items()}

    def require(self, operation: str, **body: str) -> None:
        """Refuse what the contract would not take in the body of an operation; what is empty counts as missing."""
        self.shape(operation).require({name: text for name, text in body.items() if text})

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page whose forms are ours; it knows who is signed in once a unit has worked for them."""
        browser = self.guard.browser()
        secret = any(name in request.args for name in _SECRETS) or "?" in request.args.get("next", "")
        page = shown(
            f"people/{template}",
            status,
            referrer="no-referrer" if secret else "same-origin",
            visitor=g.get("visitor"),
            maybe=bool(_subject()),
            token=self.guard.token(browser, _subject()),
            **{"problems": (), **values},
        )
        self.guard.remember(page, browser)
        return page

    def show_again(self, template: str, error: ServiceError, labels: Mapping[str, str], **values: Any) -> Response:
        """Return a form once more, with what is wrong with it."""
        page = self.show(template, self.status(error), problems=problems_of(error, labels), **values)
        return _with_headers(page, error)

    def refuse(self, error: ServiceError) -> Response:
        """Return a refusal as a page."""
        status = self.status(error)
        title = _TITLES.get(status, "Not accepted" if status < 500 else "That did not work")
        number = _request_id() if status >= 500 else None
        return _with_headers(
            self.show("refused.html", status, title=title, message=error.message, number=number), error
        )

    def spent(self, message: str, way: str, way_label: str) -> Response:
        """Return the page of a mailed link that is good for nothing any more, and where to go instead."""
        return self.show("refused.html", 404, title=_TITLES[404], message=message, way=way, way_label=way_label)

    def status(self, error: ServiceError) -> int:
        """Return the status of a refusal, as the contract has it."""
        row = self.contract.errors.get(error.code)
        if row is None:
            logger.error("code %s is not in the catalogue", error.code)
            return 500
        inside = bool(error.details) and error.details[0].path.startswith("/")
        return row.also_status if row.also_status and inside else row.status

    def let_in(self, signed_in: sessions.SignedIn, now: datetime, back: str) -> Response:
        """Give the browser its session, and lead it on."""
        page = go(back)
        expires_at = signed_in.session.expires_at
        page.headers.add("Set-Cookie", set_cookie(signed_in.token, now, expires_at, web_url=self.guard.web_url))
        return page

    def let_out(self, back: str) -> Response:
        """Take the session and the forms' secret from the browser."""
        page = go(back)
        page.headers.add("Set-Cookie", delete_cookie(web_url=self.guard.web_url))
        self.guard.forget(page)
        return page


def open_desk(contract: Contract, uow_factory: UnitOfWorkFactory, organizations: UnitOfWorkFactory) -> Desk:
    """Return the desk of one application."""
    validators = Validators(contract.document)
    shape = cache(lambda name: Shape(contract, validators, contract.operations[name]))
    return Desk(contract, uow_factory, organizations, Guard("forms", uow_factory.dependencies.web_url), shape)


def go(address: str) -> Response:
    """Lead on to one of our pages, which is asked for with GET (RFC 9110, 15.4.4)."""
    page: Any = redirect(address, 303)
    page.headers["Cache-Control"] = "no-store"
    page.headers["Referrer-Policy"] = "no-referrer"
    return page  # type: ignore[no-any-return]


def way_back(wanted: str) -> str:
    """Return the address of our own that a sign-in leads on to: never one of another site."""
    try:
        parts = urlsplit(wanted)
    except ValueError:
        return "/"
    if parts.scheme or parts.netloc or parts.path not in RETURNS:
        return "/"
    return urlunsplit(("", "", parts.path, urlencode(parse_qsl(parts.query)), ""))


def lead_to_sign_in(error: SignInNeededError) -> Response:
    """Lead somebody to the sign-in page, and from there on to where they wanted to go."""
    return go("/sign-in" if error.back == "/" else f"/sign-in?{urlencode({'next': error.back})}")


def _subject() -> str:
    """Bind forms to the sign-in: one that was shown before it, or to somebody else, is worth nothing after it."""
    return request.cookies.get(COOKIE, "")


def _acts_in(uow: UnitOfWork, session: LoginSession) -> str | None:
    """Return the organisation of a sign-in, if its person still belongs there and it still is."""
    return uow.session.scalar(
        select(Organization.id)
        .join(Membership, Membership.organization_id == Organization.id)
        .where(Organization.id == session.organization_id, Membership.user_id == session.user_id)
        .where(Organization.deleted_at.is_(None))
    )


def _request_id() -> str | None:
    context = request.environ.get("asgi.scope", {}).get("request_context")
    return context.request_id if context else None


def _caller() -> Caller:
    return Caller(
        None,
        NOBODY,
        "dashboard",
        request_id=_request_id(),
        address=request.remote_addr or "",
        client=request.headers.get("User-Agent", "")[:MAX_USER_AGENT_LENGTH],
    )


def _with_headers(page: Response, error: ServiceError) -> Response:
    if error.retry_after is not None:
        page.headers["Retry-After"] = str(max(0, math.ceil(error.retry_after)))
    if page.status_code == 401:
        page.headers["WWW-Authenticate"] = 'Bearer realm="change-freeze"'
    return page
