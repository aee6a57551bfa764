"""Checks of a person's decision about a client or a device that requests access."""

from collections.abc import Collection

from models.organizations import LoginSession
from rules.access.oauth import with_reads
from rules.errors import Detail, ServiceError
from services.core.unit_of_work import UnitOfWork


def forbid_devices(uow: UnitOfWork, requesters: str) -> None:
    """Raise `credential_type_not_allowed` if the session is a device's: what it approves would outlive it.

    `requesters` is the word of the message for what requests access: "clients" or "devices".
    """
    session = uow.session.get(LoginSession, uow.caller.session_id)
    if session is not None and session.kind == "device":
        message = f"A device cannot authorize {requesters}. Sign in with a browser to do that."
        raise ServiceError("credential_type_not_allowed", message)


def require_organization(organization_id: str | None) -> str:
    """Return the organisation that a connection is for; raise `validation_failed` if none is named."""
    if organization_id is None:
        message = "organizationId is required: a connection is for one organisation"
        raise ServiceError("validation_failed", message, details=(Detail("/organizationId", message),))
    return organization_id


def granted_scopes(requested: Collection[str], ticked: Collection[str]) -> list[str]:
    """Return the ticked scopes that were requested, each write with its read; raise `validation_failed` if none is."""
    scopes = with_reads(set(requested) & set(ticked), requested)
    if not scopes:
        message = "scopes must have at least one of the requested scopes"
        raise ServiceError("validation_failed", message, details=(Detail("/scopes", message),))
    return sorted(scopes)
