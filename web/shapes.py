"""What the fields of a form may hold: what the contract says of the operation that does the same."""

from collections.abc import Mapping

from app.edge.bodies import JSON
from app.edge.validation_errors import BodyViolations, raise_violations
from schemas import walk
from schemas.contract import Contract, Operation
from schemas.dialect import Validators


class Shape:
    """The fields of one operation's body, as the contract says them."""

    def __init__(self, contract: Contract, validators: Validators, operation: Operation) -> None:
        schema = operation.body[JSON]
        self._properties = walk.properties(contract.document, schema, None)
        self._contract = contract
        self._validator = validators.compile(schema)
        self._faults = BodyViolations(contract.document, schema)

    def require(self, body: Mapping[str, str]) -> None:
        """Raise with a row for each field that does not fit."""
        if not self._validator.is_valid(body):
            raise_violations(self._faults.of(body, self._validator.iter_errors(body)))

    def least(self, name: str) -> int:
        """Return how many characters a field has to have."""
        return int(self._contract.resolve(self._properties[name]).get("minLength", 0))
