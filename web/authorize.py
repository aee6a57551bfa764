"""`/oauth/authorize`: a person decides what a client may do for them (RFC 6749, 3.1).

The request of the client is the query of the address; the form sends it along as it is. It is checked before the
visitor signs in, and again with the decision. Redirects to the client come from the operations, which know its
addresses.

Two headers differ from those of other pages. The redirect after the form needs a place in `form-action`. And without
`Cross-Origin-Opener-Policy`, here and on the sign-in page before, a client can wait for its answer in the window that
has opened this one.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response, request

from rules import web_addresses
from rules.access.redirect_uris import form_action_source
from web.context import allow_opener, redirect_to
from web.forms import POLICY
from web.operations import OperationError
from web.roles import describe_role
from web.views import PageView

_LABELS = {"scopes": "Permissions", "organization_id": "Organisation"}
_NO_ORGANIZATION = (
    "A client is connected to one organisation. Create one, or accept an invitation, and start again in your client."
)


class Authorize(PageView):
    """The page; its form approves or denies."""

    path = web_addresses.AUTHORIZE

    def get(self) -> Response:
        """Show what the client requests, or redirect to it with an error."""
        query = request.query_string.decode("latin-1")
        previewed = self._preview(query)
        if previewed["location"] is not None:
            return redirect_to(previewed["location"])
        return self._consent_page(query, previewed["consent"])

    def post(self) -> Response:
        """Approve or deny, and redirect to the client."""
        given = self.context.form_fields("query", "decision", "organization_id")
        query, decision = given["query"], given["decision"]
        self.context.require_visitor(self._address(query))
        body: dict[str, Any] = {"query": query, "decision": decision}
        if decision == "approve":
            body["scopes"] = request.form.getlist("scope")
            if given["organization_id"]:
                body["organizationId"] = given["organization_id"]
        try:
            return redirect_to(self.context.call("decide_authorization", body=body).content["location"])
        except OperationError as error:
            if not {detail.path for detail in error.details} & {"/scopes", "/organizationId"}:
                raise
            previewed = self._preview(query)
            if previewed["location"] is not None:
                return redirect_to(previewed["location"])
            return self._consent_page(query, previewed["consent"], error)

    def _preview(self, query: str) -> Mapping[str, Any]:
        previewed: Mapping[str, Any] = self.context.call("preview_authorization", body={"query": query}).content
        return previewed

    def _address(self, query: str) -> str:
        return f"{self.path}?{query}"

    def _consent_page(self, query: str, consent: Mapping[str, Any], error: OperationError | None = None) -> Response:
        visitor, [listed] = self.context.read(self._address(query), "list_my_organizations")
        organizations = listed["data"]
        if not organizations:
            return self.context.message_page("No organisation", _NO_ORGANIZATION, 409)
        wanted = request.form.get("organization_id") or (visitor.organization or {}).get("id")
        values: dict[str, Any] = {
            "consent": consent,
            "query": query,
            "organizations": organizations,
            "chosen": next((each for each in organizations if each["id"] == wanted), organizations[0]),
            "describe_role": describe_role,
            "ticked": request.form.getlist("scope") if error else [scope["name"] for scope in consent["scopes"]],
        }
        page = self.context.render_form("authorize.html", error, _LABELS, **values)
        source = form_action_source(consent["redirectUri"])
        page.headers["Content-Security-Policy"] = POLICY.replace("form-action 'self'", f"form-action 'self' {source}")
        return allow_opener(page)
