"""What pages need and no operation offers, because the visitor has no session: the composition root passes it in."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

Purpose = Literal["verify_email", "reset_password", "invitation"]


class MailedLinks(Protocol):
    """Shows what a mailed link is for, to anyone who has it, and uses nothing up."""

    def find(self, purpose: Purpose, token: str) -> Mapping[str, Any] | None:
        """Return what a valid link is for, with names as in the API; None for any other link."""


class PendingAuthorization(Protocol):
    """Rulesets that a member of an organisation asks an administrator at GitHub to authorise."""

    @property
    def requested_by(self) -> str:
        """Name of the member."""

    @property
    def organization(self) -> str:
        """Name of the organisation."""

    @property
    def account(self) -> str:
        """Login of the GitHub account."""

    @property
    def expires_at(self) -> datetime:
        """Instant until which it can be authorised."""

    @property
    def changes(self) -> Sequence[Any]:
        """Rulesets to create, change or remove."""

    @property
    def by_app(self) -> bool:
        """True if the App writes the rulesets with its own permission."""


class RulesetAuthorizations(Protocol):
    """Authorisations by administrators at GitHub, who need no account here: the `state` of the address is the secret.

    Writing takes several transactions and up to 20 seconds, which no operation may. Both methods raise
    NotAuthorizedError and ServiceError.
    """

    def read_request(self, state: str) -> PendingAuthorization:
        """Return what is to be authorised."""

    def confirm(self, state: str, code: str) -> Any:
        """Record the authorisation of the person whose `code` it is, write the rulesets, and return the result."""
