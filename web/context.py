"""What the pages for people share: the visitor, calls of operations on their behalf, and the pages that answer.

A visitor is known by the session token of their cookie. It is the credential of every call, so that a page can do no
more than the API allows its visitor. A GET calls operations that read, so nothing happens by following a link.
"""

import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, cast
from urllib.parse import urlencode

import orjson
from flask import Response, g, redirect, request

from rules import web_addresses
from rules.access.login_sessions import cookie_name, delete_cookie, device_cookie_name
from rules.access.permissions import Role, role_reaches
from rules.access.sign_up import SignUpPolicy
from rules.billing.plans import PLANS, plans_with
from rules.errors import Detail, ServiceError
from schemas import walk
from schemas.calls import REQUEST_ID, Answer, StreamedAnswer
from schemas.contract import Contract
from web.dashboard.navigation import HELP, SECTIONS, SETTINGS
from web.forms import REPEATED, FormGuard, max_field_length, max_form_bytes, render_page
from web.operations import Call, OperationError, Operations
from web.ports import MailedLinks
from web.problems import error_title, problems_of
from web.resuming import RESUME, asked_of, kept_fields, read_kept

logger = logging.getLogger(__name__)

NO_ORGANIZATION = "Create an organisation first, or switch to one of yours."
"""Message of a page about an organisation, to a visitor who acts in none."""

Content = Any
"""The JSON that an operation answers."""

_DIALOG = "div#dialog-content"
"""The `HX-Target` of a page that htmx opens in the dialog."""
_SECRET_PARAMETERS = ("token", "user_code", "code", "state")
"""Parameters of addresses that no other site may see in a `Referer`."""
_ID_IN_MESSAGE = re.compile(r" '[a-z]{3}_[0-9a-z]+'")
INVALID_SESSION = ("missing_credentials", "invalid_token", "token_expired")
"""Codes of operations, if the visitor has to sign in again."""


class SignInRequiredError(Exception):
    """The page needs a signed-in visitor; `back` is the address that the sign-in leads back to."""

    def __init__(self, back: str) -> None:
        super().__init__(back)
        self.back = back


@dataclass(frozen=True, slots=True)
class Visitor:
    """A signed-in person, and the organisation that they act in, if any."""

    name: str
    email: str
    organization: Mapping[str, Any] | None
    """Id, name and the visitor's role, as `GET /v1/me` shows them."""


@dataclass(frozen=True, slots=True)
class Member:
    """The visitor of a page, as a member of the organisation that they act in."""

    id: str
    name: str
    organization: str
    """Name of the organisation."""
    role: str
    plan: str
    settings: Mapping[str, Any]
    """Those of the organisation."""


