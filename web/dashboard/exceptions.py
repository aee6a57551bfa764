"""`/exceptions`: requests to merge during a freeze, decided here, and the exceptions that were granted."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from flask import Response, g, request

from rules import web_addresses
from rules.access.permissions import Role, role_reaches
from web.context import unknown_button
from web.dashboard.freezes import end_of
from web.dashboard.page import DashboardPage, filters, redirect_with_notice
from web.fields import filled
from web.operations import Call, OperationError

STATES = (("", "All"), ("granted", "Granted"), ("denied", "Denied"), ("revoked", "Revoked"), ("expired", "Ended"))
LABELS = {"reason": "The reason", "expires_at": "The end"}
_MAX_ROWS = 25
_FORM = ("reason", "expires_at", "zone", "pin", "decision")


class Exceptions(DashboardPage):
    """The inbox, and below it what was decided."""

    path = section = web_addresses.EXCEPTIONS
    notices = {
        "requested": "The exception is requested. Its pull request must not be merged until it is granted.",
        "granted": "The exception is granted. Its check is being written.",
        "denied": "The request is denied.",
        "revoked": "The exception is revoked.",
        "withdrawn": "The request is withdrawn.",
    }

    def get(self) -> Response:
        """Show pending requests, and decided ones of one state if the address names it; `requests` is a cursor."""
        given = filters("state", "repo", "ruleId", "cursor")
        later = filled({"cursor": filters("requests").get("requests", "")})
        pending, decided, freezes = self.read(
            Call("list_exception_requests", query={"limit": _MAX_ROWS, **later}),
            Call("list_exceptions", query={"limit": _MAX_ROWS, **given}),
            Call("list_freezes", query={"limit": 100, "state": "in_force"}),
        )
        return self.show(
            "exceptions.html",
            requests=[_group(rows) for _, rows in groupby(pending["data"], lambda row: row["requestGroupId"])],
            later_requests=pending["nextCursor"],
            decided={**decided, "data": [row for row in decided["data"] if row["state"] != "pending"]},
            reasons={freeze["id"]: freeze["reason"] for freeze in freezes["data"]},
            may_decide=may_decide(),
            self_approval=g.member.settings["selfApproval"],
            states=STATES,
            given=given,
        )


class _ExceptionForm(DashboardPage):
    """A form about one exception, or the request for it."""

    section = web_addresses.EXCEPTIONS
    operation_id: str
    template: str

    def get(self, item_id: str) -> Response:
        """Show the form."""
        return self.show(self.template, **self._values(item_id))

    def post(self, item_id: str) -> Response:
        """Send the form."""
        given = self.context.form_fields(*_FORM)
        try:
            call = self.context.call(self.operation_id, path_params={"exceptionId": item_id}, body=self.body(given))
        except OperationError as error:
            if error.status != 422 and not error.details:
                raise
            return self.show_form(self.template, error, LABELS, given=given, **self._values(item_id))
        return redirect_with_notice(web_addresses.EXCEPTIONS, self.notice(call.content["data"][0]))

    def _values(self, item_id: str) -> Mapping[str, Any]:
        [exception] = self.read(Call("get_exception", {"exceptionId": item_id}))
        return {"exception": exception, "decision": request.values.get("decision", "grant")}

    def body(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the body of the operation."""
        return filled({"reason": given["reason"]})

    def notice(self, exception: Mapping[str, Any]) -> str:
        """Return the name of the notice after the exception was changed."""
        return "withdrawn" if _is_withdrawn(exception) else str(exception["state"])


class Decide(_ExceptionForm):
    """`/exceptions/{id}/decide`: grant or deny."""

    path = f"{web_addresses.EXCEPTIONS}/{{id}}/decide"
    operation_id, template = "decide_exception_request", "decide.html"

    def body(self, given: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the body of the operation; only a grant has an end and a pin."""
        if given["decision"] not in {"grant", "deny"}:
            raise unknown_button()
        body: dict[str, Any] = {"decision": given["decision"], **filled({"reason": given["reason"]})}
        return body if given["decision"] == "deny" else body | terms_of(given)


class Revoke(_ExceptionForm):
    """`/exceptions/{id}/revoke`: take an exception back, or a request."""

    path = f"{web_addresses.EXCEPTIONS}/{{id}}/revoke"
    operation_id, template = "revoke_exception", "revoke.html"


def terms_of(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the end and the pin of an exception that a form grants or requests."""
    terms: dict[str, Any] = {"pinToHead": given["pin"] == "1"}
    if given["expires_at"]:
        terms["expiresAt"] = end_of(given, "expires_at")
    return terms


def _is_withdrawn(exception: Mapping[str, Any]) -> bool:
    """True of a request that was taken back before it was decided."""
    return exception["state"] == "revoked" and exception["decidedAt"] is None


def may_decide() -> bool:
    """True if the organisation lets the member decide on requests of others, by their role."""
    least = cast(Role, g.member.settings["approval"])
    return role_reaches(cast(Role, g.member.role), least)


def _group(rows: Any) -> dict[str, Any]:
    """Return the first of the requests of one group, which are decided together, with ids and freezes of all."""
    found: Sequence[Mapping[str, Any]] = list(rows)
    return {**found[0], "ids": [row["id"] for row in found], "freezeIds": [row["freezeId"] for row in found]}
