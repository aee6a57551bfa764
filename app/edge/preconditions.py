"""The precondition of an operation that its plan must include."""

from rules.access.entitlements import PLANS, plan_named
from rules.errors import ServiceError
from schemas.contract import Operation


def require_entitlement(plan: str, operation: Operation) -> None:
    """Raise `feature_not_available`, with the plans that have the feature, if the organisation's plan lacks it."""
    wanted = operation.entitlement
    if wanted and wanted not in plan_named(plan).entitlements:
        having = ", ".join(each.name for each in PLANS.values() if wanted in each.entitlements)
        raise ServiceError(
            "feature_not_available", f"The {plan} plan does not include {wanted}. Plans that do: {having}."
        )