@dataclass(frozen=True, slots=True)
class PageContext:
    """Passed to every page."""

    contract: Contract
    operations: Operations
    mailed_links: MailedLinks
    guard: FormGuard
    clock: Callable[[], datetime]
    """Return the present instant, as the operations read it."""
    sign_up: SignUpPolicy
    mcp_url: str
    """Address of the MCP server."""

    def session_token(self) -> str:
        """Return the session token that the browser sent, or an empty text.

        It is the subject of the forms as well: a form that was shown under another sign-in is refused.
        """
        return request.cookies.get(cookie_name(self.guard.web_url), "")

    def call(
        self,
        operation_id: str,
        *,
        path_params: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        if_match: str = "",
    ) -> Answer:
        """Return the answer of an operation, called as the visitor; raise OperationError if it refuses.

        A write of a form that is sent twice takes effect once.
        """
        operation = self.contract.operations[operation_id]
        knows_browser = operation_id == "sign_in"  # its cookie gives the person attempts of their own
        token = self.session_token() if operation.security or knows_browser else ""
        call = Call(operation_id, path_params or {}, query or {}, body, token, if_match=if_match)
        if knows_browser:
            device = device_cookie_name(self.guard.web_url)
            call = replace(call, cookie=f"{device}={request.cookies.get(device, '')}")
        if call.session_token and operation.effect == "write":
            call = replace(call, idempotency_key=_idempotency_key(call))
        return self.operations.call(call)

    def open_stream(self, call: Call) -> StreamedAnswer:
        """Return the answer of an operation, called as the visitor, whose body is sent on while it is read."""
        return self.operations.open_stream(replace(call, session_token=self.session_token()))

    def find_visitor(self) -> Visitor | None:
        """Return the signed-in visitor, or None."""
        if not self.session_token():
            return None
        try:
            return self.remember_visitor(self.call("get_me").content)
        except OperationError as error:
            if error.code not in INVALID_SESSION:
                raise
            return None

    def require_visitor(self, back: str) -> Visitor:
        """Return the signed-in visitor; raise SignInRequiredError if there is none."""
        return self.read(back)[0]

    def read(self, back: str, *operation_ids: str) -> tuple[Visitor, list[Content]]:
        """Return the visitor, and the answer of each operation; a list has at most 100 rows.

        Raise SignInRequiredError if no one is signed in, and OperationError if an operation refuses.
        """
        token = self.session_token()
        if not token:
            raise SignInRequiredError(back)
        calls = [Call("get_me", session_token=token)]
        for operation_id in operation_ids:
            is_list = any(each.name == "limit" for each in self.contract.operations[operation_id].parameters)
            calls.append(Call(operation_id, query={"limit": 100} if is_list else {}, session_token=token))
        try:
            me, *answers = self.operations.call_all(calls)
        except OperationError as error:
            if error.code in INVALID_SESSION:
                raise SignInRequiredError(back) from None
            raise
        visitor = self.remember_visitor(me.content)
        if visitor is None:
            raise SignInRequiredError(back)
        return visitor, [answer.content for answer in answers]

    def remember_visitor(self, me: Mapping[str, Any]) -> Visitor | None:
        """Return the visitor, and store them in `g` with what the frame of the dashboard shows.

        Return None for a support session, which has no pages.
        """
        if me["support"]:
            return None
        g.visitor = visitor = Visitor(me["name"], me["email"], me["organization"])
        if visitor.organization is not None:
            organization = visitor.organization
            g.member = Member(
                me["id"],
                me["name"],
                organization["name"],
                organization["role"],
                organization["plan"],
                organization["settings"],
            )
            in_dialog = request.headers.get("HX-Target") == _DIALOG
            g.frame = {
                "frame": "dashboard/dialog.html" if in_dialog else "dashboard/layout.html",
                "member": g.member,
                "sections": SECTIONS,
                "section": web_addresses.SETTINGS,
                "settings_sections": SETTINGS,
                "help": HELP,
                "may": partial(self.may, g.member.role),
                "plan_needed": partial(self.plan_needed, g.member.plan),
            }
        return visitor

    def form_fields(self, *names: str) -> dict[str, str]:
        """Return fields of the form that was sent, without white space around them; raise ForeignFormError."""
        request.max_content_length = request.max_form_memory_size = max_form_bytes(request.path)
        self.guard.check(self.session_token())
        given = {
            name: "\n".join(request.form.getlist(name)) if name in REPEATED else request.form.get(name, "")
            for name in names
        }
        if any("\0" in text or len(text) > max_field_length(name) for name, text in given.items()):
            raise OperationError(422, "validation_failed", "A field of the form is too long or cannot be read.")
        return {name: text if name.endswith("password") else text.strip() for name, text in given.items()}

    def may(self, role: str, operation_id: str) -> bool:
        """True if the role may call the operation."""
        least = self.contract.operations[operation_id].least_role
        return role_reaches(cast(Role, role), cast(Role, least))

    def plan_needed(self, plan: str, operation_id: str) -> str | None:
        """Return the name of the lowest plan with the feature of an operation, if a plan lacks it."""
        feature = self.contract.operations[operation_id].entitlement
        if feature is None or PLANS[plan].includes(feature):
            return None
        return PLANS[plans_with(feature)[0]].name

    def min_length(self, operation_id: str, name: str) -> int:
        """Return how many characters a field of an operation's body needs."""
        schema = self.contract.operations[operation_id].body["application/json"]
        found = walk.properties(self.contract.document, schema, None)[name]
        return int(self.contract.resolve(found).get("minLength", 0))

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page whose forms are protected."""
        secret = self.guard.browser_secret()
        holds_secret = any(name in request.args for name in _SECRET_PARAMETERS) or "?" in request.args.get("next", "")
        values = {"problems": (), "frame": "people/layout.html", **g.get("frame", {}), **values}
        page = render_page(
            template if "/" in template else f"people/{template}",
            status,
            referrer="no-referrer" if holds_secret else "same-origin",
            visitor=g.get("visitor"),
            has_session=bool(self.session_token()),
            token=self.guard.token(secret, self.session_token()),
            key=secrets.token_urlsafe(12),
            now=self.clock(),
            resumed=g.get("resumed", False),
            **values,
        )
        self.guard.set_cookie(page, secret)
        return page

    def render_form(
        self, template: str, error: OperationError | None, labels: Mapping[str, str], **values: Any
    ) -> Response:
        """Return the page of a form; with its problems and their status, if it was refused with an error."""
        if error is None:
            return self.render(template, **values)
        return _with_headers(self.render(template, error.status, problems=problems_of(error, labels), **values), error)

    def error_page(self, error: OperationError) -> Response:
        """Return an error as a page."""
        request_id = error.request_id or request.environ.get("asgi.scope", {}).get(REQUEST_ID)
        message = _ID_IN_MESSAGE.sub("", error.message)
        shown = self.message_page(error_title(error.status), message, error.status, request_id=request_id)
        return _with_headers(shown, error)

    def message_page(
        self,
        title: str,
        message: str,
        status: int,
        *,
        request_id: str | None = None,
        link: tuple[str, str] | None = None,
    ) -> Response:
        """Return a page with one message, and perhaps a link to continue with."""
        return self.render(
            "message.html",
            status,
            title=title,
            message=message,
            request_id=request_id if status >= 500 else None,
            link=link or _way_back(),
        )

    def link_expired(self, message: str, link: tuple[str, str]) -> Response:
        """Return the page of a link that is no longer valid, and where to continue."""
        return self.message_page("This link is no longer valid", message, 404, link=link)

    def to_operation_error(self, error: ServiceError) -> OperationError:
        """Return a refusal by a rule or a port as the operation's would be, with its status in the contract."""
        row = self.contract.errors.get(error.code)
        if row is None:
            logger.error("code %s is not in the catalogue", error.code)
            return OperationError(500, "internal_error", "Something failed on our side; freezes are unchanged.")
        retry_after = None if error.retry_after is None else str(max(0, round(error.retry_after)))
        return OperationError(row.status, error.code, error.message, details=error.details, retry_after=retry_after)

    def with_cookies(self, answer: Answer, back: str) -> Response:
        """Return the redirect that gives the browser the cookies of an answer: of a session, and of a known device."""
        return add_cookies(redirect_to(back), answer)

    def sign_out_response(self, back: str) -> Response:
        """Return the redirect that removes the session cookie and the secret of the forms from the browser."""
        page = redirect_to(back)
        page.headers.add("Set-Cookie", delete_cookie(web_url=self.guard.web_url))
        self.guard.delete_cookie(page)
        return page

    def sign_in_redirect(self, error: SignInRequiredError) -> Response:
        """Return the redirect to the sign-in page, which leads back; a session that has ended is removed."""
        query = "" if error.back == web_addresses.HOME else f"?{urlencode({'next': error.back})}"
        page = redirect_to(web_addresses.SIGN_IN + query)
        if request.headers.get("HX-Request") == "true":  # the page around the part stays: it may hold a filled form
            del page.headers["Location"]
            page.status_code = 401
            return _with_authenticate(page)
        if request.method == "POST" and (kept := kept_fields()):
            return self.sign_in_in_place(kept)
        if self.session_token():
            page.headers.add("Set-Cookie", delete_cookie(web_url=self.guard.web_url))
        return page

    def sign_in_in_place(self, kept: str) -> Response:
        """Return the sign-in for a form that the session did not outlive; it leads back to the form, filled in."""
        return _with_authenticate(self.render("sign_in.html", 401, back=request.path, kept=kept))

    def resume(self, back: str, kept: str, session_token: str, status: int = 200) -> Response:
        """Return the page that leads back to a form, under a sign-in that is not the one it was shown under."""
        address = f"{back.partition('?')[0]}?{urlencode({**asked_of(read_kept(kept)), RESUME: '1'})}"
        token = self.guard.token(self.guard.browser_secret(), session_token)
        return self.render("resume.html", status, address=address, kept=kept, resume_token=token)


