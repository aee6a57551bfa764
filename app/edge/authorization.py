"""Authorization: whether a principal may call an operation, and whether the plan of its organisation includes it."""

from typing import cast

from app.edge.authentication import Identity
from rules.access.permissions import Principal, Role, role_reaches
from rules.billing.plans import require_feature
from rules.errors import ServiceError
from schemas.contract import Operation


class Authorizer:
    """Decides whether a principal may call one operation: raises 410 or 403, the most helpful error first."""

    def __init__(self, operation: Operation) -> None:
        self._organization_required = operation.organization_required
        self._writes = operation.effect == "write"
        self._scopes = frozenset(operation.any_scope)
        self._takes_key = operation.accepts("ApiKey")
        self._takes_session = operation.accepts("Session") or operation.accepts("SessionToken")
        self._least_role = cast("Role | None", operation.least_role) if operation.organization_required else None

    def check(self, identity: Identity) -> None:
        """Raise a 410 or 403 code if the principal may not call the operation."""
        principal = identity.principal
        if self._organization_required and (identity.organization_deleted or principal.organization_id is None):
            _refuse_without_organization(identity)
        if principal.kind == "api_key":
            self._check_key(principal)
        elif principal.kind == "oauth_grant":
            self._check_grant(principal)
        else:
            self._check_session(principal)
        if principal.support and self._writes:
            raise ServiceError("impersonation_read_only", "Support sessions are read-only.")

    def _check_key(self, principal: Principal) -> None:
        if not self._takes_key:
            raise ServiceError(
                "credential_type_not_allowed",
                "This endpoint does not accept API keys. Sign in and use an access token.",
            )
        if self._scopes and self._scopes.isdisjoint(principal.scopes):
            raise ServiceError(
                "insufficient_scope", f"The API key lacks the required scope: {' or '.join(sorted(self._scopes))}."
            )

    def _check_grant(self, principal: Principal) -> None:
        """Require a scope of the grant as of a key, and the role of its person as of a session."""
        if not self._takes_key or not self._takes_session:
            raise ServiceError("credential_type_not_allowed", "This endpoint does not accept connected clients.")
        if self._scopes and self._scopes.isdisjoint(principal.scopes):
            wanted = " or ".join(sorted(self._scopes))
            raise ServiceError("insufficient_scope", f"The connection lacks the required scope: {wanted}.")
        self._check_session(principal)

    def _check_session(self, principal: Principal) -> None:
        if not self._takes_session:
            raise ServiceError("credential_type_not_allowed", "This endpoint accepts API keys only.")
        least = self._least_role
        if least is not None and not principal.support and not role_reaches(principal.role, least):
            raise ServiceError(
                "insufficient_permission", f"This requires the role {least}; your role is {principal.role}."
            )


def require_entitlement(identity: Identity, operation: Operation) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if the plan in force lacks it."""
    if operation.entitlement is not None:
        require_feature(identity.principal.grants.at(identity.now).plan, operation.entitlement)


def _refuse_without_organization(identity: Identity) -> None:
    if identity.organization_deleted:
        raise ServiceError("organization_deleted", "The organisation has been deleted.")
    if identity.organization_count == 0:
        raise ServiceError(
            "organization_not_provisioned",
            "You do not belong to an organisation. Create one with POST /v1/onboarding/bootstrap.",
        )
    message = (
        "No organisation selected. Call POST /api/auth/org/set-active, then get a new token from GET /api/auth/token."
    )
    raise ServiceError("no_organization_selected", message)
