"""Mounts the web pages: a Flask application in its own threads, with the ports that it needs."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from flask import Flask
from werkzeug.exceptions import HTTPException

from app.edge.connexion_adapter import Application
from app.edge.errors import database_error
from app.edge.operation import Edge
from app.edge.retries import retry_on_serialization_failure
from app.edge.wsgi import WsgiAdapter, WsgiApplication
from integrations.github import GitHub
from models.organizations import User
from rules import web_addresses
from rules.access.permissions import ANONYMOUS
from rules.access.sign_up import SignUpPolicy
from rules.errors import ServiceError
from rules.time.instants import format_instant
from rules.web_addresses import WebOrigin
from schemas.calls import REQUEST_ID
from services.core.unit_of_work import Caller, UnitOfWork, UnitOfWorkFactory
from services.enforcement.confirmation import Authorizations
from services.identity import one_time_tokens
from services.identity.accounts import find_account
from services.organizations import received_invitations
from web.application import create_pages
from web.context import PageContext
from web.enforcement import enforcement_pages
from web.forms import MAX_FORM_BYTES, FormGuard, max_form_bytes
from web.operations import LOOP, Operations
from web.people import people_pages
from web.ports import Purpose
from web.status import status_pages

_THREADS = 12
"""Each page holds one while its operations run, which have their own threads and connections."""


class MountedPages:
    """Serves a Flask application by ASGI, and passes the loop of the operations to its pages."""

    def __init__(self, pages: Flask) -> None:
        self._pages = pages
        application = cast("WsgiApplication", pages)
        self._application = WsgiAdapter(
            application, threads=_THREADS, max_body=MAX_FORM_BYTES, max_body_of=max_form_bytes
        )

    def serves(self, path: str) -> bool:
        """True if a page exists at this path, with any method."""
        try:
            self._pages.url_map.bind("").match(path, method="GET")
        except HTTPException as error:
            return error.code == 405
        return True

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve one request in a thread."""
        scope[LOOP] = asyncio.get_running_loop()
        if "request_context" in scope:
            scope[REQUEST_ID] = scope["request_context"].request_id
        await self._application(scope, receive, send)


@dataclass(frozen=True, slots=True)
class DatabaseMailedLinks:
    """Reads the purpose of mailed links from the database."""

    uow_factory: UnitOfWorkFactory

    def find(self, purpose: Purpose, token: str) -> Mapping[str, Any] | None:
        """Return the data of a valid link, with names as in the API; None for any other link."""
        try:
            return retry_on_serialization_failure(partial(self._find, purpose, token))
        except Exception as error:
            if (found := database_error(error)) is None:
                raise
            raise found from error

    def _find(self, purpose: Purpose, token: str) -> Mapping[str, Any] | None:
        with self.uow_factory.open(Caller(None, ANONYMOUS, "dashboard"), read_only=True) as uow:
            return _FINDERS[purpose](uow, token)


def _find_sign_up(uow: UnitOfWork, token: str) -> Mapping[str, Any] | None:
    found = one_time_tokens.peek(uow, "verify_email", token)
    return {"email": found.subject, "name": found.details["name"]} if found else None


def _find_password_reset(uow: UnitOfWork, token: str) -> Mapping[str, Any] | None:
    found = one_time_tokens.peek(uow, "reset_password", token)
    user = uow.session.get(User, found.subject) if found else None
    return {"email": user.email} if user else None


def _find_invitation(uow: UnitOfWork, token: str) -> Mapping[str, Any] | None:
    try:
        found = received_invitations.preview(uow, token)
    except ServiceError:
        return None
    return {
        "joinable": _is_joinable(uow, token),
        **{name: found[name] for name in ("id", "email", "role", "organization")},
        "invitedBy": found["invited_by"],
        "expiresAt": format_instant(found["expires_at"]),
    }


def _is_joinable(uow: UnitOfWork, token: str) -> bool:
    """True if the link creates the account of its address: it proves the mailbox, and there is no account yet."""
    try:
        return find_account(uow, received_invitations.find_joinable(uow, token).email) is None
    except ServiceError:
        return False


_FINDERS: Mapping[Purpose, Callable[[UnitOfWork, str], Mapping[str, Any] | None]] = {
    "verify_email": _find_sign_up,
    "reset_password": _find_password_reset,
    "invitation": _find_invitation,
}


def mount_pages(edge: Edge, application: Application, *, base_url: str) -> MountedPages:
    """Return the pages, which call the operations of the application.

    The page of an authorisation exists only if a GitHub App is configured.
    """
    pages = create_pages(edge.contract)
    identity, organization = edge.uow_factories["identity"], edge.uow_factories["organization"]
    web_url = identity.ports[WebOrigin].url
    context = PageContext(
        edge.contract,
        Operations(edge.contract, application),
        DatabaseMailedLinks(identity),
        FormGuard("forms", web_url),
        lambda: identity.clock.read(datetime.now(UTC)),
        identity.ports[SignUpPolicy],
        base_url + web_addresses.MCP,
    )
    pages.register_blueprint(people_pages(context, edge.maintenance.check))
    pages.register_blueprint(status_pages(context.operations, edge.maintenance.find_window, context.clock))
    github = organization.ports.find(GitHub)
    if github is not None:
        pages.register_blueprint(enforcement_pages(Authorizations(organization, github), web_url))
    return MountedPages(pages)
