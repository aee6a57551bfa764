"""The base of the pages of the dashboard: a signed-in member, what their role and plan allow, and the frame."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlencode

import orjson
from flask import Response, g, request

from web.context import INVALID_SESSION, Content, SignInRequiredError, redirect_to
from web.instants import instant_in_zone
from web.linked_organization import address_to_return_to, require_linked_organization
from web.notices import leave_notice, take_notice
from web.operations import Call, OperationError
from web.views import PageView

WITHOUT_ORGANIZATION = ("organization_not_provisioned", "no_organization_selected", "organization_deleted")
"""Codes of operations about an organisation, for a visitor who acts in none."""
_COUNTS = Call("get_overview", query={"countsOnly": "true"})
"""What the frame shows of the overview."""
_CHANGED = (
    "Someone has changed this since you opened the form. Below is what you entered: open the page again to see it as "
    "it is now, or save again to replace that."
)
_STALE = "precondition_failed"
_MAX_TRIES = 3
_TAG_OF_NOTHING = '"changed"'
"""An `ETag` that no object has: the operation refuses the request, unless it repeats one whose answer is stored."""


class Change(NamedTuple):
    """The operations that read and change an object, and the properties that a form of it shows."""

    reads: str
    changes: str
    names: Sequence[str]
    params: Mapping[str, str] = {}


class NoOrganizationError(Exception):
    """The page is about an organisation, and the visitor acts in none."""


class DashboardPage(PageView):
    """A page of a member of an organisation.

    `read` calls operations and makes the frame; `show` renders a template in it. A page that is opened by `hx-get` into
    the dialog is shown without the frame.
    """

    section: ClassVar[str]
    """Address of the entry of the navigation that the page belongs to."""
    notices: ClassVar[Mapping[str, str]] = {}
    """Notices of the page, by their names."""

    def read(self, *calls: Call) -> list[Content]:
        """Return what operations answer.

        Raise SignInRequiredError, OtherOrganizationError, NoOrganizationError, or the first OperationError.

        The visitor and the overview are read at the same time: the frame shows them. A page whose first call is
        `get_overview` shows that one.
        """
        own = bool(calls) and calls[0].operation_id == _COUNTS.operation_id
        me, overview, *others = self._answers(Call("get_me"), *(() if own else (_COUNTS,)), *calls)
        if isinstance(me, OperationError):
            raise me
        visitor = self.context.remember_visitor(me)
        if visitor is None:
            raise SignInRequiredError(address_to_return_to())
        require_linked_organization(visitor)
        if visitor.organization is None or _code(overview) in WITHOUT_ORGANIZATION:
            raise NoOrganizationError
        g.frame |= {
            "section": self.section,
            "frame_overview": None if isinstance(overview, OperationError) else overview,
        }
        return [_checked(answer) for answer in ((overview, *others) if own else others)]

    def today(self) -> date:
        """Return the present day in the time zone of the organisation, after `read`."""
        return instant_in_zone(self.context.clock(), g.member.settings["timezone"]).date()

    def read_part(self, *calls: Call) -> list[Content]:
        """Return what operations answer, for a part of a page that is read again and again: it has no frame."""
        return [_checked(answer) for answer in self._answers(*calls)]

    def try_all(self, *calls: Call) -> list[Any]:
        """Return what each operation answers, or its OperationError."""
        return self._answers(*calls)

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return the page, with the notice that the form before it left."""
        notice = self.notices.get(take_notice(self.context.guard))
        return self.context.render(f"dashboard/{template}", status, **{"notice": notice, **values})

    def show_form(
        self, template: str, error: OperationError | None, labels: Mapping[str, str], **values: Any
    ) -> Response:
        """Return a page as `show` does; if its form was refused with an error, with its problems.

        `labels` are those of the fields of the form by their names.
        """
        if error is None:
            return self.show(template, **values)
        return self.context.render_form(f"dashboard/{template}", error, labels, **values)

    def show_part(self, template: str, **values: Any) -> Response:
        """Return a part of a page, without the frame."""
        return self.context.render(f"dashboard/{template}", **values)

    def change(self, calls: Change, body: Mapping[str, Any] | None, shown: str) -> Any:
        """Change or delete what a form was filled in from, and return the answer.

        `shown` is the mark of its state that the form sends.

        Raise OperationError if that has been changed since, and then change nothing: the entity tag makes one step of
        comparison and change. What the form does not show may change meanwhile; it is read again then. A form that is
        sent twice is one request, although the first one has changed what it shows.
        """
        for _ in range(_MAX_TRIES):
            tag, stale = self._present_tag(calls, shown)
            try:
                changed = self.context.call(calls.changes, path_params=calls.params, body=body, if_match=tag)
            except OperationError as error:
                if stale and error.status != 404:
                    break
                if error.code != _STALE:
                    raise
            else:
                return changed.content
        raise OperationError(412, _STALE, _CHANGED)

    def _present_tag(self, calls: Change, shown: str) -> tuple[str, bool]:
        """Return the entity tag to change an object with, and whether it is not as the form has shown it."""
        try:
            present = self.context.call(calls.reads, path_params=calls.params)
        except OperationError as error:
            if error.status != 404:
                raise
            return _TAG_OF_NOTHING, True  # a deletion that is sent again
        stale = bool(shown) and shown != state_of(present.content, *calls.names)
        return _TAG_OF_NOTHING if stale else present.header(b"etag") or "", stale

    def may(self, operation_id: str) -> bool:
        """True if the member may call the operation, by their role."""
        return self.context.may(g.member.role, operation_id)

    def _answers(self, *calls: Call) -> list[Any]:
        """Return the content of each answer, or its OperationError. Raise SignInRequiredError."""
        token = self.context.session_token()
        if not token:
            raise SignInRequiredError(address_to_return_to())
        answers = self.context.operations.answer_all([replace(call, session_token=token) for call in calls])
        if any(_code(answer) in INVALID_SESSION for answer in answers):
            raise SignInRequiredError(address_to_return_to())
        return [answer if isinstance(answer, OperationError) else answer.content for answer in answers]


def redirect_with_notice(address: str, notice: str, **parameters: str) -> Response:
    """Return the redirect after a form: the page of the address shows the notice of this name, once."""
    query = f"?{urlencode(parameters)}" if parameters else ""
    return redirect_to(leave_notice(address, notice) + query)


def state_of(shown: Mapping[str, Any], *names: str) -> str:
    """Return a mark of the properties that a form is filled in from, which it sends as `shown`."""
    found = {name: shown[name] for name in names}
    return hashlib.sha256(orjson.dumps(found, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def next_state(state: str, given: Mapping[str, str] | None, error: OperationError | None) -> str:
    """Return the mark that a form sends next time.

    A person whose form was refused because of a change has been told: from then on it is the mark of the present state,
    so that sending the form again replaces that change. After another refusal it stays the mark that the form had.
    """
    return state if given is None or error is None or error.code == _STALE else given.get("shown") or state


def filters(*names: str) -> dict[str, str]:
    """Return the parameters of the address with these names that are not empty, without white space around them."""
    given = {name: request.args.get(name, "").strip() for name in names}
    return {name: text for name, text in given.items() if text}


def _code(answer: Any) -> str | None:
    return answer.code if isinstance(answer, OperationError) else None


def _checked(answer: Any) -> Content:
    if isinstance(answer, OperationError):
        raise answer
    return answer
