"""Operations of the tag Freezes."""

from schemas.contract import load_contract

EVERYTHING = {"type": "organization"}
REASON = "Release 4.2 is being rolled out"
UNKNOWN = "frz_00000000000000000000000000"

# What every credentialled operation answers in the same way; `takes_credentials` and the tests of `app/` reach them.
ALIKE = {
    "insufficient_scope",
    "insufficient_permission",
    "organization_not_provisioned",
    "no_organization_selected",
    "impersonation_read_only",
    "idempotency_key_reuse",
    "organization_deleted",
    "installation_removed",
}


def own_codes(operation: str) -> set[str]:
    """Return the codes that an operation lists beyond those that are answered alike everywhere."""
    return set(load_contract().document["x-operations"][operation]) - ALIKE if False else _listed(operation) - ALIKE


def _listed(operation: str) -> set[str]:
    for item in load_contract().document["paths"].values():
        for method in item.values():
            if isinstance(method, dict) and method.get("operationId") == operation:
                return set(method["x-errors"])
    raise LookupError(operation)
