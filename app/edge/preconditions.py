"""The precondition of an operation that the organisation's plan must include."""

from app.edge.authentication import Identity
from rules.billing.plans import require_feature
from schemas.contract import Operation


def require_entitlement(identity: Identity, operation: Operation) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if the plan in force lacks it."""
    if operation.entitlement is not None:
        require_feature(identity.principal.grants.at(identity.now).plan, operation.entitlement)
