"""What the pages share to which GitHub, Slack or a link in Slack leads a person: the request, and how it is refused.

The address names a request that was made for an organisation, which the person may not be acting in.
"""

from collections.abc import Mapping
from typing import Any

from flask import Response

from web.context import PageContext, Visitor
from web.operations import OperationError

EXPIRED = "This address has been used, has expired, or was given to someone else. It is valid for one hour."


def find_requested(context: PageContext, operation_id: str, claim: str, state: str) -> Mapping[str, Any]:
    """Return what a state was given for; raise OperationError unless the visitor may call `claim` for it."""
    requested: Mapping[str, Any] = context.call(operation_id, query={"state": state}).content
    if not context.may(requested["role"], claim):
        least = context.contract.operations[claim].least_role
        message = f"This needs the role {least}; yours is {requested['role']}."
        raise OperationError(403, "insufficient_permission", message)
    return requested


def act_in(context: PageContext, visitor: Visitor, organization: Mapping[str, Any]) -> None:
    """Have the visitor act in an organisation of theirs."""
    if visitor.organization is None or visitor.organization["id"] != organization["id"]:
        context.call("set_active_organization", body={"organizationId": organization["id"]})


def show_refusal(
    context: PageContext, error: OperationError, field: str, message: str, link: tuple[str, str]
) -> Response:
    """Return the page of a refusal; `message` and `link` are those of a secret, in this field, that is not valid."""
    if error.code == "not_found" or any(detail.path in {field, f"/{field}"} for detail in error.details):
        return context.link_expired(message, link)
    return context.error_page(error)