def redirect_to(address: str) -> Response:
    """Return the redirect to an address, which may hold a code; the browser requests it with GET (RFC 9110, 15.4.4)."""
    page: Any = redirect(address, 303)
    page.headers["Cache-Control"] = "no-store"
    page.headers["Referrer-Policy"] = "no-referrer"
    return page  # type: ignore[no-any-return]


def add_cookies(page: Response, answer: Answer) -> Response:
    """Return the page, which gives the browser the cookies of an answer."""
    for cookie in answer.headers_named(b"set-cookie"):
        page.headers.add("Set-Cookie", cookie)
    return page


def allow_opener(page: Response) -> Response:
    """Return the page without the header that cuts it off from the window that opened it."""
    page.headers.pop("Cross-Origin-Opener-Policy", None)
    return page


def unknown_button() -> OperationError:
    """Return the error of a form that names none of the buttons of its page."""
    return OperationError(422, "validation_failed", "The form names no action. Reload the page and try again.")


def missing_field(name: str, message: str) -> OperationError:
    """Return the error of a form whose field is empty, where no operation is called."""
    return OperationError(400, "missing_parameter", message, details=(Detail(f"/{name}", message),))


def _way_back() -> tuple[str, str]:
    """Return address and text of the link that a message ends with: to the section of the page, or to the overview."""
    section = g.get("frame", {}).get("section")
    labels = {each.address: each.label for each in SECTIONS if each.address != web_addresses.HOME}
    if section in labels:
        return section, f"Back to {labels[section]}"
    return web_addresses.HOME, "Back to the overview"


def _idempotency_key(call: Call) -> str:
    """Return a key of the form that was shown and of what it sends: sent again unchanged, it is the same request."""
    sent: Sequence[Any] = [request.form.get("key", ""), call.operation_id, call.path_params, call.body]
    return hashlib.sha256(orjson.dumps(sent, option=orjson.OPT_SORT_KEYS)).hexdigest() if sent[0] else ""


def _with_authenticate(page: Response) -> Response:
    page.headers["WWW-Authenticate"] = 'Bearer realm="change-freeze"'
    return page


def _with_headers(page: Response, error: OperationError) -> Response:
    if error.retry_after is not None:
        page.headers["Retry-After"] = error.retry_after
    return _with_authenticate(page) if page.status_code == 401 else page
