"""Pages that a link from outside leads to: they are about the organisation that it names."""

from flask import request

from rules import web_addresses
from web.context import Visitor


class OtherOrganizationError(Exception):
    """The address names an organisation that the visitor does not act in; `back` is the address."""

    def __init__(self, organization_id: str, back: str) -> None:
        super().__init__(organization_id)
        self.organization_id, self.back = organization_id, back


def address_to_return_to() -> str:
    """Return the address that is requested, to lead back to; of a form that was sent, that of its page."""
    return request.path if request.method == "POST" else request.full_path.rstrip("?")


def require_linked_organization(visitor: Visitor) -> None:
    """Raise OtherOrganizationError if the address names an organisation that the visitor does not act in."""
    named = request.args.get(web_addresses.ORGANIZATION, "")
    if named and named != (visitor.organization or {}).get("id"):
        raise OtherOrganizationError(named, address_to_return_to())
