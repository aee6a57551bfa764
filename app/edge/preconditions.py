"""The precondition of an operation that the organisation's plan must include."""

from app.edge.auth import Identity
from rules.billing.plans import plans_with
from rules.errors import ServiceError
from schemas.contract import Operation


def require_entitlement(identity: Identity, operation: Operation) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if the plan in force lacks it."""
    if operation.entitlement is None:
        return
    plan = identity.principal.grants.at(identity.now).plan
    if not plan.includes(operation.entitlement):
        having = ", ".join(plans_with(operation.entitlement))
        raise ServiceError(
            "feature_not_available",
            f"The {plan.id} plan does not include {operation.entitlement}. Plans that do: {having}.",
        )
